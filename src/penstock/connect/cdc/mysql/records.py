"""Makes Debezium's records from the events of a binary log. Pure, apart from the clock it is given.

Differences from Debezium, all on purpose:

- A changed key makes three records (delete, tombstone, insert), and a delete two. Only the last one's offset
  says that the row is done, so a task that dies in between repeats the row. Debezium's offset would skip the
  rest of it.
- A table without a key has no tombstones.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.connect.cdc.envelope import CONTEXT, HEARTBEAT, NEW_KEY, OLD_KEY, SERVER_NAME, TRANSACTION_BLOCK
from penstock.connect.cdc.mysql import events
from penstock.connect.cdc.mysql.ddl import Ddl, changed_tables, read_ddl
from penstock.connect.cdc.mysql.events import Event, EventHeader
from penstock.connect.cdc.mysql.gtids import MariaGtids, MySqlGtids
from penstock.connect.cdc.mysql.positions import Position, ResumePoint
from penstock.connect.cdc.mysql.row_images import RowReader
from penstock.connect.cdc.mysql.schema_changes import SchemaChanges
from penstock.connect.cdc.mysql.schemas import NamingSettings, TableSchema
from penstock.connect.cdc.mysql.table_maps import TableMap, read_table_map
from penstock.connect.cdc.mysql.values import ValueSettings
from penstock.connect.cdc.transactions import TransactionCounts
from penstock.connect.data.records import Header, SourceRecord
from penstock.connect.data.schema import STRING
from penstock.connect.data.struct import Struct
from penstock.connect.errors import ReplicationProtocolError

log = logging.getLogger(__name__)

_XA_START: Final = re.compile(r"XA\s+(START|BEGIN)\b", re.IGNORECASE)
_XA_END: Final = re.compile(r"XA\s+(COMMIT|ROLLBACK)\b", re.IGNORECASE)


@dataclass(frozen=True)
class EventSettings:
    """The settings of a connector that its records depend on."""

    naming: NamingSettings
    version: str
    task_id: str = "0"
    run_id: str = ""
    tombstones: bool = True
    skipped_operations: frozenset[str] = frozenset("t")
    transaction_metadata: bool = False
    schema_changes: bool = True
    includes_query: bool = False
    fails_on_statements: bool = True
    values: ValueSettings = field(default_factory=ValueSettings)

    @staticmethod
    def of(properties: Mapping[str, str], connector: str, version: str, run_id: str) -> EventSettings:
        """Read Debezium's properties. Raises ConnectError."""

        def is_on(name: str, default: str) -> bool:
            return properties.get(name, default).lower() == "true"

        skipped = properties.get("skipped.operations", "t").replace(" ", "")
        return EventSettings(
            *(NamingSettings.of(properties, connector), version, properties.get("task.id", "0"), run_id),
            is_on("tombstones.on.delete", "true"),
            frozenset() if skipped == "none" else frozenset(skipped.split(",")),
            is_on("provide.transaction.metadata", "false"),
            is_on("include.schema.changes", "true"),
            is_on("include.query", "false"),
            properties.get("event.processing.failure.handling.mode", "fail").lower() == "fail",
            ValueSettings.of(properties),
        )


class RecordWriter:
    """Turns the events of one stream into records.

    ``schema_of`` gives a table's schemas, or None if it is filtered out; it is called for the first map of a
    table after each DDL. ``is_captured`` tells it for DDL, by database and table. ``clock_us`` gives
    microseconds since 1970. The place of the stored offset, ``resume``, is in the first transaction. If that
    has no GTIDs, later offsets have none either: a set without older transactions would get them again. With
    ``must_resume``, the begin of that transaction was handed over already, and another one is an error.
    """

    def __init__(
        self,
        settings: EventSettings,
        schema_of: Callable[[TableMap], TableSchema | None],
        schema_changes: SchemaChanges,
        clock_us: Callable[[], int],
        resume: ResumePoint,
        is_maria: bool = True,
        must_resume: bool = False,
    ) -> None:
        self._settings = settings
        self._must_resume = must_resume
        self._schema_of = schema_of
        self._schema_changes = schema_changes
        self._clock_us = clock_us
        self._resume: ResumePoint | None = resume if resume.events or resume.rows else None
        self._gtids = None if resume.gtids is None else (MariaGtids if is_maria else MySqlGtids)(resume.gtids)
        self._maps: dict[int, tuple[bytes, TableSchema | None, RowReader | None]] = {}
        self._source_schema = settings.naming.source
        self._exact_time_us = 0
        self._finish: Callable[[], None] | None = None
        """Adds the transaction at hand to those that are done."""
        self.is_open = False
        """Whether the stream is inside a transaction."""
        self.last_row_records = 1
        """Number of records that the last row became; they are handed over together."""
        self.position = Position(resume.file, resume.position, resume.gtids, log_file=resume.file)
        self._partition = {"server": settings.naming.prefix}
        self._metadata = TransactionCounts(settings.naming.prefix) if settings.transaction_metadata else None
        self._context = tuple(
            Header(CONTEXT + name, value, STRING)
            for name, value in [
                ("connectorLogicalName", settings.naming.prefix),
                ("taskId", settings.task_id),
                ("connectorName", settings.naming.connector),
                ("runId", settings.run_id),
            ]
        )

    def records(self, header: EventHeader, event: Event) -> list[SourceRecord]:
        """The records of an event. Raises ReplicationProtocolError."""
        position = self.position
        if isinstance(event, events.Rotate):
            self._rotate(event, is_real=header.end > 0)
            return []
        if header.end:
            position.event_start = header.start
            position.server_id = header.server_id
        if header.time_s:
            position.time_us = self._exact_time_us or header.time_s * 1_000_000
        handle = _HANDLERS.get(type(event))
        made = [] if handle is None else handle(self, header, event)
        if self.is_open:
            position.event += not isinstance(event, events.Statement) and header.type not in events.HEARTBEATS
        elif header.end and not isinstance(event, events.Gtid | events.Begin):
            position.file, position.start = position.log_file, header.end
        return made

    @property
    def is_resuming(self) -> bool:
        """Whether the transaction that was left in the middle is still to come or not yet caught up with."""
        return self._resume is not None

    def abandon(self) -> None:
        """Leave the transaction at hand, which the server never committed."""
        self.is_open = False
        self._resume = self._finish = None
        self.position.event = 0
        if self._metadata is not None:
            self._metadata.clear()

    def _rotate(self, event: events.Rotate, is_real: bool) -> None:
        position = self.position
        position.log_file = event.file
        self._maps.clear()
        if not self.is_open and (is_real or position.file != event.file):
            position.file, position.start = event.file, event.position

    def _begin(self, header: EventHeader, event: events.Begin) -> list[SourceRecord]:
        position = self.position
        position.gtid = str(event.gtid)
        gtids = self._gtids
        if isinstance(gtids, MariaGtids):
            self._finish = lambda: gtids.add(event.gtid)
        if event.is_standalone:
            return []
        return self._open(header, None)

    def _gtid(self, header: EventHeader, event: events.Gtid) -> list[SourceRecord]:
        gtids = self._gtids
        self.position.gtid = f"{event.source}:{event.number}"
        if isinstance(gtids, MySqlGtids):
            self._finish = lambda: gtids.add(event.source, event.number)
        self._exact_time_us = event.time_us
        return []

    def _open(self, header: EventHeader, thread: int | None) -> list[SourceRecord]:
        position = self.position
        self.is_open, self.last_row_records = True, 1
        position.file, position.start = position.log_file, header.start
        position.event, position.thread, position.query = 0, thread, None
        if self._resume is not None and not self._resume.is_of(position.file, position.start, position.gtid):
            self._give_up_resuming()
        if self._metadata is None:
            return []
        identity = self._identity()
        record = self._metadata.begin_transaction(identity, position.time_us, identity)
        if self._resume is not None:
            return []
        position.event = 1
        record = self._placed(record)
        position.event = 0
        return [record]

    def _give_up_resuming(self) -> None:
        """Read the transaction at hand from its begin. Raises ReplicationProtocolError if it must not be."""
        wanted, found = self._resume, self.position
        text = (
            f"the server has the transaction {found.gtid} at {found.file}:{found.start}; expected "
            f"{wanted.gtid if wanted else None} at {wanted.file if wanted else None}:"
            f"{wanted.position if wanted else None}, which was left in the middle"
        )
        if self._must_resume:
            raise ReplicationProtocolError(f"{text}; restart the task to read it from its begin")
        log.warning("%s, so it is read from its begin", text)
        self._resume = None

    def _identity(self) -> str:
        return self.position.gtid or f"file={self.position.file},pos={self.position.start}"

    def _commit(self, header: EventHeader, event: Event) -> list[SourceRecord]:
        """End the transaction, of which all records are done then."""
        record = None
        if self._metadata is not None and self.is_open:
            record = self._metadata.end_transaction(self._identity(), self.position.time_us)
            self._metadata.clear()
        self._done(header)
        return [] if record is None else [self._placed(record)]

    def _done(self, header: EventHeader) -> None:
        position = self.position
        self.is_open = False
        self._resume = None
        if self._finish is not None:
            self._finish()
            position.gtids = str(self._gtids)
        position.file, position.start, position.event = position.log_file, header.end, 0
        position.thread = position.query = self._finish = None
        self._exact_time_us = 0

    def _query(self, header: EventHeader, event: events.Query) -> list[SourceRecord]:
        text = event.statement.strip()
        word = text.upper()
        if word == "BEGIN" or _XA_START.match(text):
            return self._open(header, event.thread)
        if word in ("COMMIT", "ROLLBACK") or _XA_END.match(text):
            return self._commit(header, event)
        ddl = read_ddl(text, event.database)
        records: list[SourceRecord] = []
        if ddl is not None:
            self._maps.clear()
            records = list(self._ddl(event, ddl))
        else:
            self._notice_changes(event)
        if not self.is_open:  # else this is a SAVEPOINT, XA END, or the CREATE TABLE of a SELECT
            if self._resume is not None:
                self._give_up_resuming()
            self._done(header)
            return [self._placed(each) for each in records]
        if self._resume is not None and self.position.event < self._resume.events:
            return []
        self.last_row_records = 1
        offset = {**self._offset(0), "event": self.position.event + 1}
        return [replace(self._placed(each), source_offset=offset) for each in records]

    def _notice_changes(self, event: events.Query) -> None:
        """Find a statement that changes rows of a captured table, which are not in the log.

        Raises:
            ReplicationProtocolError: it is one, and the settings do not say to go on.
        """
        tables = changed_tables(event.statement, event.database)
        name = next((each for each in tables if self._schema_changes.table_of(*each) is not None), None)
        if name is None:
            return
        text = (
            f"rows of {'.'.join(name)} were changed by a statement in the binary log at "
            f"{self.position.log_file}:{self.position.event_start}; expected the rows: "
            "all sessions need binlog_format=ROW"
        )
        if self._settings.fails_on_statements:
            raise ReplicationProtocolError(
                f"{text}. Take a new snapshot, or set event.processing.failure.handling.mode=warn"
            )
        log.warning("changes are not captured: %s", text)

    def _ddl(self, event: events.Query, ddl: Ddl) -> Iterator[SourceRecord]:
        """The records of a statement that changes schemas."""
        if ddl.kind == "TRUNCATE":
            yield from self._truncate(ddl)
            return
        changed = self._schema_changes.of(ddl)
        if changed is None or not self._settings.schema_changes:
            return
        source = self._source(ddl.database, ddl.table_names or None, 0)
        yield self._schema_changes.record(
            changed, ddl, event.statement, source, self._clock_us(), self._context
        )

    def _truncate(self, ddl: Ddl) -> Iterator[SourceRecord]:
        if "t" in self._settings.skipped_operations:
            return
        for database, name in ddl.tables:
            table = self._schema_changes.table_of(database, name)
            if table is not None:
                yield self._change(table, "t", None, 0)

    def _statement(self, header: EventHeader, event: events.Statement) -> list[SourceRecord]:
        if self._settings.includes_query:
            self.position.query = event.text
        return []

    def _table_map(self, header: EventHeader, event: events.TableMapData) -> list[SourceRecord]:
        known = self._maps.get(event.table_id)
        if known is None or known[0] != event.data:
            table = read_table_map(event.data)
            schema = self._schema_of(table)
            # types without a reader do no harm in tables that are not captured
            self._maps[event.table_id] = (event.data, schema, None if schema is None else RowReader(table))
        return []

    def _rows(self, header: EventHeader, event: events.Rows) -> list[SourceRecord]:
        known = self._maps.get(event.table_id)
        if known is None:
            raise ReplicationProtocolError(
                f"rows at {self.position.log_file}:{header.start} have no map of the table {event.table_id}"
            )
        _, table, reader = known
        resume = self._resume
        if table is None or reader is None or event.operation in self._settings.skipped_operations:
            return []
        is_before = resume is not None and self.position.event < resume.events
        skipped = resume.rows if resume is not None and self.position.event == resume.events else 0
        records: list[SourceRecord] = []
        for number, (before, row) in enumerate(reader.rows(event.data, event.operation == "u")):
            if is_before or number < skipped:
                self._count_skipped(table, before, row)
            else:
                made = self._row(table, event.operation, before, row, number)
                self.last_row_records = len(made)
                records += made
        if resume is not None and not is_before:
            self._resume = None
        return records

    def _count_skipped(self, table: TableSchema, before: Sequence[Any] | None, row: Sequence[Any]) -> None:
        """Count the events of a row that an earlier task wrote."""
        if self._metadata is not None:
            changes_key = before is not None and table.key(before) != table.key(row)
            for _ in range(2 if changes_key else 1):
                self._block(table)

    def _row(
        self,
        table: TableSchema,
        operation: str,
        before: Sequence[Any] | None,
        row: Sequence[Any],
        number: int,
    ) -> list[SourceRecord]:
        if operation == "c":
            return [self._change(table, "c", table.key(row), number, after=table.value(row))]
        if operation == "d":
            unfinished = self._offset(number)
            record = self._change(table, "d", table.key(row), number, before=table.value(row))
            if record.key is None or not self._settings.tombstones:
                return [record]
            return [replace(record, source_offset=unfinished), replace(record, value=None, value_schema=None)]
        assert before is not None, "an update has two images"
        old_key, key = table.key(before), table.key(row)
        old, new = table.value(before), table.value(row)
        if old_key == key:
            return [self._change(table, "u", key, number, old, new)]
        assert table.key_schema is not None, "rows without keys have equal ones"
        unfinished = self._offset(number)
        to_new = (Header(NEW_KEY, key, table.key_schema),)
        to_old = (Header(OLD_KEY, old_key, table.key_schema),)
        deleted = self._change(table, "d", old_key, number, before=old, headers=to_new)
        deleted = replace(deleted, source_offset=unfinished)
        records = [deleted]
        if self._settings.tombstones:
            records.append(replace(deleted, value=None, value_schema=None))
        return [*records, self._change(table, "c", key, number, after=new, headers=to_old)]

    def _change(
        self,
        table: TableSchema,
        operation: str,
        key: Struct | None,
        number: int,
        before: Struct | None = None,
        after: Struct | None = None,
        headers: Sequence[Header] = (),
    ) -> SourceRecord:
        now_us = self._clock_us()
        block = self._block(table)
        source = self._source(table.database, table.table, number)
        times = [now_us // 1000, now_us, now_us * 1000]
        return SourceRecord(
            topic=table.topic,
            key=key,
            key_schema=None if key is None else table.key_schema,
            value=Struct.of_values(table.envelope, [before, after, source, block, operation, *times]),
            value_schema=table.envelope,
            headers=(*headers, *self._context) if headers else self._context,
            source_partition=self._partition,
            source_offset=self._offset(number + 1),
        )

    def heartbeat(self) -> SourceRecord:
        """A heartbeat record with the present offset, between transactions."""
        prefix = self._settings.naming.prefix
        record = SourceRecord(
            topic=f"__debezium-heartbeat.{prefix}",
            key=Struct(SERVER_NAME, {"serverName": prefix}),
            key_schema=SERVER_NAME,
            value=Struct(HEARTBEAT, {"ts_ms": self._clock_us() // 1000}),
            value_schema=HEARTBEAT,
        )
        return self._placed(record)

    def snapshot(self, table: TableSchema, row: Sequence[Any], marker: str, time_us: int) -> SourceRecord:
        """The record of a row that a snapshot reads; the marker ``last`` completes the snapshot."""
        now_us = self._clock_us()
        self.position.time_us = time_us
        source = self._source(table.database, table.table, 0, marker)
        times = [now_us // 1000, now_us, now_us * 1000]
        offset = self.position.offset()
        if marker != "last":
            offset["snapshot"] = "INITIAL"
        return SourceRecord(
            topic=table.topic,
            key=table.key(row),
            key_schema=table.key_schema,
            value=Struct.of_values(table.envelope, [None, table.value(row), source, None, "r", *times]),
            value_schema=table.envelope,
            headers=self._context,
            source_partition=self._partition,
            source_offset=offset,
        )

    def _block(self, table: TableSchema) -> Struct | None:
        """The transaction block of an event, which is counted."""
        if self._metadata is None or not self.is_open:
            return None
        collection = f"{table.database}.{table.table}"
        return Struct.of_values(TRANSACTION_BLOCK, self._metadata.count_event(collection, self._identity()))

    def _source(self, database: str, table: str | None, row: int, snapshot: str | None = None) -> Struct:
        position, settings = self.position, self._settings
        time_us = position.time_us
        values = [
            *(settings.version, settings.naming.connector, settings.naming.prefix, time_us // 1000),
            *(snapshot, database, None, time_us, time_us * 1000, table, position.server_id, position.gtid),
            *(position.log_file, position.event_start, row, position.thread, position.query),
        ]
        return Struct.of_values(self._source_schema, values)

    def _placed(self, record: SourceRecord) -> SourceRecord:
        """The record with this stream's partition and the present offset."""
        return replace(record, source_partition=self._partition, source_offset=self._offset(0))

    def _offset(self, rows: int) -> dict[str, Any]:
        """The offset after so many rows of the event at hand."""
        offset = self.position.offset(rows)
        if self._metadata is not None:
            offset.update(self._metadata.offset())
        return offset


_HANDLERS: Final[dict[type, Callable[[RecordWriter, EventHeader, Any], list[SourceRecord]]]] = {
    events.Begin: RecordWriter._begin,
    events.Gtid: RecordWriter._gtid,
    events.Commit: RecordWriter._commit,
    events.Query: RecordWriter._query,
    events.Statement: RecordWriter._statement,
    events.TableMapData: RecordWriter._table_map,
    events.Rows: RecordWriter._rows,
}
