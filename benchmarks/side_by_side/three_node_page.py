"""`python -m side_by_side.three_node_page`: three nodes of each, in turn, for part of docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from penstock.bench.c_program import BuildError
from penstock.bench.loadgen import Loadgen
from penstock.protocol.api_keys import TARGET_RELEASE
from side_by_side import start_several, three_node_failures, three_node_rows
from side_by_side.brokers import BrokerError, Kafka, Penstock
from side_by_side.cores import Cores
from side_by_side.jars import JarsUnavailable, cache_root, kafka_jars
from side_by_side.machine import describe
from side_by_side.page import write_part
from side_by_side.session import RunFailed
from side_by_side.three_node_report import WRITER, render
from side_by_side.three_node_results import ThreeNodeResults
from side_by_side.three_node_rows import Bench, Figures, Row
from side_by_side.three_nodes import ThreeNodes

ROOT = Path(__file__).parents[2]
SIDES = (Penstock.name, Kafka.name)
FAILURES = (RunFailed, BrokerError, subprocess.TimeoutExpired)


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the nodes are stopped
    if options.render_only:
        results = ThreeNodeResults.read(options.results)
    else:
        try:
            results = Comparison(options).run()
        except (JarsUnavailable, BuildError) as error:
            print(f"bench-cluster cannot run here: {error}", file=sys.stderr)
            return 3
    write_part(options.page, WRITER, render(results))
    print(f"written: {options.page}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="side_by_side.three_node_page")
    parser.add_argument(
        "--rows", action="append", default=[], metavar="TEXT", help="only rows named like that"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--scale", type=float, default=0.3, metavar="FACTOR", help="of volumes; default 0.3")
    parser.add_argument("--only", choices=SIDES, action="append", default=[])
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md", metavar="FILE")
    parser.add_argument(
        "--results", type=Path, default=cache_root() / "side-by-side-three-nodes.json", metavar="FILE"
    )
    parser.add_argument("--render-only", action="store_true", help="write the page from --results")
    parser.add_argument("--directory", type=Path, default=cache_root() / "side-by-side", metavar="DIR")
    parser.add_argument("--broker-core", type=int, default=max(os.sched_getaffinity(0)), metavar="N")
    return parser.parse_args()


class Comparison:
    """Every row in every round; the order of the two sides alternates from round to round.

    Raises:
        JarsUnavailable, BuildError: a requirement is missing.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        others = sorted(os.sched_getaffinity(0) - {options.broker_core})
        if not others:
            raise JarsUnavailable("two cores are needed, one for the brokers and one for their clients")
        self._options = options
        self._cores = Cores(options.broker_core, others[0])
        self._jars = kafka_jars()
        self._directory: Path = options.directory
        self._directory.mkdir(parents=True, exist_ok=True)
        self._bench = Bench(Loadgen(), self._directory / "batches", options.scale)
        sides = [
            Penstock(self._directory, self._cores.broker),
            Kafka(self._directory, self._cores.broker, self._jars, TARGET_RELEASE),
        ]
        self._results = ThreeNodeResults(
            machine=describe(self._directory, self._cores, list(sides)), scale=options.scale
        )

    def run(self) -> ThreeNodeResults:
        rows = [
            row for row in (*three_node_rows.rows(), *three_node_failures.rows()) if self._is_chosen(row.name)
        ]
        several = [count for count in start_several.COUNTS if self._is_chosen(start_several.name_of(count))]
        sides = self._options.only or SIDES
        for round_ in range(1, self._options.rounds + 1):
            for side in (sides if round_ % 2 else sides[::-1]) if rows else ():
                self._take_turn(side, round_, rows)
            for count in several:
                self._start_several(count, round_)
        return self._results

    def _is_chosen(self, name: str) -> bool:
        return not self._options.rows or any(text in name for text in self._options.rows)

    def _take_turn(self, side: str, round_: int, rows: list[Row]) -> None:
        print(f"round {round_}, {side}: starting", flush=True)
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._cores.client})
        try:
            with ThreeNodes(side, self._directory, self._cores, self._jars) as nodes:
                three_node_rows.warm_up(nodes, self._bench)
                for row in rows:
                    self._measure(nodes, row, round_)
        except FAILURES as error:
            print(f"round {round_}, {side}: {error}", flush=True)
        finally:
            os.sched_setaffinity(0, before)

    def _measure(self, nodes: ThreeNodes, row: Row, round_: int) -> None:
        os.sync()  # otherwise this row would pay for the disk writes of earlier ones
        try:
            self._note(row.name, nodes.name, round_, row.run(nodes, self._bench))
        except FAILURES as error:
            print(f"round {round_}, {nodes.name}, {row.name}: {error}", flush=True)
            nodes.complete()

    def _start_several(self, count: int, round_: int) -> None:
        os.sync()
        name = start_several.name_of(count)
        try:
            figures = start_several.run(count, self._directory / "several", self._bench)
            self._note(name, Penstock.name, round_, figures)
        except RunFailed as error:
            print(f"round {round_}, {name}: {error}", flush=True)

    def _note(self, row: str, side: str, round_: int, figures: Figures) -> None:
        self._results.add(row, side, round_, figures)
        self._results.write(self._options.results)
        told = ", ".join(f"{value:,.4g} {name}" for name, value in figures.items())
        print(f"round {round_}, {side}, {row}: {told}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
