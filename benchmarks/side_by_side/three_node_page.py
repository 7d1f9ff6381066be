"""`python -m side_by_side.three_node_page`: three nodes of each, in turn; a part of docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from penstock.bench.c_program import BuildError, build
from side_by_side.brokers import CLUSTER_PROPERTIES, BrokerError, Kafka, Penstock
from side_by_side.comparison import WIRELOAD
from side_by_side.cores import Cores
from side_by_side.jars import JarsUnavailable, cache_root, kafka_jars
from side_by_side.machine import hardware
from side_by_side.page import write_part
from side_by_side.session import RunFailed
from side_by_side.three_node_rows import Bench, Figures, Row, rows
from side_by_side.three_nodes import ThreeNodes

ROOT = Path(__file__).parents[2]
WRITER = "make bench-cluster"
COLUMNS = {
    "records/s": "{:,.0f}",
    "p50 ms": "{:.2f}",
    "p99 ms": "{:.1f}",
    "CPU s/GB": "{:.2f}",
    "felt s": "{:.2f}",
    "fenced to last leader s": "{:.2f}",
    "idle CPU": "{:.1%}",
    "memory MB": "{:,.0f}",
}
LABELS = {Penstock.name: "Penstock", Kafka.name: "Apache Kafka"}

HEAD = """# Three nodes beside three of Apache Kafka

Replication factor 3, each node broker and controller. All three share the one core that a single broker
has above, and the clients have the other: the figures tell what replication costs in processor time,
not what three machines do. With the raw client one node leads all 8 partitions; processor time is that
of all three nodes until the followers have everything. A failure is felt from the last acknowledgement
before to the first after it, by the partition that waits longest, with librdkafka, acks=all,
`min.insync.replicas=2`, and all timeouts at their defaults. **Fenced to last leader**: 1,000
partitions, from the fencing of a killed node until each partition that it led has taken a record.
**Idle CPU** is that of the node that needs most.

Both are told {properties}, and what is told above. {machine}; {rounds} rounds, medians; volumes times
{scale}.
"""

Results = dict[str, dict[str, list[Figures]]]
"""By row and broker."""


def main() -> int:
    options = _options()
    chosen = [row for row in rows() if not options.rows or any(text in row.name for text in options.rows)]
    others = sorted(os.sched_getaffinity(0) - {options.broker_core})
    try:
        if not others:
            raise JarsUnavailable("two cores are needed, one for the brokers and one for their clients")
        cores = Cores(options.broker_core, others[0])
        results = _measure(options, chosen, cores)
    except (JarsUnavailable, BuildError) as error:
        print(f"bench-kafka cannot run here: {error}", file=sys.stderr)
        return 3
    options.results.write_text(json.dumps(results, indent=1))
    write_part(
        options.page, WRITER, render(results, hardware(options.directory), options.rounds, options.scale)
    )
    print(f"written: {options.page}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="side_by_side.three_node_page")
    parser.add_argument("--rows", action="append", default=[], metavar="TEXT")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--scale", type=float, default=1.0, metavar="FACTOR")
    parser.add_argument("--only", choices=tuple(LABELS), action="append", default=[])
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md", metavar="FILE")
    parser.add_argument(
        "--results", type=Path, default=cache_root() / "side-by-side-three-nodes.json", metavar="FILE"
    )
    parser.add_argument("--directory", type=Path, default=cache_root() / "side-by-side", metavar="DIR")
    parser.add_argument("--broker-core", type=int, default=max(os.sched_getaffinity(0)), metavar="N")
    return parser.parse_args()


def _measure(options: argparse.Namespace, chosen: list[Row], cores: Cores) -> Results:
    """Every row in every round, the order of the two changing from round to round."""
    jars = kafka_jars()
    options.directory.mkdir(parents=True, exist_ok=True)
    bench = Bench(build(WIRELOAD, ("-lpthread",)), options.directory / "batches", options.scale)
    os.sched_setaffinity(0, {cores.client})
    results: Results = {row.name: {} for row in chosen}
    names = options.only or list(LABELS)
    for round_ in range(1, options.rounds + 1):
        for name in names if round_ % 2 else names[::-1]:
            print(f"round {round_}, {name}: starting", flush=True)
            with ThreeNodes(name, options.directory, cores, jars) as nodes:
                for row in chosen:
                    try:
                        figures = row.run(nodes, bench)
                    except (RunFailed, BrokerError) as error:
                        print(f"round {round_}, {name}, {row.name}: {error}", flush=True)
                        break  # the cluster may be left without a node
                    results[row.name].setdefault(name, []).append(figures)
                    told = ", ".join(COLUMNS[key].format(v) + f" {key}" for key, v in figures.items())
                    print(f"round {round_}, {name}, {row.name}: {told}", flush=True)
    return results


def render(results: Results, machine: dict[str, str], rounds: int, scale: float) -> str:
    """The part of the page: medians; behind Penstock's the ratio to Apache Kafka's, above 1 where better."""
    told = ", ".join(f"`{name}={value}`" for name, value in CLUSTER_PROPERTIES.items())
    on = f"{machine['processor']}, {os.cpu_count()} cores, {machine['file system']}"
    lines = [HEAD.format(properties=told, machine=on, rounds=rounds, scale=scale)]
    lines += [f"| row | | {' | '.join(COLUMNS)} |", "| --- | --- |" + " ---: |" * len(COLUMNS)]
    for row, by_broker in results.items():
        for name in LABELS:
            if name in by_broker:
                cells = [_cell(by_broker, name, column) for column in COLUMNS]
                lines.append(
                    f"| {row if name == next(iter(by_broker)) or len(by_broker) == 1 else ''} "
                    f"| {LABELS[name]} | {' | '.join(cells)} |"
                )
    return "\n".join(lines) + "\n"


def _cell(by_broker: dict[str, list[Figures]], name: str, column: str) -> str:
    value = _median(by_broker.get(name, []), column)
    if value is None:
        return ""
    text = COLUMNS[column].format(value)
    theirs = _median(by_broker.get(Kafka.name, []), column)
    if name != Penstock.name or not theirs or not value:
        return text
    better = value / theirs if column == "records/s" else theirs / value
    return f"{text} (× {better:.2f})"


def _median(figures: list[Figures], column: str) -> float | None:
    values = [one[column] for one in figures if column in one]
    return statistics.median(values) if values else None


if __name__ == "__main__":
    sys.exit(main())
