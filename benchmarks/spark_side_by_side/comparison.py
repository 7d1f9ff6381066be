"""The rounds: one node for all of them, and in each round a new Spark process for each side."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.testing import Cluster
from side_by_side.results import Results, Run
from side_by_side.session import RunFailed
from spark_side_by_side.rows import EVENTS, Measurable, Row
from spark_side_by_side.session import Session, Topics
from spark_side_by_side.sides import CONNECTOR, SIDES, Side
from spark_side_by_side.workloads import Throughput

WARM_UP = Throughput("copy", EVENTS, has_target=True)


@dataclass(frozen=True)
class Comparison:
    """The rows to measure, the place to run them, and the file for the figures.

    Args:
        directory: holds the node's data, checkpoints and archives; its creator empties it.
        jars: the connector's. scale: multiplies the number of records that rows read. only: names of sides.
        say: prints one line of progress. warm_up: the first work of every new Spark process.
    """

    rows: Sequence[Row]
    results: Results
    directory: Path
    jars: Sequence[Path]
    scale: float
    only: Sequence[str]
    say: Callable[[str], None]
    warm_up: Measurable | None = WARM_UP

    def run(self, rounds: int) -> None:
        """Run every incomplete round up to *rounds*."""
        config = {"log.cleaner.enable": "false", "log.segment.delete.delay.ms": "1000"}
        with Cluster(config, data_dir=self.directory / "node", fork=False) as node:
            topics = Topics(node, self.scale)
            archives: dict[str, Path] = {}
            for round_ in range(1, rounds + 1):
                for side in SIDES if round_ % 2 else reversed(SIDES):
                    if side.name in self.only:
                        jars = self.jars if side is CONNECTOR else ()
                        session = Session(topics, side, self.directory, jars, archives=archives)
                        self._take_turn(session, round_)

    def _take_turn(self, session: Session, round_: int) -> None:
        missing = [row for row in self.rows if self._is_missing(row, session.side, round_)]
        for row in missing:
            if not row.needs_session:
                self._measure(session, row, round_)
        within = [row for row in missing if row.needs_session]
        if not within:
            return
        with session.new_process() as spark:
            session.spark = spark
            if self.warm_up is not None:
                self.warm_up.run(session)
            for row in within:
                self._measure(session, row, round_)
        session.spark = None

    def _is_missing(self, row: Row, side: Side, round_: int) -> bool:
        if side.name not in row.sides or (row.rounds is not None and round_ > row.rounds):
            return False
        return not self.results.measured(row.name, side.name, round_)

    def _measure(self, session: Session, row: Row, round_: int) -> None:
        name = session.side.name
        os.sync()  # otherwise this row would pay for writing back the data of earlier rows
        try:
            measurement = row.work.run(session)
        except RunFailed as error:
            self.say(f"round {round_}, {name}, {row.name}: {error}")
            self.results.add(Run(row.name, name, round_, self.scale, error=str(error)[:500]))
            return
        self.results.add(Run(row.name, name, round_, self.scale, measurement))
        parts = [f"{measurement.seconds:.2f} s"]
        if measurement.records:
            parts.append(f"{measurement.records / measurement.seconds:,.0f} rows/s")
        if measurement.p50_ms is not None and measurement.p99_ms is not None:
            parts.append(f"p50 {measurement.p50_ms:.0f} ms, p99 {measurement.p99_ms:.0f} ms")
        parts += [f"{fact} {value:,.1f}" for fact, value in measurement.facts.items()]
        self.say(f"round {round_}, {name}, {row.name}: {', '.join(parts)}")
