"""Captures a database on a thread of its own: first a snapshot, if one is due, then the stream of changes.

The thread ends when it is stopped, after a snapshot without a stream, or with an error that the next `take`
raises. A broken connection is not an error: the stream resumes after the last record that was read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import Any, Final

import psycopg

from penstock.connect.cdc.batches import Batch, BatchQueue
from penstock.connect.cdc.notifications import NotificationSettings
from penstock.connect.cdc.postgres.events import EventWriter, Position
from penstock.connect.cdc.postgres.framing import format_lsn
from penstock.connect.cdc.postgres.incremental.companion import SnapshotCompanion
from penstock.connect.cdc.postgres.incremental.watermarks import MESSAGE_PREFIX
from penstock.connect.cdc.postgres.reading.publications import ensure_publication, publishes_by_root
from penstock.connect.cdc.postgres.reading.replication import ReplicationSession, StreamEnded
from penstock.connect.cdc.postgres.reading.resuming import ResumePoint, position_of
from penstock.connect.cdc.postgres.reading.settings import CaptureSettings
from penstock.connect.cdc.postgres.reading.slot_lag import LagSettings, SlotWatch
from penstock.connect.cdc.postgres.reading.slots import SlotState, drop_slot, slot_state
from penstock.connect.cdc.postgres.reading.snapshots import (
    begin_snapshot,
    captured_tables,
    snapshot_records,
    tables_to_read,
)
from penstock.connect.cdc.postgres.reading.starting import Start, decide_start
from penstock.connect.cdc.postgres.reading.streaming import WAIT_S, Stream
from penstock.connect.cdc.signals import SignalSettings, open_channels
from penstock.connect.data.records import SourceRecord
from penstock.connect.errors import ChangesLost, ConnectError

log = logging.getLogger(__name__)

_SLOT_NAME_MAX: Final = 54
"""Characters of the slot's name in that of the temporary one; PostgreSQL allows 63 in all."""
_BEAT_TIMEOUT_S: Final = 30
"""Longest run of the user's statement for heartbeats, because the stream waits for it."""
_DROP_RETRY_S: Final = 0.05
_DROP_TIMEOUT_S: Final = 10
"""Longest wait at a stop for the server to end the session that reads the slot, which must be dropped."""


class Capture:
    """The thread, and the queue of what it read."""

    def __init__(self, settings: CaptureSettings, offset: Mapping[str, Any] | None) -> None:
        """Prepare to capture what comes after the stored offset."""
        self._settings = settings
        self._offset = offset
        self._queue = BatchQueue(settings.queue_size)
        self._stopping = threading.Event()
        self._confirmed = 0
        self._waiting: list[ReplicationSession | psycopg.Connection[Any]] = []
        self._own_confirmed: int | None = None
        self._companion: SnapshotCompanion | None = None
        self._watch = SlotWatch(
            *(settings.server, settings.slot, LagSettings.of(settings.properties), self._end_with)
        )
        self._thread = threading.Thread(target=self._run, name=f"capture {settings.slot}", daemon=True)

    def start(self) -> None:
        """Start the thread, and that which watches the slot."""
        self._thread.start()
        if self._settings.streams:
            self._watch.start()

    def gauges(self) -> Mapping[str, float]:
        """Numbers of the slot for metrics."""
        return self._watch.gauges()

    def take(self, timeout_s: float) -> Batch | None:
        """Remove the oldest batch; None if none comes in time. Raises what ended the thread."""
        return self._queue.take(timeout_s)

    def confirm(self, position: int) -> None:
        """Let the thread tell the server that WAL before a position is not needed any more."""
        self._confirmed = max(self._confirmed, position)

    def stop(self) -> None:
        """End the thread and its connections; drop the slot if the configuration says so."""
        self._watch.stop()
        self._stopping.set()
        self._queue.close()
        while self._thread.is_alive():
            for each in tuple(self._waiting):
                with suppress(psycopg.Error):
                    each.cancel()  # a new slot waits for all transactions that write
            if self._companion is not None:
                self._companion.cancel()
            self._thread.join(WAIT_S)
        if self._settings.drops_slot:
            self._drop_slot()

    def _drop_slot(self) -> None:
        """Drop the slot once the server has noticed that the stream's session ended."""
        deadline = time.monotonic() + _DROP_TIMEOUT_S
        with closing(self._settings.server.connect("slot")) as connection:
            while not drop_slot(connection, self._settings.slot):
                if time.monotonic() > deadline:
                    log.warning("slot is still in use and was not dropped slot=%s", self._settings.slot)
                    return
                time.sleep(_DROP_RETRY_S)

    def _end_with(self, error: ConnectError) -> None:
        """End the thread from another one; the next `take` raises the error."""
        self._stopping.set()
        self._queue.close(error)

    def _run(self) -> None:
        try:
            self._capture()
            self._queue.close()
        except Exception as error:
            if self._stopping.is_set():
                return
            log.exception("capture failed slot=%s", self._settings.slot)
            self._queue.close(_as_connect_error(error))

    def _capture(self) -> None:
        settings = self._settings
        start, slot = self._prepare_again()
        position = Position() if start.takes_snapshot else position_of(self._offset or {})
        with closing(settings.catalog_reader(lambda: settings.server.connect("catalog"))) as catalog:
            writer = EventWriter(
                *(settings.events, catalog.schema_of, _clock_us, position, self._is_captured_message)
            )
            resume = start.resume or ResumePoint(0)
            if start.takes_snapshot:
                resume = ResumePoint(self._snapshot(writer, slot is not None, start.resume))
                writer.position = Position(committed=resume.start)
            elif settings.streams and slot is None:
                with self._session() as session:
                    session.create_slot(settings.slot, failover=settings.has_failover)
            if settings.streams and not self._stopping.is_set():
                self._stream(writer, resume, None if start.takes_snapshot else self._offset or {})

    def _is_captured_message(self, prefix: str) -> bool:
        return prefix != MESSAGE_PREFIX and self._settings.filters.message(prefix)

    def _prepare_again(self) -> tuple[Start, SlotState | None]:
        """Prepare, with some more attempts if the server cannot be reached."""
        attempts = Attempts(self._settings.slot_retries, self._settings.slot_retries)
        while True:
            try:
                return self._prepare()
            except psycopg.OperationalError as error:
                if self._stopping.is_set():
                    raise
                self._back_off(attempts, error)

    def _prepare(self) -> tuple[Start, SlotState | None]:
        """Decide how to start, make the publication, and find out about the slot."""
        settings = self._settings
        with self._connected("start") as connection:
            slot = slot_state(connection, settings.slot)
            with self._session() as session:
                end = session.identify().end
            start = decide_start(settings.mode, self._offset, slot, settings.slot, end)
            log.info("capture starts slot=%s snapshot=%s resume=%s", settings.slot, *start)
            if settings.streams:
                tables = captured_tables(connection, settings.filters)
                names = [(each.relation.schema, each.relation.name) for each in tables]
                ensure_publication(connection, settings.publication, settings.properties, names)
            if slot is not None and slot.is_lost:
                drop_slot(connection, settings.slot)
                slot = None
            # a session that still reads the slot, such as this task's last one, may yet confirm more
            self._own_confirmed = None if slot is None or slot.is_active else slot.confirmed
        return start, slot

    def _snapshot(self, writer: EventWriter, has_slot: bool, resume: ResumePoint | None) -> int:
        """Hand all rows over; returns the position from which the stream continues.

        A new slot exports the snapshot of its start. If the slot exists, a temporary one does that, and the
        stream of the slot starts where the temporary one would, or at ``resume``. The rows have that position
        as well, so that their offset resumes there.
        """
        settings = self._settings
        with self._connected("snapshot") as connection:
            with self._session() as session:
                new = None
                if settings.streams:
                    name = f"{settings.slot[:_SLOT_NAME_MAX]}_snapshot" if has_slot else settings.slot
                    new = session.create_slot(name, has_slot, settings.has_failover and not has_slot)
                exported = None if new is None else new.snapshot
                moment = begin_snapshot(connection, exported, settings.snapshot.isolation)
            start = moment.lsn if new is None else new.start
            if resume is not None:
                assert resume.start <= start, "the slot is read from before the snapshot, or changes are lost"
                start = resume.start
            writer.position = Position(lsn=start, xid=moment.xid, committed_us=moment.time_us)
            by_root = publishes_by_root(connection, settings.publication, settings.properties)
            tables = tables_to_read(captured_tables(connection, settings.filters), by_root)
            catalog = settings.catalog_reader(lambda: connection)
            records = snapshot_records(
                *(connection, tables, catalog.schema_of, writer, settings.snapshot),
                NotificationSettings.of(settings.properties),
            )
            log.info(
                "snapshot starts slot=%s lsn=%s tables=%s", settings.slot, format_lsn(start), len(tables)
            )
            while batch := list(islice(records, settings.batch_size)):
                if not self._offer_snapshot(batch):
                    break
        return start

    @contextmanager
    def _connected(self, purpose: str) -> Iterator[psycopg.Connection[Any]]:
        """A session whose statements a stop cancels."""
        with closing(self._settings.server.connect(purpose)) as connection:
            self._waiting.append(connection)
            try:
                yield connection
            finally:
                self._waiting.remove(connection)

    @contextmanager
    def _session(self) -> Iterator[ReplicationSession]:
        """A session for replication whose commands a stop cancels."""
        with closing(ReplicationSession(self._settings.server)) as session:
            self._waiting.append(session)
            try:
                yield session
            finally:
                self._waiting.remove(session)

    def _offer_snapshot(self, records: list[SourceRecord]) -> bool:
        """Hand rows over; False if the thread has to end."""
        batch = Batch(records, (), records[-1])
        while not self._queue.offer(batch, WAIT_S):
            if self._stopping.is_set():
                return False
        return True

    def _stream(self, writer: EventWriter, resume: ResumePoint, offset: Mapping[str, Any] | None) -> None:
        """Read the stream until stopped, over as many sessions as it takes.

        ``offset`` is the stored one, or None after a snapshot.
        """
        settings = self._settings
        signals = open_channels(SignalSettings.of(settings.properties), settings.naming.prefix)
        companion = SnapshotCompanion(settings, writer, signals, offset or {}, offset is not None)
        self._companion = companion
        signals.start()
        try:
            stream = Stream(
                *(settings, writer, resume, self._queue.offer),
                *(lambda: self._confirmed, self._stopping.is_set, self._beat, companion),
            )
            self._read(stream, writer)
        finally:
            signals.stop()
            companion.close()

    def _read(self, stream: Stream, writer: EventWriter) -> None:
        settings = self._settings
        attempts = Attempts(settings.retries, settings.slot_retries)
        while not self._stopping.is_set():
            try:
                with closing(ReplicationSession(settings.server)) as session:
                    parameters = settings.stream_parameters
                    start = stream.resume_point.start
                    session.start(settings.slot, start, settings.publication, parameters)
                    attempts.succeeded()
                    self._follow_slot(writer, start)
                    stream.read(session)
            except (psycopg.OperationalError, psycopg.InterfaceError, StreamEnded) as error:
                self._back_off(attempts, error)

    def _follow_slot(self, writer: EventWriter, start: int) -> None:
        """Let offsets name the position from which the server sends transactions.

        The transaction of the stored offset may be confirmed already and not come again. Should the slot fall
        back to an older position in a crash of the server, later offsets must not ask for that transaction.
        The slot belongs to this session by now, so no other one moves it. If another one moved it before,
        transactions are missing.

        Raises:
            ChangesLost: the slot is beyond what this task has confirmed.
        """
        with closing(self._settings.server.connect("slot")) as connection:
            slot = slot_state(connection, self._settings.slot)
        confirmed = 0 if slot is None else slot.confirmed
        if self._own_confirmed is not None and confirmed > max(self._own_confirmed, self._confirmed, start):
            raise ChangesLost(
                f"the slot {self._settings.slot} was moved to {format_lsn(confirmed)} by someone else, so "
                "changes before it are lost; take a new snapshot with snapshot.mode=when_needed, or delete "
                "the connector's offsets"
            )
        self._own_confirmed = max(confirmed, self._confirmed)
        writer.position.committed = max(writer.position.committed or 0, start, confirmed)

    def _back_off(self, attempts: Attempts, error: Exception) -> None:
        """Wait before another attempt; raises the error if there are to be no more."""
        settings = self._settings
        attempts.failed(error)
        delay = min(settings.retry_first_s * 2 ** min(attempts.count - 1, 16), settings.retry_most_s)
        log.warning("connection failed slot=%s retry_s=%s reason=%s", settings.slot, delay, error)
        self._stopping.wait(delay)

    def _beat(self) -> None:
        """Run the user's statement for heartbeats, and write a message; the stream goes on if they fail."""
        statements = [self._settings.heartbeat_query] if self._settings.heartbeat_query else []
        if self._settings.heartbeat_message:
            statements.append(f"select pg_logical_emit_message(true, '{MESSAGE_PREFIX}', '')")
        for statement in statements:
            try:
                with self._connected("heartbeat") as connection:
                    connection.execute(f"set statement_timeout = '{_BEAT_TIMEOUT_S}s'".encode())
                    connection.execute(statement.encode())
            except psycopg.Error as error:
                log.warning("heartbeat failed statement=%s reason=%s", statement, error)


class Attempts:
    """Counts failed attempts to read the stream, and ends them."""

    def __init__(self, most: int, most_in_use: int) -> None:
        """Limit all attempts, -1 for no limit, and those in which another session uses the slot."""
        self._most = most
        self._most_in_use = most_in_use
        self._in_use = 0
        self.count = 0

    def succeeded(self) -> None:
        """Begin to count again."""
        self.count = self._in_use = 0

    def failed(self, error: Exception) -> None:
        """Count an attempt; raises the error if another one is of no use."""
        self.count += 1
        self._in_use += isinstance(error, psycopg.errors.ObjectInUse)
        is_last = 0 <= self._most < self.count or self._in_use > self._most_in_use
        if is_last or isinstance(error, psycopg.errors.ObjectNotInPrerequisiteState):
            raise error


def _clock_us() -> int:
    return time.time_ns() // 1000


def _as_connect_error(error: Exception) -> ConnectError:
    if isinstance(error, ConnectError):
        return error
    made: type[ConnectError] = ConnectError
    if isinstance(error, psycopg.errors.ObjectNotInPrerequisiteState) and "slot" in str(error):
        made = ChangesLost  # the server has invalidated the slot
    found = made(f"reading PostgreSQL failed: {error}")
    found.__cause__ = error
    return found
