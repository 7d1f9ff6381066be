"""Runs snapshots beside the stream, as signals ask for them.

The rows of a chunk are read at a moment of which PostgreSQL tells the visible transactions. They are written
once the stream is past all of these: every commit that the chunk shows is then in the topics before its rows.
Meanwhile, each change by a transaction that the chunk does not show leaves its row out of the chunk, since
the stream's record is newer. So no row overwrites a newer one, and none goes back to an older state. A chunk
that does not show a transaction that the stream already had is read again; see `visibility`.

Debezium finds the window by rows in the signal table or by transaction ids alone. Rows in the signal table
are written here as well, because the stream has to move on also when the database is quiet. Without a signal
table a logical message does that, and with ``read.only`` the next transaction or keepalive of the server.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import psycopg

from penstock.connect.cdc.naming import data_topic
from penstock.connect.cdc.notifications import NotificationSettings, Notifier
from penstock.connect.cdc.postgres.events import EventWriter
from penstock.connect.cdc.postgres.incremental.chunks import (
    ChunkTable,
    Moment,
    begin,
    find_table,
    known_tables,
    maximum_key,
    read_all,
    read_chunk,
)
from penstock.connect.cdc.postgres.incremental.watermarks import Watermarks
from penstock.connect.cdc.postgres.reading.settings import CaptureSettings
from penstock.connect.cdc.signals import (
    ChunkWindow,
    DataCollection,
    Progress,
    Signal,
    SignalReader,
    SignalSettings,
    SnapshotRequest,
    signal_of_row,
    window_key,
)
from penstock.connect.cdc.signals.messages import EXECUTE, LOG, PAUSE, RESUME, STOP, WINDOWS
from penstock.connect.data.records import SourceRecord
from penstock.connect.data.struct import Struct

log = logging.getLogger(__name__)

SEEN_MAX: Final = 10_000
"""Transactions that are remembered, to find those that a chunk does not show though the stream had them.

Each of them holds a session of the server while it waits for its standby, so there are fewer at a time.
"""


class _Window:
    """A chunk that waits for the stream."""

    def __init__(self, table: ChunkTable, moment: Moment, end: tuple[Any, ...]) -> None:
        self.table = table
        self.moment = moment
        self.end = end
        self.rows: ChunkWindow[list[str | None]] = ChunkWindow()
        self.keyless = _KeylessRows()


class _KeylessRows:
    """The rows of tables without a key that changes have made since a moment.

    Rows are told apart by all their values, and equal ones are counted. The column that such a table is read
    by is not enough, since other rows may have the same value.
    """

    def __init__(self) -> None:
        self._made: Counter[Hashable] = Counter()

    def replaced(self, record: SourceRecord) -> Hashable | None:
        """The row of the moment that a change replaces or deletes; None if it was made since then."""
        gone: Hashable | None = None
        before, after = (record.value.get(name) for name in ("before", "after"))
        if isinstance(before, Struct):
            gone = _image(record.topic, before)
            if self._made[gone]:
                self._made[gone] -= 1
                gone = None
        if isinstance(after, Struct):
            self._made[_image(record.topic, after)] += 1
        return gone


class _Blocking:
    """A transaction that will read whole tables, and what changed since its moment."""

    def __init__(self, connection: psycopg.Connection[Any], moment: Moment) -> None:
        self.connection = connection
        self.moment = moment
        self._changed: set[Hashable] = set()
        self._truncated: set[str] = set()
        self._keyless = _KeylessRows()
        self._gone: Counter[Hashable] = Counter()

    def note(self, record: SourceRecord) -> None:
        """Note a record of a transaction that the moment does not show."""
        if record.key is not None:
            self._changed.add((record.topic, window_key(record.key.all_values())))
        elif record.value is not None and record.value.get("op") == "t":
            self._truncated.add(record.topic)
        elif record.value is not None and (gone := self._keyless.replaced(record)) is not None:
            self._gone[gone] += 1

    def leaves_out(self, table: ChunkTable, row: list[str | None]) -> bool:
        """Whether a row has changed; each change of a row without a key counts once."""
        if table.schema.topic in self._truncated:
            return True
        key = table.schema.key(row)
        if key is not None:
            return (table.schema.topic, window_key(key.all_values())) in self._changed
        image = _image(table.schema.topic, table.schema.value(row))
        if not self._gone[image]:
            return False
        self._gone[image] -= 1
        return True


class SnapshotCompanion:
    """The snapshots of one stream, on its thread.

    `begin` and `see` follow the transactions, and `between` gives the records that come between two of them.
    """

    def __init__(
        self,
        settings: CaptureSettings,
        writer: EventWriter,
        signals: SignalReader,
        offset: Mapping[str, Any],
        skipped_initial: bool,
    ) -> None:
        self._settings = settings
        self._choices = SignalSettings.of(settings.properties)
        self._writer = writer
        self._signals = signals
        self._progress = Progress.of(offset)
        self._end = self._progress.sent
        self._topic = data_topic(settings.naming.prefix, *_split(self._choices.table))
        self._connection: psycopg.Connection[Any] | None = None
        self._watermarks = Watermarks(self._choices)
        self._seen: deque[int] = deque(maxlen=SEEN_MAX)
        self._xid = 0
        self._window: _Window | None = None
        self._blocking: _Blocking | None = None
        self._scanned = 0
        self._deferred: list[Callable[[], None]] = []
        self._made: list[tuple[SourceRecord, Mapping[str, Any]]] = []
        self._done = 0
        self._beat: SourceRecord | None = None
        self._waits_for_rows = False
        self._acknowledge_after: int | None = None
        self._notifier = Notifier(
            NotificationSettings.of(settings.properties),
            settings.naming.prefix,
            lambda: time.time_ns() // 1_000_000,
            lambda record: self._made.append((record, self._progress.offset())),
        )
        if skipped_initial:
            self._notifier.initial("SKIPPED")

    @property
    def waits(self) -> bool:
        """Whether rows wait for the stream to reach their moment."""
        return self._window is not None or self._blocking is not None

    # Inside transactions

    def begin(self, xid: int) -> None:
        """Note the transaction whose records follow."""
        self._xid = xid
        self._seen.append(xid)

    def see(self, records: list[SourceRecord]) -> list[SourceRecord]:
        """Return records of one transaction, with the progress in their offsets; signals among them start."""
        watched = records if self._choices.reads_table or self.waits else ()
        for each in watched:
            if each.topic == self._topic and self._choices.reads_table:
                self._see_signal(each)
            if self._window is not None and each.topic == self._window.table.schema.topic:
                self._leave_out(self._window, each)
            if self._blocking is not None and not self._blocking.moment.visibility.shows(self._xid):
                self._blocking.note(each)
        more = self._progress.offset()
        return [each.with_offset({**each.source_offset, **more}) for each in records] if more else records

    def _leave_out(self, window: _Window, record: SourceRecord) -> None:
        if window.moment.visibility.shows(self._xid):
            return
        if record.key is None and record.value is not None and record.value.get("op") == "t":
            window.rows.clear()
        elif record.key is not None:
            window.rows.discard(window_key(record.key.all_values()))
        elif record.value is not None and (gone := window.keyless.replaced(record)) is not None:
            window.rows.discard_one(gone)

    def _see_signal(self, record: SourceRecord) -> None:
        if record.value is None or record.value["op"] != "c":
            return
        found = signal_of_row(record.value["after"].own_values)
        if found is not None and found.type not in WINDOWS:
            self._start(found)

    # Signals

    def _start(self, signal: Signal) -> None:
        """Change the progress as a signal says; what makes records waits for the end of the transaction."""
        log.info("signal id=%s type=%s data=%s", signal.id, signal.type, signal.data)
        if signal.type == EXECUTE:
            request = SnapshotRequest.of(signal)
            if request is not None:
                self._execute(signal, request)
        elif signal.type == STOP:
            request = SnapshotRequest.of(signal)
            if request is not None:
                self._stop(request)
        elif signal.type == PAUSE:
            if self._progress.is_running and not self._progress.is_paused:
                self._progress.is_paused = True
                self._deferred.append(lambda: self._tell("PAUSED", self._left()))
        elif signal.type == RESUME:
            if self._progress.is_running and self._progress.is_paused:
                self._progress.is_paused = False
                self._deferred.append(lambda: self._tell("RESUMED", self._left()))
        elif signal.type == LOG:
            message = str(signal.data.get("message") or "")
            log.info("%s", message.replace("{}", str(self._writer.position.offset()), 1))
        else:
            log.warning("signal ignored, its type is not known id=%s type=%s", signal.id, signal.type)

    def _execute(self, signal: Signal, request: SnapshotRequest) -> None:
        progress = self._progress
        if progress.correlation_id == signal.id and (progress.is_running or progress.blocking):
            return  # it came again, because the channel did not know that it had started
        known = [_name(each) for each in known_tables(self._connected(), self._settings)]
        tables = [
            DataCollection(name, request.condition(name), request.surrogate_key)
            for name in request.expanded(known)
        ]
        was_running, progress.correlation_id = progress.is_running, signal.id
        if request.is_blocking:
            progress.blocking += tables
            return
        progress.collections += tables
        if not was_running:
            self._deferred.append(lambda: self._tell("STARTED", self._left()))

    def _stop(self, request: SnapshotRequest) -> None:
        progress = self._progress
        if not progress.is_running:
            log.warning("no incremental snapshot runs, stop ignored")
            return
        left, current = self._left(), progress.current.name
        removed = progress.remove(left if request.names_none else request.expanded(left))
        if current in removed:
            self._leave_table()
        stopped = progress.correlation_id
        self._deferred.append(lambda: self._notifier.incremental("ABORTED", stopped, removed))
        if not progress.is_running:
            progress.correlation_id = None

    # Between transactions

    def between(self, done: int) -> Iterator[list[SourceRecord]]:
        """The records that come after the transactions before a position; a list must stay together.

        Raises:
            psycopg.OperationalError: the server cannot be reached; the same call may be repeated.
        """
        self._done, self._beat = done, None
        self._take_signals()
        while self._deferred:
            self._deferred.pop(0)()
        yield from self._flush()
        if self._window is not None and done >= self._window.moment.high:
            yield from self._written(self._window)
        if self._window is None:
            if self._progress.is_running and not self._progress.is_paused:
                self._read_chunk()
            yield from self._flush()
        if self._progress.blocking:
            yield from self._read_blocking()
        if self._waits_for_rows and not self._has_work():
            self._rows_are_made()

    def stored(self, position: int) -> None:
        """Note that offsets up to a position are stored."""
        if self._acknowledge_after is not None and position > self._acknowledge_after:
            self._signals.acknowledge()
            self._acknowledge_after = None

    def _take_signals(self) -> None:
        """Start what signals from outside ask for."""
        while (signal := self._signals.take()) is not None:
            try:
                self._start(signal)
            except psycopg.OperationalError:
                self._signals.put_back(signal)
                raise
            self._waits_for_rows = self._has_work()
            self._acknowledge_after = None if self._waits_for_rows else -1

    def _rows_are_made(self) -> None:
        """Let signals be acknowledged once the offset of what was made is stored.

        An offset after this position is stored later than those of all records up to here.
        """
        self._waits_for_rows, self._acknowledge_after = False, self._done

    def _has_work(self) -> bool:
        return self._progress.is_running or bool(self._progress.blocking)

    def _flush(self) -> Iterator[list[SourceRecord]]:
        """The notifications that were made since the last call, with the progress at that time."""
        while self._made:
            yield [self._placed(*self._made.pop(0))]

    def _placed(self, record: SourceRecord, progress: Mapping[str, Any]) -> SourceRecord:
        """The record with an offset between transactions, and the progress."""
        if self._beat is None:
            self._beat = self._writer.heartbeat(self._done or None)
        offset = {**self._beat.source_offset, **progress}
        return replace(record, source_partition=self._beat.source_partition, source_offset=offset)

    def _written(self, window: _Window) -> Iterator[list[SourceRecord]]:
        """The rows that are left in a window. They are removed first: an error may end the iteration.

        Rows with the same key stay together, and only the last one has the key in its offset, because the
        snapshot continues after that key.
        """
        rows: list[list[str | None]] = []
        while window.rows:
            row = window.rows.take()
            if rows and window.table.key(row) != window.table.key(rows[-1]):
                yield self._group(window.table, rows)
                rows = []
            rows.append(row)
        if rows:
            yield self._group(window.table, rows)
        self._end = self._progress.sent = window.end
        self._window = None
        if self._waits_for_rows:
            self._rows_are_made()

    def _group(self, table: ChunkTable, rows: Sequence[list[str | None]]) -> list[SourceRecord]:
        """The records of rows with the same key."""
        made = [self._row(table, row, "incremental") for row in rows]
        before = self._progress.offset()
        self._progress.sent = table.key(rows[-1])
        after = self._progress.offset()
        return [self._placed(each, after if each is made[-1] else before) for each in made]

    def _row(self, table: ChunkTable, row: list[str | None], marker: str) -> SourceRecord:
        position, now_us = self._writer.position, time.time_ns() // 1000
        if position.lsn is None:
            position.lsn, position.records, self._beat = self._done, 0, None
        record = self._writer.snapshot(table.schema, row, marker)
        source = record.value["source"]
        source["ts_ms"], source["ts_us"], source["ts_ns"] = now_us // 1000, now_us, now_us * 1000
        return record

    def _read_chunk(self) -> None:
        """Read the next rows into a window, perhaps of the next table that has some."""
        progress = self._progress
        connection = self._connected()
        self._watermarks.open(connection)
        while progress.is_running and self._window is None:
            try:
                if not self._read_table(connection):
                    return
            except psycopg.OperationalError:
                self.close()
                raise
            except psycopg.Error as error:
                with suppress(psycopg.Error):
                    connection.rollback()
                log.warning("table skipped name=%s reason=%s", progress.current.name, error)
                self._scan_completed("SQL_EXCEPTION")
        self._watermarks.close(connection)
        if not progress.is_running:
            self._tell("COMPLETED")
            progress.correlation_id = None

    def _read_table(self, connection: psycopg.Connection[Any]) -> bool:
        """Read the next rows of the present table; False if that has to wait."""
        progress, current = self._progress, self._progress.current
        table = find_table(connection, self._settings, current)
        if table is None or not table.by:
            log.warning("table skipped, it is unknown or has no key name=%s", current.name)
            self._scan_completed("UNKNOWN_SCHEMA" if table is None else "NO_PRIMARY_KEY")
            return True
        moment = begin(connection, table)
        try:
            if not self._shows_all_seen(moment):
                return False
            if progress.maximum is None:
                progress.maximum = maximum_key(connection, table, current.condition)
                if progress.maximum is None:
                    self._scan_completed("EMPTY")
                    return True
            size = self._choices.chunk_size
            rows = list(read_chunk(connection, table, current.condition, self._end, progress.maximum, size))
        finally:
            with suppress(psycopg.Error):
                connection.execute(b"commit")
        if rows:
            self._open_window(table, moment, rows)
        else:
            self._scan_completed("SUCCEEDED")
        return True

    def _open_window(self, table: ChunkTable, moment: Moment, rows: list[list[str | None]]) -> None:
        self._window = _Window(table, moment, table.key(rows[-1]))
        for row in rows:
            key = table.schema.key(row)
            if key is not None:
                self._window.rows.add(window_key(key.all_values()), row)
            else:
                self._window.rows.add(_image(table.schema.topic, table.schema.value(row)), row)
        self._scanned += len(rows)
        self._tell(
            "IN_PROGRESS",
            self._left(),
            current_collection_in_progress=self._progress.current.name,
            maximum_key=_shown(self._progress.maximum or ()),
            last_processed_key=_shown(self._window.end),
        )

    def _scan_completed(self, status: str) -> None:
        self._tell(
            "TABLE_SCAN_COMPLETED",
            self._left(),
            scanned_collection=self._progress.current.name,
            total_rows_scanned=str(self._scanned),
            status=status,
        )
        self._progress.next_collection()
        self._leave_table()

    def _leave_table(self) -> None:
        self._window = self._end = None
        self._scanned = 0

    # Blocking snapshots

    def _read_blocking(self) -> Iterator[list[SourceRecord]]:
        """The rows of a blocking snapshot, once the stream has reached its moment."""
        if self._blocking is None:
            connection = self._settings.server.connect("blocking snapshot")
            moment = begin(connection)
            if not self._shows_all_seen(moment):
                connection.close()
                return
            self._blocking = _Blocking(connection, moment)
            self._watermarks.close(self._connected())
        if self._done < self._blocking.moment.high:
            return
        self._notifier.initial("STARTED")
        try:
            yield from self._blocking_rows(self._blocking)
        finally:
            self._blocking.connection.close()
            self._blocking = None
        self._notifier.initial("COMPLETED")
        yield from self._flush()

    def _blocking_rows(self, blocking: _Blocking) -> Iterator[list[SourceRecord]]:
        """All rows; the last one is the first without the progress in its offset.

        A statement that is not valid ends the snapshot of its table only. It would fail again each time.
        """
        names = ",".join(each.name for each in self._progress.blocking)
        held: tuple[ChunkTable, list[str | None]] | None = None
        for collection in self._progress.blocking:
            table = find_table(blocking.connection, self._settings, collection)
            if table is None:
                log.warning("table skipped, it is unknown name=%s", collection.name)
                continue
            started = {"current_collection_in_progress": collection.name, "data_collections": names}
            self._notifier.initial("IN_PROGRESS", **started)
            count, status = 0, "SUCCEEDED"
            blocking.connection.execute(b"savepoint before_table")
            try:
                for row in read_all(blocking.connection, table, collection.condition):
                    count += 1
                    if not blocking.leaves_out(table, row):
                        if held is not None:
                            marker = "true" if held[0] is table else "last_in_data_collection"
                            yield [self._placed(self._row(*held, marker), self._progress.offset())]
                        held = table, row
            except psycopg.OperationalError:
                raise
            except psycopg.Error as error:
                log.warning("table skipped name=%s reason=%s", collection.name, error)
                blocking.connection.execute(b"rollback to savepoint before_table")
                status = "SQL_EXCEPTION"
            ended = {"scanned_collection": collection.name, "total_rows_scanned": str(count)}
            self._notifier.initial("TABLE_SCAN_COMPLETED", **ended, data_collections=names, status=status)
            yield from self._flush()
        self._progress.blocking.clear()
        if held is not None:
            yield [self._placed(self._row(*held, "last"), self._progress.offset())]

    def _shows_all_seen(self, moment: Moment) -> bool:
        """Whether a moment shows all transactions that the stream had; later moments then do so, too."""
        if any(not moment.visibility.shows(xid) for xid in self._seen):
            return False
        self._seen.clear()
        return True

    # Connections

    def cancel(self) -> None:
        """End the statements that run. Another thread calls this, to stop the one of the stream."""
        blocking = self._blocking
        for each in (self._connection, None if blocking is None else blocking.connection):
            if each is not None:
                with suppress(psycopg.Error):
                    each.cancel()

    def close(self) -> None:
        """End the sessions."""
        if self._blocking is not None:
            self._blocking.connection.close()
            self._blocking = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = self._settings.server.connect("incremental snapshot")
        return self._connection

    def _tell(self, status: str, collections: Sequence[str] | None = None, /, **more: str) -> None:
        self._notifier.incremental(status, self._progress.correlation_id, collections, **more)

    def _left(self) -> list[str]:
        return [each.name for each in self._progress.collections]


def _image(topic: str, row: Struct) -> Hashable:
    """All values of a row, as texts, because NaN is not equal to itself."""
    return topic, tuple(map(repr, row.all_values()))


def _shown(key: Sequence[Any]) -> str:
    return ",".join("<null>" if each is None else str(each) for each in key)


def _split(table: str) -> tuple[str, str]:
    schema, _, name = table.partition(".")
    return schema, name


def _name(table: Any) -> str:
    return f"{table.relation.schema}.{table.relation.name}"
