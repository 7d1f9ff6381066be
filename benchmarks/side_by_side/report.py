"""Write `docs/benchmarks.md` from the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from side_by_side.brokers import JVM_HEAP, PROPERTIES
from side_by_side.certificate import CIPHER_SUITE
from side_by_side.figures import (
    BUSY_ENOUGH,
    OURS,
    OWN_SHARE,
    THEIRS,
    RowRuns,
    Spread,
    cpu_ms_per_record,
    cpu_s_per_gb,
    mb_per_s,
    records_per_s,
)
from side_by_side.results import Results
from side_by_side.rows import AT_REST, GROUPS, HANDSHAKES, START, all_rows
from side_by_side.workloads import Workload

LABELS = {OURS: "Penstock", THEIRS: "Apache Kafka"}
NOTHING = ""

HEAD = """# Penstock beside Apache Kafka

This part compares one Penstock node with one Apache Kafka node. They run in turn on the same machine and
disk, with the same `server.properties`, clients and data. `make bench-kafka` measures and writes this page.
It needs Linux, two cores, a C compiler, Java, and Maven Central or jars fetched before. Rows over TLS also
need OpenSSL's library.

## How it is measured

- **One core each.** The broker's process is pinned to one core, and all clients to another. A figure
  measures the *broker* only if its core was at least {busy:.0%} busy, including the kernel's work.
  Otherwise the client, the disk or the wait for responses limited the rate. **≥** before a ratio: Apache
  Kafka's core was busy enough and Penstock's was not, so Penstock could have done more. **( )** around a
  ratio: Apache Kafka's core was not busy enough, so the client or the disk may have limited Apache Kafka.
- **Interleaved rounds.** In each round, both brokers are started on an empty directory, one after the
  other, warmed up, and run through the rows. The broker that goes first alternates. Figures are medians
  over the rounds, followed by the range if it is wider than 5 %. Ratios are medians of the rounds' own
  ratios, and are above 1 where Penstock is better.
- **The same durability.** Both sides have their defaults: an acknowledgement means that the data is in the
  page cache, and no flush is awaited, except in the row that says so.
- **The clients.** The raw client (`penstock/bench/load_generator/wire.c`) sends prebuilt batches of 16 KiB
  (the Java producer's default) over plain sockets. It reads only the header of each fetched batch and
  discards the rest, so that one core of client can load one core of broker. Unless a row says otherwise,
  there are 16 partitions, a request with a batch for each of them, 10 connections with 5 requests in
  flight, and acks=1.
  Compressed batches contain text that shrinks to about a third; records/s and MB/s count values before
  compression. Rows at full speed show the latency of requests that queue behind others. Latencies can be
  compared in rows at a fixed rate, where each request is timed from the moment when it was due.
- **Rows over TLS** run on brokers that are started and warmed up for them alone, with a second listener that
  encrypts. Both brokers have the same certificate, with an RSA key of 2,048 bits, as most servers have. The
  raw client uses OpenSSL with TLS 1.3 and the default suites, of which both brokers choose
  `{suite}`. As in the Java producer, each batch becomes a TLS record of its own. The client
  decrypts everything that it fetches, and verifies no certificate. Both brokers encrypt in their own process.
  Neither uses the kernel's TLS, which the table below lists: only with it could `sendfile` send encrypted
  data. A **full handshake** is a new connection, a handshake that resumes no session, one ApiVersions
  request, and the close.
- **Busy** shows two figures: how busy the broker's core was, including the kernel's work for it, and how
  busy the broker's process alone was. If the second is less than {own:.0%} of the first, something else
  used the core, and it does not count as busy.
- **CPU s/GB** is the processor time of the broker's process for a gigabyte of values, and **CPU ms each** is
  that for one handshake. **Memory** is its resident set.
- **The JVM** has the settings of Kafka's own scripts: {heap}, G1, pauses of 20 ms.
- Both brokers are configured with {properties}.
"""


def render(results: Results) -> str:
    """Return the page, without rows that were never measured."""
    told = ", ".join(f"`{name}={value}`" for name, value in PROPERTIES.items())
    parts = [
        HEAD.format(
            busy=BUSY_ENOUGH, own=OWN_SHARE, heap=" ".join(JVM_HEAP), properties=told, suite=CIPHER_SUITE
        ),
        machine_table(results),
    ]
    sections: dict[str, list[RowRuns]] = {}
    for row in all_rows():
        fixed_rate = isinstance(row.work, Workload) and row.work.fixed_rate
        runs = RowRuns(row.name, results.runs, fixed_rate=fixed_rate)
        if runs.of(OURS) or runs.of(THEIRS) or runs.error(OURS) or runs.error(THEIRS):
            sections.setdefault(row.section, []).append(runs)
    at_rest, groups = sections.pop(AT_REST, []), sections.pop(GROUPS, [])
    loads = [runs for title, rows in sections.items() if title != HANDSHAKES for runs in rows]
    parts.append(_summary(loads, results))
    parts += [_section(title, rows) for title, rows in sections.items()]
    if groups:
        parts.append(_groups(groups))
    parts.append(_start_and_rest(RowRuns(START, results.runs), at_rest))
    return "\n".join(parts)


def machine_table(results: Results) -> str:
    lines = [f"| {name} | {value} |" for name, value in results.machine.items()]
    scales = sorted({run.scale for run in results.runs})
    rounds = len({run.round for run in results.runs})
    volume = (
        "" if scales == [1.0] else f", with the volumes of the rows times {' and '.join(map(str, scales))}"
    )
    note = f"Rounds: {rounds}{volume}."
    return "\n".join(["## The machine", "", "| | |", "| --- | --- |", *lines, "", note, ""])


# --- the summary ---


def _summary(rows: list[RowRuns], results: Results) -> str:
    lines = ["## In short", ""]
    throughput = [runs for runs in rows if not runs.fixed_rate]
    lines += _standing("records/s", throughput, lambda runs: runs.ahead(records_per_s), paced=True)
    lines += _standing("processor time a gigabyte", rows, _cheaper)
    latency = [runs for runs in rows if runs.fixed_rate]
    lines += _standing("p99 at a fixed rate", latency, _sooner)
    stalls = [run.measurement for run in results.runs if run.broker == OURS and run.measurement is not None]
    slow = sum(measurement.stalls_over_10_ms or 0 for measurement in stalls)
    queued = sum(measurement.queued_stalls or 0 for measurement in stalls)
    worst_ms = max((measurement.worst_stall_ms or 0.0 for measurement in stalls), default=0.0)
    because = f" ({queued} of them only because the node waited for a processor)" if queued else ""
    lines.append(
        f"- Stalls of Penstock's event loop over 10 ms: {slow} in all runs{because};"
        f" the longest {worst_ms:.1f} ms."
    )
    return "\n".join([*lines, ""])


def _standing(
    what: str, rows: list[RowRuns], ratio: Callable[[RowRuns], Spread | None], *, paced: bool = False
) -> list[str]:
    """Summarize the ratios; with `paced` they only compare brokers if Penstock set the pace."""
    ratios = [(runs, found.median) for runs in rows if (found := ratio(runs)) is not None]
    if not ratios:
        return []
    behind = [(runs, value) for runs, value in ratios if value < 1]
    ours = [f"{runs.name} ({value:.2f})" for runs, value in behind if not paced or runs.busy(OURS)]
    others = [f"{runs.name} ({value:.2f})" for runs, value in behind if paced and not runs.busy(OURS)]
    line = f"- **{what}**: ahead on {len(ratios) - len(behind)} of {len(ratios)} rows"
    if ours:
        line += f"; behind on {', '.join(ours)}"
    if others:
        line += f"; behind, with Penstock's core idle for a tenth of the time or more, on {', '.join(others)}"
    return [f"{line}."]


def _cheaper(runs: RowRuns) -> Spread | None:
    return runs.ahead(cpu_s_per_gb, less_is_better=True)


def _sooner(runs: RowRuns) -> Spread | None:
    return runs.ahead(lambda measurement: measurement.p99_ms, less_is_better=True)


# --- tables ---


def _section(title: str, rows: list[RowRuns]) -> str:
    form = HANDSHAKE_TABLE if title == HANDSHAKES else LOAD_TABLE
    numbers = len(form.columns) + len(form.ratio_columns)
    lines = [
        f"## {title}",
        "",
        f"| {' | '.join(('row', 'broker', *form.columns, *form.ratio_columns))} |",
        "| --- | --- |" + " ---: |" * numbers,
    ]
    for runs in rows:
        ratios = form.ratios(runs)
        lines += [_line(runs, OURS, form, ratios), _line(runs, THEIRS, form, [NOTHING] * len(ratios))]
    return "\n".join([*lines, ""])


def _line(runs: RowRuns, broker: str, form: Table, ratios: list[str]) -> str:
    name = runs.name if broker == OURS else NOTHING
    if not runs.of(broker):
        reason = (runs.error(broker) or "not measured").splitlines()[0][:120].replace("|", "/")
        return f"| {name} | {LABELS[broker]} | {reason} |" + " |" * (len(form.columns) - 1 + len(ratios))
    return f"| {' | '.join((name, LABELS[broker], *form.cells(runs, broker), *ratios))} |"


def _load_cells(runs: RowRuns, broker: str) -> list[str]:
    return [
        cell(runs.spread(broker, records_per_s), count),
        cell(runs.spread(broker, mb_per_s), count),
        *_latencies(runs, broker),
        cell(runs.spread(broker, cpu_s_per_gb), seconds),
        _busy(runs, broker),
        cell(runs.spread(broker, lambda m: m.resident_mb), count, with_range=False),
    ]


def _handshake_cells(runs: RowRuns, broker: str) -> list[str]:
    return [
        cell(runs.spread(broker, records_per_s), count),
        *_latencies(runs, broker),
        cell(runs.spread(broker, cpu_ms_per_record), milliseconds),
        _busy(runs, broker),
    ]


def _latencies(runs: RowRuns, broker: str) -> list[str]:
    return [
        cell(runs.spread(broker, lambda m: m.p50_ms), milliseconds),
        cell(runs.spread(broker, lambda m: m.p99_ms), milliseconds),
        cell(runs.spread(broker, lambda m: m.p999_ms), milliseconds),
    ]


def _busy(runs: RowRuns, broker: str) -> str:
    core = cell(runs.spread(broker, lambda m: m.core_busy), "{:.0%}".format, with_range=False)
    own = cell(runs.spread(broker, lambda m: m.broker_busy), "{:.0%}".format, with_range=False)
    return f"{core}, {own}"


def _load_ratios(runs: RowRuns) -> list[str]:
    return [_throughput(runs), cell(_cheaper(runs), times), cell(_sooner(runs), times)]


def _handshake_ratios(runs: RowRuns) -> list[str]:
    cheaper = runs.ahead(cpu_ms_per_record, less_is_better=True)
    return [_throughput(runs), cell(cheaper, times), cell(_sooner(runs), times)]


def _throughput(runs: RowRuns) -> str:
    ratio = cell(None if runs.fixed_rate else runs.ahead(records_per_s), times)
    if ratio and not runs.busy(THEIRS):
        return f"({ratio})"
    return f"≥ {ratio}" if ratio and not runs.busy(OURS) else ratio


class Table(NamedTuple):
    """The columns of a table with a line for each broker; the first line of a row has its ratios."""

    columns: tuple[str, ...]
    cells: Callable[[RowRuns, str], list[str]]
    ratio_columns: tuple[str, ...]
    ratios: Callable[[RowRuns], list[str]]


LOAD_TABLE = Table(
    ("records/s", "MB/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU s/GB", "busy", "memory MB"),
    _load_cells,
    ("× records/s", "× less CPU", "× less p99"),
    _load_ratios,
)
HANDSHAKE_TABLE = Table(
    ("handshakes/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU ms each", "busy"),
    _handshake_cells,
    ("× handshakes/s", "× less CPU", "× less p99"),
    _handshake_ratios,
)


def _groups(rows: list[RowRuns]) -> str:
    lines = [
        f"## {GROUPS}",
        "",
        "librdkafka consumers of a topic with 100 partitions. The time ends with the last assignment.",
        "",
        "| | Penstock | Apache Kafka | × sooner |",
        "| --- | ---: | ---: | ---: |",
    ]
    for runs in rows:
        ours, theirs = (
            cell(runs.spread(broker, lambda m: m.seconds), "{:.2f} s".format) for broker in (OURS, THEIRS)
        )
        sooner = cell(runs.ahead(lambda m: m.seconds, less_is_better=True), times)
        lines.append(f"| {runs.name} | {ours} | {theirs} | {sooner} |")
    return "\n".join([*lines, ""])


def _start_and_rest(start: RowRuns, rest: list[RowRuns]) -> str:
    lines = ["## Start and rest", "", "| | Penstock | Apache Kafka |", "| --- | ---: | ---: |"]

    def add(label: str, runs: RowRuns, show: Callable[[RowRuns, str], str]) -> None:
        lines.append(f"| {label} | {show(runs, OURS)} | {show(runs, THEIRS)} |")

    add(START, start, lambda runs, broker: cell(runs.spread(broker, lambda m: m.seconds), "{:.2f} s".format))
    add(
        "memory after the first record",
        start,
        lambda runs, broker: cell(runs.spread(broker, lambda m: m.resident_mb), "{:.0f} MB".format),
    )
    for runs in rest:
        for label, name, form in (
            ("memory added", "added_mb", "{:.0f} MB".format),
            ("of its core while nothing happens", "idle_cpu", "{:.1%}".format),
        ):
            add(f"{runs.name}: {label}", runs, _fact(name, form))
    return "\n".join([*lines, ""])


def _fact(name: str, form: Callable[[float], str]) -> Callable[[RowRuns, str], str]:
    return lambda runs, broker: cell(runs.spread(broker, lambda m: m.facts.get(name)), form)


def cell(figure: Spread | None, form: Callable[[float], str], *, with_range: bool = True) -> str:
    if figure is None:
        return NOTHING
    wide = figure.most - figure.least > 0.05 * abs(figure.median)
    text = form(figure.median)
    return f"{text} ({form(figure.least)}–{form(figure.most)})" if wide and with_range else text


def count(value: float) -> str:
    """Format three significant digits, in thousands or millions if that is shorter."""
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    return f"{value / 1e3:,.0f} k" if value >= 10_000 else f"{value:,.0f}"


def milliseconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def seconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def times(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
