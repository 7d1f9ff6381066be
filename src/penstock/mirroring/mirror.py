"""A mirror: it keeps tables equal to a PostgreSQL database, and its parts alive."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.mirroring.capture import (
    connector_properties,
    with_passwords,
    worker_properties,
    write_private,
)
from penstock.mirroring.database import Database, Table, listed
from penstock.mirroring.errors import MirrorError
from penstock.mirroring.known import KnownTables, LeftOut
from penstock.mirroring.marks import Marks
from penstock.mirroring.selection import Selection
from penstock.mirroring.tables import Applied, Place, TablesQuery
from penstock.mirroring.worker import WorkerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORKER_FILE: Final = "worker.properties"
_LOOK_S: Final = 0.1
_STATUS_EVERY_S: Final = 1.0
"""How often the worker is asked for the connector's status."""
_MARK_EVERY_S: Final = 2.0
"""How often a mark is repeated until one is captured: one that is older than the slot never is."""
_FAILURES_MAX: Final = 5
"""Failures of the connector or the query in a row, without a batch in between, that end a mirror."""
_IN_A_ROW_S: Final = 600.0
"""A failure after this time does not count as one in a row: a database may have no changes for days."""
_BACK_OFF_S: Final = 1.0


@dataclass(frozen=True)
class MirrorSettings:
    """The choices of a mirror.

    ``name`` is the prefix of its topics, and of the slot's and the publication's names unless these are
    given. ``state`` is the directory of its checkpoint and logs. ``client`` are the properties of Kafka
    clients besides the address, such as security settings, and ``librdkafka`` the same in its words.
    """

    database: Database
    place: Place
    selection: Selection
    name: str
    bootstrap: str
    state: Path
    slot: str
    publication: str
    checkpoint: Path | None = None
    interval_s: float = 2.0
    client: Mapping[str, str] = field(default_factory=dict)
    librdkafka: Mapping[str, Any] = field(default_factory=dict)


class Mirror:
    """One mirror. `start` it, call `look` often, and `close` it; one thread does all that.

    ``session`` returns the Spark session once it is needed. ``say`` and ``warn`` get lines for people.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        session: Callable[[], SparkSession],
        say: Callable[[str], object],
        warn: Callable[[str], object],
    ) -> None:
        self._settings = settings
        self._say = say
        settings.state.mkdir(parents=True, exist_ok=True)
        self.worker = WorkerProcess(settings.state / _WORKER_FILE, settings.state / "worker.log")
        self._checkpoint = settings.checkpoint or settings.state / "checkpoint"
        self._client = {**settings.librdkafka, "bootstrap.servers": settings.bootstrap}
        self._left_out = LeftOut(settings.state / "left-out")
        self._query = TablesQuery(
            session,
            settings.bootstrap,
            settings.name,
            settings.place,
            self._checkpoint,
            settings.interval_s,
            warn,
            settings.client,
            self._left_out,
        )
        self._warn = warn
        self._follows = False
        self._status_s = 0.0
        self._failures = 0
        self._batches_at_failure = 0
        self._again_s = 0.0
        self._failed_s = 0.0

    @property
    def applied(self) -> Applied:
        return self._query.applied

    def slot_lag_bytes(self) -> int | None:
        """Return how much of its log the database keeps for this mirror; None if it does not tell."""
        try:
            return self._settings.database.slot_lag_bytes(self._settings.slot)
        except MirrorError:
            return None

    def start(self) -> list[Table]:
        """Check the database, and start to capture it. Raises MirrorError."""
        settings = self._settings
        tables = settings.database.check(settings.selection)
        warning = settings.database.ensure_publication(settings.publication, tables)
        if warning is not None:
            self._warn(warning)
        known = self._require_copied(tables)
        properties = worker_properties(f"{settings.name}-mirror", settings.bootstrap, settings.client)
        write_private(settings.state / _WORKER_FILE, properties)  # it may have the client's password
        self.worker.launch()
        self.worker.await_ready()
        properties = connector_properties(
            *(settings.name, settings.database, settings.selection, settings.slot, settings.publication)
        )
        secrets = settings.state / "secrets.properties"
        self.worker.put_connector(settings.name, with_passwords(properties, settings.database, secrets))
        known.remember(tables, settings.selection)
        return tables

    def _require_copied(self, tables: list[Table]) -> KnownTables:
        """Raise MirrorError for tables with rows that the connector neither copied nor captured."""
        settings = self._settings
        known = KnownTables(settings.state / "tables.json")
        schemas = sorted({each.schema for each in tables})
        published = settings.database.publishes_later_tables(settings.publication, schemas)
        left_out = self._left_out.names()
        new = settings.database.with_rows(known.suspects(tables, published))
        suspects = [each for each in tables if each in new or each.full_name in left_out]
        if suspects:
            raise MirrorError(
                f"new in this mirror, with rows that it never copied: {listed(suspects)}. Leave them out by "
                "--exclude, or mirror them separately, with another --name, --state and --slot"
            )
        recreated = known.recreated(tables)
        if recreated:
            self._warn(
                f"dropped and created again since they were copied: {listed(recreated)}; rows of the former "
                "tables that were there when they were dropped stay in the mirror"
            )
        return known

    def _require_whole_topics(self) -> None:
        """Raise MirrorError if a new query would not find the first records of topics any more."""
        if any((self._checkpoint / "offsets").glob("[0-9]*")):
            return
        with Marks(self._settings.name, self._client) as marks:
            starts = marks.starts()
        if starts is None:
            raise MirrorError(f"the cluster at {self._settings.bootstrap} does not answer")
        cut = sorted(topic for topic, start in starts.items() if start > 0)
        if cut:
            raise MirrorError(
                f"the checkpoint {self._checkpoint} is empty, and the cluster has deleted the first records "
                f"of {', '.join(cut)}: tables made of the others would lack rows. Use the checkpoint of the "
                "earlier runs, or begin again with another --name, --state and --slot"
            )

    def start_tables(self) -> None:
        """Start the query that keeps the tables. Raises MirrorError."""
        self._require_whole_topics()
        self._follows = True
        self._query.start()

    def look(self) -> None:
        """Start again what has ended. Raises MirrorError for what fails again and again."""
        now_s = time.monotonic()
        if now_s < self._again_s:
            return
        if not self.worker.is_running:
            self._failed(f"the worker has ended, log {self.worker.log_file}")
            self.worker.launch()
        if now_s >= self._status_s:
            self._status_s = now_s + _STATUS_EVERY_S
            self._look_at_connector()
        if self._follows and not self._query.is_active:
            self._failed(f"the query has failed: {self._query.failure}")
            self._query.start()

    def _look_at_connector(self) -> None:
        """Start the connector's task again if it has failed, once the database takes sessions."""
        reason = self.worker.failure(self._settings.name)
        if reason is None:
            return
        try:
            with self._settings.database.session():
                pass
        except MirrorError as error:
            self._say(str(error))
            self._again_s = time.monotonic() + _BACK_OFF_S
            return
        self._failed(f"the connector has failed: {reason}")
        self.worker.restart_failed(self._settings.name)

    def catch_up(self, look: Callable[[], object], timeout_s: float | None = None) -> None:
        """Return once all that is committed now is in the topics, and in the tables if the query runs.

        ``look`` is called often, and may start again what has ended. Raises MirrorError.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s

        def check() -> None:
            look()
            if deadline_s is not None and time.monotonic() > deadline_s:
                raise MirrorError(f"the tables are not equal to the database after {timeout_s:g} s")
            time.sleep(_LOOK_S)

        with Marks(self._settings.name, self._client) as marks:
            token, marked_s = uuid.uuid4().hex, 0.0
            while not marks.has(token):
                if time.monotonic() - marked_s > _MARK_EVERY_S:
                    marked_s = time.monotonic()
                    self._mark(token)
                check()
            ends = None
            while self._follows and (ends is None or not _covers(self._query.positions(), ends)):
                ends = marks.ends() if ends is None else ends
                check()

    def apply_once(self, look: Callable[[], object]) -> None:
        """Apply what the topics have now, and return. Raises MirrorError."""
        self._require_whole_topics()
        self._query.start(once=True)
        while self._query.is_active or self._query.failure is not None:
            look()
            if self._query.failure is not None and time.monotonic() >= self._again_s:
                self._failed(f"the query has failed: {self._query.failure}")
                self._query.start(once=True)
            time.sleep(_LOOK_S)

    def close(self) -> None:
        """Stop the query and the worker. The slot stays, so that the next start continues."""
        self._query.stop()
        self.worker.terminate()

    def _mark(self, token: str) -> None:
        try:
            self._settings.database.mark(token)
        except MirrorError as error:  # it may be about to start again
            self._say(str(error))

    def _failed(self, message: str) -> None:
        """Count a failure. Raises MirrorError if there were too many without a batch in between."""
        now_s = time.monotonic()
        if self.applied.batches > self._batches_at_failure or now_s - self._failed_s > _IN_A_ROW_S:
            self._failures = 0
        self._failed_s = now_s
        self._batches_at_failure = self.applied.batches
        self._failures += 1
        if self._failures >= _FAILURES_MAX:
            raise MirrorError(message)
        self._say(f"{message}; it is started again")
        self._again_s = now_s + _BACK_OFF_S * 2**self._failures


def _covers(positions: Mapping[str, int], ends: Mapping[str, int]) -> bool:
    return all(positions.get(topic, 0) >= end for topic, end in ends.items())
