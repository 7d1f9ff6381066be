"""Captures a server on a thread of its own: first a snapshot, if one is due, then the stream of changes.

The thread ends when it is stopped, after a snapshot without a stream, or with an error that the next `take`
raises. A broken connection is not an error: the stream resumes after the last record that was handed over.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, Final
from weakref import WeakSet

import pymysql

from penstock.connect.cdc.batches import Batch, BatchQueue
from penstock.connect.cdc.mysql.positions import ResumePoint, is_in_snapshot
from penstock.connect.cdc.mysql.reading.binlog_session import BinlogSession, StreamEnded
from penstock.connect.cdc.mysql.reading.catalog_reader import CatalogReader
from penstock.connect.cdc.mysql.reading.connecting import interrupt
from penstock.connect.cdc.mysql.reading.server_state import ServerState, lost_reason, read_state
from penstock.connect.cdc.mysql.reading.settings import CaptureSettings, SnapshotMode
from penstock.connect.cdc.mysql.reading.snapshots import begin_snapshot, captured_tables, snapshot_records
from penstock.connect.cdc.mysql.reading.starting import Start, decide_start
from penstock.connect.cdc.mysql.reading.streaming import Stream
from penstock.connect.cdc.mysql.records import RecordWriter
from penstock.connect.cdc.mysql.schema_changes import SchemaChanges
from penstock.connect.errors import ConnectError

log = logging.getLogger(__name__)

WAIT_S: Final = 0.1
"""Longest wait for space in the queue before the thread looks whether it has to end."""
_BEAT_TIMEOUT_S: Final = 30
"""Longest run of the user's statement for heartbeats, because the stream waits for it."""

_REFUSALS: Final = {(number,) for number in (1044, 1045, 1130, 1142, 1143, 1227, 1698, 2026, 3159)}
"""Errors about users, privileges and TLS, which another attempt does not change."""


class Capture:
    """The thread, and the queue of what it read."""

    def __init__(self, settings: CaptureSettings, offset: Mapping[str, Any] | None) -> None:
        """Prepare to capture what comes after the stored offset."""
        server = replace(settings.server, opens=self._note_connection)
        self._settings = replace(settings, server=server)
        self._offset = offset
        self._queue = BatchQueue(settings.queue_size)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._connections: WeakSet[pymysql.Connection[Any]] = WeakSet()
        """Connections that the thread may wait for, which `stop` interrupts."""
        name = f"capture {settings.events.naming.prefix}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def take(self, timeout_s: float) -> Batch | None:
        """Remove the oldest batch; None if none comes in time. Raises what ended the thread."""
        return self._queue.take(timeout_s)

    def stop(self) -> None:
        """End the thread and its connections."""
        self._stopping.set()
        self._queue.close()
        while self._thread.is_alive():
            with self._lock:
                for connection in self._connections:
                    interrupt(connection)
            self._thread.join(WAIT_S)

    def _run(self) -> None:
        try:
            self._capture()
            self._queue.close()
        except Exception as error:
            if self._stopping.is_set():
                return
            log.exception("capture failed prefix=%s", self._settings.events.naming.prefix)
            self._queue.close(_as_connect_error(error))

    def _capture(self) -> None:
        settings = self._settings
        start, state = self._prepare_again()
        resume = start.resume or state.end
        if start.takes_snapshot:
            resume = self._snapshot(state)
        if settings.mode is not SnapshotMode.INITIAL_ONLY and not self._stopping.is_set():
            self._stream(resume, state.is_maria)

    def _note_connection(self, connection: pymysql.Connection[Any]) -> None:
        with self._lock:
            self._connections.add(connection)

    def _prepare_again(self) -> tuple[Start, ServerState]:
        """Prepare, with more attempts if the server cannot be reached."""
        attempts = 0
        while True:
            try:
                with closing(self._settings.server.connect()) as connection:
                    return self._prepare(connection)
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
                attempts += 1
                self._back_off(attempts, error)
                if self._stopping.is_set():
                    raise

    def _prepare(self, connection: pymysql.Connection[Any]) -> tuple[Start, ServerState]:
        offset, lost = self._offset, None
        state = read_state(connection)
        if offset is not None and not is_in_snapshot(offset):
            lost = lost_reason(connection, state, ResumePoint.of(offset))
        start = decide_start(self._settings.mode, offset, lost)
        log.info("capture starts maria=%s snapshot=%s resume=%s", state.is_maria, *start)
        return start, state

    def _writer(
        self, resume: ResumePoint, catalog: CatalogReader, is_maria: bool, must_resume: bool = False
    ) -> RecordWriter:
        events = self._settings.events
        naming = events.naming
        changes = SchemaChanges(
            *(naming.prefix, naming.connector, naming.source),
            *(catalog.catalog_of, catalog.schema_of_catalog),
        )
        return RecordWriter(events, catalog.schema_of, changes, _clock_us, resume, is_maria, must_resume)

    def _snapshot(self, state: ServerState) -> ResumePoint:
        """Hand all rows over; returns the place from which the stream continues."""
        settings = self._settings
        with closing(settings.server.connect_for_rows()) as connection:
            moment = begin_snapshot(connection, state.is_maria, settings.snapshot.locks)
            log.info("snapshot starts file=%s position=%s gtids=%s", *moment[1:])
            tables = captured_tables(connection, settings.filters)
            with closing(settings.catalog_reader(settings.server.connect, state.is_maria)) as catalog:
                writer = self._writer(moment.end, catalog, state.is_maria)
                writer.position.event_start = moment.position
                records = snapshot_records(connection, tables, catalog, writer, settings.snapshot, _clock_us)
                while batch := list(islice(records, settings.batch_size)):
                    if not self._offer(Batch(batch, (), batch[-1])):
                        break
        return moment.end

    def _offer(self, batch: Batch) -> bool:
        """Hand records over; False if the thread has to end."""
        while not self._queue.offer(batch, WAIT_S):
            if self._stopping.is_set():
                return False
        return True

    def _stream(self, resume: ResumePoint, is_maria: bool) -> None:
        """Read the stream until stopped, over as many sessions as it takes."""
        settings = self._settings
        attempts, is_half_handed_over = 0, False
        with closing(settings.catalog_reader(settings.server.connect, is_maria)) as catalog:
            while not self._stopping.is_set():
                writer = self._writer(resume, catalog, is_maria, is_half_handed_over)
                stream = Stream(settings, writer, resume, self._offer, self._beat, is_half_handed_over)
                try:
                    with closing(self._open_session(resume, is_maria)) as session:
                        while not self._stopping.is_set():
                            stream.step(session)
                            attempts = 0
                except (pymysql.err.OperationalError, pymysql.err.InterfaceError, StreamEnded) as error:
                    attempts += 1
                    self._back_off(attempts, error)
                resume, is_half_handed_over = stream.resume_point, stream.is_half_handed_over

    def _open_session(self, resume: ResumePoint, is_maria: bool) -> BinlogSession:
        settings = self._settings
        with_statements = settings.events.includes_query
        session = BinlogSession(settings.server, settings.server_id, is_maria, with_statements)
        session.start(resume, resume.gtids is not None and not settings.ignores_gtids)
        return session

    def _back_off(self, attempts: int, error: Exception) -> None:
        """Wait before another attempt; raises the error if there are to be no more."""
        settings = self._settings
        is_untrusted = isinstance(getattr(error, "original_exception", None), ssl.SSLCertVerificationError)
        if 0 <= settings.retries < attempts or is_untrusted or error.args[:1] in _REFUSALS:
            raise error
        delay = min(settings.retry_first_s * 2 ** min(attempts - 1, 16), settings.retry_most_s)
        log.warning("connection failed retry_s=%s reason=%s", delay, error)
        self._stopping.wait(delay)

    def _beat(self) -> None:
        """Run the user's statement for heartbeats; the stream goes on if it fails."""
        if self._settings.heartbeat_query:
            try:
                with closing(self._settings.server.connect(_BEAT_TIMEOUT_S)) as connection:
                    connection.query(self._settings.heartbeat_query)
            except pymysql.err.MySQLError as error:
                log.warning("heartbeat.action.query failed reason=%s", error)


def _clock_us() -> int:
    return time.time_ns() // 1000


def _as_connect_error(error: Exception) -> ConnectError:
    if isinstance(error, ConnectError):
        return error
    found = ConnectError(f"reading the server failed: {error}")
    found.__cause__ = error
    return found
