"""The run of the demo: it starts all parts, kills some of them at random moments, and compares the copies."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

from penstock.demo.capture.copies import (
    VIEWED,
    SqlView,
    differences,
    read_topics,
    rows_of_database,
    rows_of_delta,
    sql_view,
)
from penstock.demo.capture.postgres import Postgres
from penstock.demo.capture.storm import ROWS, Storm
from penstock.mirroring import Mirror, MirrorSettings
from penstock.mirroring.database import Database
from penstock.mirroring.selection import Selection
from penstock.mirroring.tables import Place

if TYPE_CHECKING:
    from penstock.testing import Cluster

Victim = Literal["worker", "broker", "database"]
PREFIX: Final = "shop"
_KILLS_OF_EACH: Final = 2
_PAUSES_S: Final = (3.0, 7.0)
"""The shortest and the longest time between two kills."""
_LOOK_S: Final = 0.1
_LINE_EVERY_S: Final = 4.0
_CATCH_UP_S: Final = 120.0
_INTERVAL_S: Final = 1.0
_MEMORY: Final = "768m"

Say = Callable[[str], object]
Step = Callable[[str, float], object]


@dataclass
class Outcome:
    """The figures of a run, and the differences of each copy from the database."""

    seed: int
    version: str = ""
    rows: int = 0
    transactions: int = 0
    changes: int = 0
    rolled_back: int = 0
    truncates: int = 0
    records: int = 0
    lost: int = 0
    repeated: int = 0
    batches: int = 0
    kills: dict[Victim, int] = field(default_factory=dict)
    differences: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_equal(self) -> bool:
        return not any(self.differences.values()) and not self.lost and not self.repeated


def run(seed: int, say: Say, step: Step, kills: int = _KILLS_OF_EACH) -> Outcome:
    """Run the demo. Raises PostgresMissing, MirrorError, ClusterError."""
    began_s = time.monotonic()
    outcome = Outcome(seed)
    with Postgres() as postgres, _scratch() as directory:
        storm = Storm(postgres.url, seed)
        storm.prepare()
        outcome.version = postgres.version
        step(f"PostgreSQL {outcome.version} with {2 * ROWS:,} rows", time.monotonic() - began_s)
        with _cluster() as cluster, _mirror(cluster, postgres, directory, say, step) as mirror:
            with sql_view(cluster.bootstrap_servers, PREFIX) as view:
                _Run(storm, postgres, cluster, mirror, view, outcome, say).storm(random.Random(seed), kills)
                begun_s = time.monotonic()
                mirror.catch_up(mirror.look, _CATCH_UP_S)
                step("topics and tables have caught up", time.monotonic() - begun_s)
                _compare(outcome, postgres.url, cluster.bootstrap_servers, directory / "lake", view)
            outcome.batches = mirror.applied.batches
    outcome.seconds = time.monotonic() - began_s
    return outcome


@dataclass
class _Run:
    """The storm, and what is killed meanwhile."""

    changes: Storm
    postgres: Postgres
    cluster: Cluster
    mirror: Mirror
    view: SqlView
    outcome: Outcome
    say: Say

    def storm(self, rng: random.Random, kills: int) -> None:
        """Let changes happen, and kill each victim some times."""
        victims = [victim for victim in get_args(Victim) for _ in range(kills)]
        rng.shuffle(victims)
        self.changes.start()
        try:
            for victim in victims[: len(victims) // 2]:
                self._watch(rng.uniform(*_PAUSES_S))
                self._kill(victim)
            self.changes.alter()
            self.say("added the table inv.returns and the column inv.products.shelf")
            for victim in victims[len(victims) // 2 :]:
                self._watch(rng.uniform(*_PAUSES_S))
                self._kill(victim)
            self._watch(_PAUSES_S[1])
        finally:
            self.changes.stop()
        self.outcome.transactions = self.changes.committed
        self.outcome.changes = self.changes.changes
        self.outcome.rolled_back = self.changes.rolled_back
        self.outcome.truncates = self.changes.truncates

    def _watch(self, seconds: float) -> None:
        """Let time pass, and show how far the copies are."""
        end_s = time.monotonic() + seconds
        line_s = time.monotonic()
        while time.monotonic() < end_s:
            self.mirror.look()
            if time.monotonic() > line_s:
                line_s += _LINE_EVERY_S
                viewed = self.view.count()
                self.say(
                    f"  committed {self.changes.changes:7,} changes   in Delta tables "
                    f"{self.mirror.applied.total:7,}   products in the SQL view "
                    f"{'-' if viewed is None else f'{viewed:,}'}"
                )
            time.sleep(_LOOK_S)

    def _kill(self, victim: Victim) -> None:
        self.outcome.kills[victim] = self.outcome.kills.get(victim, 0) + 1
        self.say(f"kill -9: the {victim}")
        if victim == "worker":
            self.mirror.worker.kill()
        elif victim == "broker":
            self.cluster.kill()
            self.cluster.start()
        else:
            self.postgres.kill()
            self.postgres.start()


def _compare(outcome: Outcome, url: str, bootstrap: str, lake: Path, view: SqlView) -> None:
    expected = rows_of_database(url)
    outcome.rows = sum(map(len, expected.values()))
    topics = read_topics(bootstrap, PREFIX)
    outcome.records, outcome.lost, outcome.repeated = topics.records, topics.lost, topics.repeated
    tables = rows_of_delta(lake)
    for name, found in (("topics", topics.rows), ("Delta tables", tables)):
        outcome.differences[name] = [
            f"inv.{table} {line}"
            for table, rows in expected.items()
            for line in differences(found[table], rows)
        ]
    outcome.differences["SQL view"] = differences(view.rows(), expected["products"], VIEWED)


@contextmanager
def _cluster() -> Iterator[Cluster]:
    from penstock.testing import Cluster

    with Cluster(fork=False) as cluster:
        yield cluster


@contextmanager
def _mirror(cluster: Cluster, postgres: Postgres, directory: Path, say: Say, step: Step) -> Iterator[Mirror]:
    """A mirror that has copied the rows and follows the changes."""
    from penstock.spark.launching.background import SessionInBackground

    begun_s = time.monotonic()
    name = f"penstock_{PREFIX}"
    settings = MirrorSettings(
        Database.of(postgres.url),
        Place.of(f"delta:{directory / 'lake'}"),
        Selection.of(["inv.*"]),
        *(PREFIX, cluster.bootstrap_servers, directory / "mirror", name, name),
        interval_s=_INTERVAL_S,
    )
    with SessionInBackground(
        "penstock demo cdc",
        extra_conf={"spark.driver.memory": _MEMORY},
        profile="quick",
        log_file=directory / "spark.log",
        own_process_group=True,
        share_classes=True,
    ) as spark:
        mirror = Mirror(settings, spark.session, say, say)
        with closing(mirror):
            mirror.start()
            mirror.start_tables()
            mirror.catch_up(mirror.look, _CATCH_UP_S)
            step("a worker with the connector and Spark have copied the rows", time.monotonic() - begun_s)
            yield mirror


@contextmanager
def _scratch() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
