"""Write the part of docs/benchmarks.md about three nodes from the results."""

from __future__ import annotations

from typing import NamedTuple

from side_by_side.brokers import CLUSTER_PROPERTIES
from side_by_side.figures import OURS, THEIRS, Spread
from side_by_side.report import LABELS
from side_by_side.three_node_results import ThreeNodeResults

WRITER = "make bench-cluster"
WIDE = 1.05
"""The ratio from which a range is wide enough to be shown."""


class Column(NamedTuple):
    name: str
    form: str
    ratio: str = ""
    """The heading of how many times better Penstock's figure is; "" if that is not shown."""
    more_is_better: bool = False


LOAD = (
    Column("records/s", "{:,.0f}", "× records/s", True),
    Column("records per CPU s", "{:,.0f}", "× per CPU s", True),
    Column("p50 ms", "{:.2f}"),
    Column("p99 ms", "{:.2f}", "× less p99"),
    Column("p99.9 ms", "{:.1f}"),
    Column("memory MB", "{:,.0f}"),
)
FAILURES = (
    Column("felt s", "{:.2f}", "× less felt"),
    Column("fenced to last leader s", "{:.2f}", "× sooner led"),
    Column("idle CPU", "{:.1%}", "× less idle CPU"),
    Column("memory MB", "{:,.0f}"),
)
SEVERAL = (
    Column("records/s", "{:,.0f}"),
    Column("records per CPU s", "{:,.0f}"),
    Column("cores of the nodes", "{:.2f}"),
    Column("cores of the clients", "{:.2f}"),
)

HEAD = """# Three nodes beside three of Apache Kafka

This part compares two clusters with replication factor 3. Each node is broker and controller, and both
sides have the same `server.properties`, clients and disk. `make bench-cluster` measures and writes this
part. It needs what `make bench-kafka` needs.

## How it is measured

- **The machine has two cores.** All three nodes share the core that a single broker has above, and the
  clients have the other. So records/s show what replication costs, not what three machines can do.
  **Records per CPU s** counts the processor time of all three nodes, from the first request until the
  followers have every byte (consume: until the last response).
- **Interleaved rounds.** In each round, both clusters are started on empty directories, one after the
  other, warmed up for some seconds with the load that is measured later (so a JVM has compiled it), and run
  through the rows. The cluster that goes first alternates. Figures are medians, followed by the range if it
  is wider than 5 %. Ratios are medians of the rounds' own ratios, and are above 1 where Penstock is better.
- **The load** is that of the same raw client: one node leads all 8 partitions; there are 4 connections with 5
  requests in flight on each, and a request has a batch of 16 KiB for every partition. At a fixed rate, a
  request has one batch, or one record if the row says so, and is timed from the moment when it was due. At
  full speed, requests queue behind others.
- **A failure** is felt from the last acknowledgement before it to the first one after it, in the partition
  that waits longest. The client is librdkafka with acks=all and `min.insync.replicas=2`, the node is killed
  with SIGKILL, and all the brokers' timeouts have their defaults. **Fenced to last leader**, with 1,000
  partitions with three replicas, is the time from the fencing of a killed node until each partition that it
  led has accepted a record. **Idle CPU** is that of the node that needs most.
- Both clusters are configured with {properties}, and with the settings above.
"""

SEVERAL_HEAD = """## Several nodes of one command

With `penstock start --brokers N`, each node leads its own partitions (1 KiB, acks 1, no other replicas) and
has a raw client. Nodes and clients share both cores. A node uses at most one core, so N nodes need N cores
and some more for the clients. Two cores show only two things: how much a second node gains from what the
first node and its client leave idle, and how much processor time further nodes need.
"""


def render(results: ThreeNodeResults) -> str:
    """Return this part of the page, without rows that were never measured."""
    told = ", ".join(f"`{name}={value}`" for name, value in CLUSTER_PROPERTIES.items())
    parts = [HEAD.format(properties=told), _machine(results)]
    several = [row for row in results.rows() if row.startswith("--brokers")]
    load = [row for row in results.rows() if row not in several and _has(results, row, "p99 ms")]
    failures = [row for row in results.rows() if row not in several and row not in load]
    if load:
        parts += ["## Replication\n", _table(results, load, LOAD)]
    if failures:
        parts += ["## Failures and rest\n", _table(results, failures, FAILURES)]
    if several:
        parts += [SEVERAL_HEAD, _table(results, several, SEVERAL)]
    return "\n".join(parts)


def _has(results: ThreeNodeResults, row: str, figure: str) -> bool:
    return any(results.spread(row, side, figure) is not None for side in (OURS, THEIRS))


def _machine(results: ThreeNodeResults) -> str:
    lines = [f"| {name} | {value} |" for name, value in results.machine.items()]
    note = f"Rounds: {results.rounds}, with the volumes of the rows times {results.scale:g}."
    return "\n".join(["## The machine", "", "| | |", "| --- | --- |", *lines, "", note, ""])


def _table(results: ThreeNodeResults, rows: list[str], columns: tuple[Column, ...]) -> str:
    sides = [side for side in (OURS, THEIRS) if any(_of_side(results, row, side, columns) for row in rows)]
    ratios = [column for column in columns if column.ratio] if len(sides) > 1 else []
    headings = ["row", "", *(column.name for column in columns), *(column.ratio for column in ratios)]
    marks = ["---", "---", *["---:"] * (len(columns) + len(ratios))]
    lines = [f"| {' | '.join(headings)} |", f"| {' | '.join(marks)} |"]
    for row in rows:
        measured = [side for side in sides if _of_side(results, row, side, columns)]
        for side in measured:
            cells = [row if side == measured[0] else "", LABELS[side]]
            cells += [_cell(results.spread(row, side, column.name), column.form) for column in columns]
            cells += [
                _cell(_ahead(results, row, column) if side == OURS else None, "{:.2f}") for column in ratios
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _of_side(results: ThreeNodeResults, row: str, side: str, columns: tuple[Column, ...]) -> bool:
    return any(results.spread(row, side, column.name) is not None for column in columns)


def _ahead(results: ThreeNodeResults, row: str, column: Column) -> Spread | None:
    return results.ahead(row, column.name, more_is_better=column.more_is_better)


def _cell(found: Spread | None, form: str) -> str:
    if found is None:
        return ""
    text = form.format(found.median)
    if found.most <= found.least * WIDE:
        return text
    return f"{text} ({form.format(found.least)}–{form.format(found.most)})"
