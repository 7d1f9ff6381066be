"""Makes Debezium's records from the messages of a replication stream. Pure, apart from the clock it is given.

`EventWriter` follows transactions as they come, in protocol version 1. Each record carries the offset after
it, in Debezium's shape: ``lsn`` is its own position, ``lsn_proc`` the last position that is done, and
``lsn_commit`` that of the last commit. Differences from Debezium, all on purpose:

- An update or delete whose replica identity lacks a column of the key (REPLICA IDENTITY USING INDEX, or
  message.key.columns) never makes up the missing part: the update is a plain ``u``, the delete has no key and
  no tombstone. Debezium takes 0 or "" for the missing part, and so deletes a row that may be another.
- A table without a key has no tombstones.
- A transaction counts its logical messages together, as ``message``; Debezium counts each by itself, under
  the name of a Java object.
- A NOT NULL timestamp without a default is 0 in the ``before`` of a delete; Debezium stops with an error.
- Offsets also have ``lsn_records``, the number of records of the transaction with this ``lsn``: a changed key
  has three, and COPY writes many rows at one position. A task can therefore resume after any record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.connect.cdc.envelope import CONTEXT, HEARTBEAT, NEW_KEY, OLD_KEY, SERVER_NAME, TRANSACTION_BLOCK
from penstock.connect.cdc.postgres.changes import ChangeRecord, RecordPlan, with_unchanged
from penstock.connect.cdc.postgres.framing import format_lsn
from penstock.connect.cdc.postgres.kernels import Change, read_changes
from penstock.connect.cdc.postgres.messages import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    Truncate,
    TypeName,
    Update,
)
from penstock.connect.cdc.postgres.pgoutput import Column, read_columns
from penstock.connect.cdc.postgres.scalars import binary
from penstock.connect.cdc.postgres.schemas import SOURCE, TableSchema
from penstock.connect.cdc.postgres.settings import ValueSettings
from penstock.connect.cdc.postgres.transactions import TransactionMetadata
from penstock.connect.data.records import Header, SourceRecord
from penstock.connect.data.schema import OPTIONAL_INT64, OPTIONAL_STRING, STRING, Schema
from penstock.connect.data.struct import Struct
from penstock.connect.errors import ReplicationProtocolError

_MESSAGE_KEY: Final = Schema.struct(
    {"prefix": OPTIONAL_STRING}, name="io.debezium.connector.postgresql.MessageKey", version=1
)


@dataclass(frozen=True)
class EventSettings:
    """The settings of a connector that its records depend on."""

    prefix: str
    database: str
    version: str
    task_id: str = "0"
    run_id: str = ""
    tombstones: bool = True
    skipped_operations: frozenset[str] = frozenset("t")
    transaction_metadata: bool = False
    values: ValueSettings = field(default_factory=ValueSettings)

    @staticmethod
    def of(properties: Mapping[str, str], version: str, run_id: str) -> EventSettings:
        """Read Debezium's properties. Raises ConnectError."""
        skipped = properties.get("skipped.operations", "t").replace(" ", "")
        return EventSettings(
            *(properties["topic.prefix"], properties["database.dbname"], version),
            properties.get("task.id", "0"),
            run_id,
            properties.get("tombstones.on.delete", "true").lower() == "true",
            frozenset() if skipped == "none" else frozenset(skipped.split(",")),
            properties.get("provide.transaction.metadata", "false").lower() == "true",
            ValueSettings.of(properties),
        )


@dataclass
class Position:
    """Where the stream is, as offsets and source blocks tell it."""

    processed: int | None = None
    committed: int | None = None
    lsn: int | None = None
    message_type: str | None = None
    xid: int | None = None
    committed_us: int | None = None
    origin: str | None = None
    origin_lsn: int | None = None
    records: int | None = None

    def move(self, lsn: int, message_type: str, done: bool) -> None:
        """Arrive at a message; ``done`` if no other message has this position."""
        if lsn != self.lsn or message_type == "BEGIN":
            self.records = 0
        self.lsn, self.message_type = lsn, message_type
        if done:
            self.processed = lsn

    def offset(self) -> dict[str, Any]:
        """The offset in Debezium's shape."""
        parts: dict[str, Any] = {
            "lsn_proc": self.processed,
            "messageType": self.message_type,
            "lsn_commit": self.committed,
            "lsn": self.lsn,
            "txId": self.xid,
            "ts_usec": self.committed_us,
            "lsn_records": self.records,
        }
        if None in parts.values():
            return {name: value for name, value in parts.items() if value is not None}
        return parts


class EventWriter:
    """Turns one stream's messages into records.

    ``schema_of`` gives a relation's schemas, or None if the table is filtered out; it is called for each
    Relation message, and again with the names of columns that turn out to be null although the catalog says
    NOT NULL. ``has_message`` filters logical messages by prefix. ``clock_us`` gives microseconds since 1970.
    """

    def __init__(
        self,
        settings: EventSettings,
        schema_of: Callable[[Relation, frozenset[str]], TableSchema | None],
        clock_us: Callable[[], int],
        position: Position | None = None,
        has_message: Callable[[str], bool] = lambda prefix: True,
    ) -> None:
        self._settings = settings
        self._schema_of = schema_of
        self._clock_us = clock_us
        self._has_message = has_message
        self._tables: dict[int, TableSchema | None] = {}
        self._plans: dict[int, RecordPlan] = {}
        """The plans of tables whose changes `read_changes` takes."""
        self._has_plans = settings.transaction_metadata is False and not (
            settings.skipped_operations & {"c", "u", "d"}
        )
        self._relations: dict[int, Relation] = {}
        self._nullable: dict[int, frozenset[str]] = {}
        self.position = position or Position()
        self.prefix = settings.prefix
        self._partition = {"server": settings.prefix}
        self._metadata = TransactionMetadata(settings.prefix) if settings.transaction_metadata else None
        self._context = tuple(
            Header(CONTEXT + name, value, STRING)
            for name, value in [
                ("connectorLogicalName", settings.prefix),
                ("taskId", settings.task_id),
                ("connectorName", "postgresql"),
                ("runId", settings.run_id),
            ]
        )
        self._message_value = _message_value(binary(settings.values).schema.as_optional())

    def records(self, message: Message, lsn: int) -> list[SourceRecord]:
        """The records of a message at this position. Raises ReplicationProtocolError if it is streamed."""
        handle = _HANDLERS.get(type(message))
        if handle is None:
            raise ReplicationProtocolError(
                f"{type(message).__name__} belongs to a streamed transaction; assemble those before"
            )
        made: list[SourceRecord] = handle(self, message, lsn)
        return made

    def plain_records(self, frames: list[bytes], at: int, most: int) -> tuple[list[SourceRecord], int]:
        """The records of plain changes from frame number ``at`` on, and the number of the first frame left.

        At most so many changes are read, which all belong to one transaction. Records that are the same, but
        slower, come from `records`.
        """
        position = self.position
        records: list[SourceRecord] = []
        if position.origin is not None or not self._plans or most <= 0:
            return records, at
        if at + most < len(frames):
            frames = frames[: at + most]
        place = (position.committed, position.xid, position.committed_us)
        lsn, count = position.lsn or 0, position.records or 0
        at, lsn, count, message_type = read_changes(
            frames, at, self._plans, place, lsn, count, self._clock_us, ChangeRecord, records
        )
        if message_type is not None:
            position.lsn = position.processed = lsn
            position.message_type, position.records = message_type, count
        return records, at

    def heartbeat(self, done: int | None = None) -> SourceRecord:
        """A heartbeat record with the present offset; ``done`` is a position up to which nothing is left."""
        offset = self.position.offset()
        if done is not None:
            offset["lsn_proc"] = offset["lsn_commit"] = done
        return SourceRecord(
            topic=f"__debezium-heartbeat.{self._settings.prefix}",
            key=Struct(SERVER_NAME, {"serverName": self._settings.prefix}),
            key_schema=SERVER_NAME,
            value=Struct(HEARTBEAT, {"ts_ms": self._clock_us() // 1000}),
            value_schema=HEARTBEAT,
            source_partition=self._partition,
            source_offset=offset,
        )

    def snapshot(self, table: TableSchema, row: Sequence[Column], marker: str) -> SourceRecord:
        """The record of a row that a snapshot reads; the marker ``last`` completes the snapshot."""
        now_us = self._clock_us()
        source = self._source(table.schema, table.table, marker)
        times = [now_us // 1000, now_us, now_us * 1000]
        record = SourceRecord(
            topic=table.topic,
            key=table.key(row),
            key_schema=table.key_schema,
            value=Struct.of_values(table.envelope, [None, table.value(row), source, None, "r", *times]),
            value_schema=table.envelope,
            headers=self._context,
        )
        return self.in_snapshot(record, marker == "last")

    def in_snapshot(self, record: SourceRecord, is_last: bool) -> SourceRecord:
        """Give a record of a snapshot its offset, which completes the snapshot if it is the last one."""
        record.source_partition = self._partition
        record.source_offset = {
            **self.position.offset(),
            "snapshot": "INITIAL",
            "last_snapshot_record": is_last,
            "snapshot_completed": is_last,
        }
        return record

    def plan(self, table: TableSchema, width: int) -> RecordPlan:
        """Make the plan of a table for `snapshot_row`; ``width`` counts the columns of its relation."""
        has_tombstones = self._settings.tombstones
        return RecordPlan(table, width, self._partition, self._context, self._source_block, has_tombstones)

    def snapshot_row(self, plan: RecordPlan, row: bytes, marker: str) -> SourceRecord:
        """The record of a row of the initial snapshot, as TupleData: that of `snapshot`, but faster."""
        position = self.position
        assert position.lsn is not None, "a snapshot has a position"
        assert position.processed is None, "the stream has not begun"
        place = (position.committed, position.xid, position.committed_us)
        now_us = self._clock_us()
        return ChangeRecord(Change(plan, "r", row, 0, -1, position.lsn, place, now_us, 0, False, marker))

    def _begin(self, message: Begin, lsn: int) -> list[SourceRecord]:
        position = self.position
        position.xid, position.committed_us = message.xid, message.committed_us
        position.origin = position.origin_lsn = None
        position.move(lsn, "BEGIN", done=False)
        if self._metadata is None:
            return []
        return [self._placed(self._metadata.begin(message.xid, lsn, message.committed_us))]

    def _commit(self, message: Commit, lsn: int) -> list[SourceRecord]:
        position = self.position
        position.committed_us = message.committed_us
        position.move(lsn, "COMMIT", done=True)
        position.committed = lsn
        if self._metadata is None:
            return []
        record = self._placed(self._metadata.end(lsn, message.committed_us))
        self._metadata.clear()
        return [record]

    def _origin(self, message: Origin, lsn: int) -> list[SourceRecord]:
        self.position.origin, self.position.origin_lsn = message.name, message.commit_lsn
        return []

    def _relation(self, message: Relation, lsn: int) -> list[SourceRecord]:
        self._relations[message.oid] = message
        self._nullable[message.oid] = frozenset()
        self._keep(message.oid, self._schema_of(message, frozenset()))
        return []

    def _keep(self, relation: int, table: TableSchema | None) -> None:
        """Keep a relation's schemas for the changes that follow."""
        self._tables[relation] = table
        self._plans.pop(relation, None)
        if table is not None and self._has_plans:
            self._plans[relation] = self.plan(table, len(self._relations[relation].columns))

    def _type_name(self, message: TypeName, lsn: int) -> list[SourceRecord]:
        return []

    def _insert(self, message: Insert, lsn: int) -> list[SourceRecord]:
        table = self._table(message.relation, lsn, "INSERT")
        if table is None or "c" in self._settings.skipped_operations:
            return []
        row = read_columns(message.new)
        table = self._agreeing(message.relation, table, row)
        return [self._change(table, "c", table.key(row), after=table.value(row))]

    def _update(self, message: Update, lsn: int) -> list[SourceRecord]:
        table = self._table(message.relation, lsn, "UPDATE")
        if table is None or "u" in self._settings.skipped_operations:
            return []
        new = read_columns(message.new)
        old = None if message.old is None else read_columns(message.old)
        table = self._agreeing(message.relation, table, new)
        if old is not None and not message.old_is_key:
            table = self._agreeing(message.relation, table, old)
        key = table.key(with_unchanged(new, old))
        after, before = table.value(new, old), None if old is None else table.value(old)
        if old is None or (message.old_is_key and not table.is_identified):
            return [self._change(table, "u", key, before, after)]
        old_key = table.key(old)
        if old_key == key:
            return [self._change(table, "u", key, before, after)]
        return self._changed_key(table, old_key, key, before, after)

    def _changed_key(
        self, table: TableSchema, old_key: Any, key: Any, before: Struct | None, after: Struct
    ) -> list[SourceRecord]:
        assert table.key_schema is not None
        to_new = (Header(NEW_KEY, key, table.key_schema),)
        to_old = (Header(OLD_KEY, old_key, table.key_schema),)
        records = [self._change(table, "d", old_key, before, headers=to_new)]
        if self._settings.tombstones:
            records.append(self._tombstone(records[0]))
        return [*records, self._change(table, "c", key, after=after, headers=to_old)]

    def _delete(self, message: Delete, lsn: int) -> list[SourceRecord]:
        table = self._table(message.relation, lsn, "DELETE")
        if table is None or "d" in self._settings.skipped_operations:
            return []
        old = read_columns(message.old)
        if not message.old_is_key:
            table = self._agreeing(message.relation, table, old)
        key = None if message.old_is_key and not table.is_identified else table.key(old)
        record = self._change(table, "d", key, before=table.value(old))
        if key is None or not self._settings.tombstones:
            return [record]
        return [record, self._tombstone(record)]

    def _truncate(self, message: Truncate, lsn: int) -> list[SourceRecord]:
        records = []
        is_skipped = "t" in self._settings.skipped_operations
        for number, relation in enumerate(message.relations, 1):
            is_last = number == len(message.relations)
            table = None if is_skipped else self._table(relation, lsn, "TRUNCATE", is_last)
            if table is not None:
                records.append(self._change(table, "t", None))
        return records

    def _message(self, message: LogicalMessage, lsn: int) -> list[SourceRecord]:
        position = self.position
        position.move(lsn, "MESSAGE", done=not message.transactional)
        if not message.transactional:
            position.xid, position.committed = None, lsn
        if "m" in self._settings.skipped_operations or not self._has_message(message.prefix):
            return []
        content = binary(self._settings.values).convert("\\x" + message.content.hex())
        schema = self._message_value
        part = schema.by_name["message"].schema
        value = Struct(
            schema,
            {
                "op": "m",
                "ts_ms": self._clock_us() // 1000,
                "source": self._source("", ""),
                "transaction": self._block("message") if message.transactional else None,
                "message": Struct(part, {"prefix": message.prefix, "content": content}),
            },
        )
        record = SourceRecord(
            topic=f"{self._settings.prefix}.message",
            key=Struct(_MESSAGE_KEY, {"prefix": message.prefix}),
            key_schema=_MESSAGE_KEY,
            value=value,
            value_schema=schema,
        )
        return [self._placed(record)]

    def _table(self, relation: int, lsn: int, message_type: str, done: bool = True) -> TableSchema | None:
        if relation not in self._tables:
            raise ReplicationProtocolError(
                f"a change at {format_lsn(lsn)} names the unknown relation {relation}"
            )
        table = self._tables[relation]
        if table is not None:
            self.position.move(lsn, message_type, done)
        return table

    def _agreeing(self, relation: int, table: TableSchema, row: Sequence[Column]) -> TableSchema:
        """The schemas that allow a whole row, which may be older than what the catalog says."""
        if None not in row or not (null := table.contradicted(row)):
            return table
        self._nullable[relation] |= null
        made = self._schema_of(self._relations[relation], self._nullable[relation])
        assert made is not None, "a table that was captured before the change still is"
        self._keep(relation, made)
        return made

    def _change(
        self,
        table: TableSchema,
        operation: str,
        key: Struct | None,
        before: Struct | None = None,
        after: Struct | None = None,
        headers: Sequence[Header] = (),
    ) -> SourceRecord:
        now_us = self._clock_us()
        block = self._block(f"{table.schema}.{table.table}")
        source = self._source(table.schema, table.table)
        times = [now_us // 1000, now_us, now_us * 1000]
        return SourceRecord(
            topic=table.topic,
            key=key,
            key_schema=None if key is None else table.key_schema,
            value=Struct.of_values(table.envelope, [before, after, source, block, operation, *times]),
            value_schema=table.envelope,
            headers=(*headers, *self._context) if headers else self._context,
            source_partition=self._partition,
            source_offset=self._next_offset(),
        )

    def _tombstone(self, deleted: SourceRecord) -> SourceRecord:
        return self._placed(replace(deleted, value=None, value_schema=None))

    def _block(self, collection: str) -> Struct | None:
        """The transaction block of an event, which is counted."""
        if self._metadata is None:
            return None
        assert self.position.lsn is not None
        return Struct.of_values(TRANSACTION_BLOCK, self._metadata.count(collection, self.position.lsn))

    def _source(self, schema: str, table: str, snapshot: str | None = None) -> Struct:
        position = self.position
        time_us = position.committed_us or 0
        return self._source_block(
            *(schema, table, snapshot, position.lsn, position.committed, position.xid),
            *(time_us // 1000, time_us, time_us * 1000, position.origin, position.origin_lsn),
        )

    def _source_block(
        self,
        schema: str,
        table: str,
        snapshot: str | None,
        lsn: int | None,
        committed: int | None,
        xid: int | None,
        time_ms: int,
        time_us: int,
        time_ns: int,
        origin: str | None = None,
        origin_lsn: int | None = None,
    ) -> Struct:
        settings = self._settings
        last = "null" if committed is None else f'"{committed}"'
        values = [
            *(settings.version, "postgresql", settings.prefix, time_ms, snapshot, settings.database),
            *(f'[{last},"{lsn}"]', time_us, time_ns, schema, table, xid, lsn, None, origin, origin_lsn),
        ]
        return Struct.of_values(SOURCE, values)

    def _placed(self, record: SourceRecord) -> SourceRecord:
        """The record with this stream's partition and the next offset."""
        return replace(record, source_partition=self._partition, source_offset=self._next_offset())

    def _next_offset(self) -> dict[str, Any]:
        """The offset of one more record at the present position."""
        assert self.position.records is not None, "a record comes after its message"
        self.position.records += 1
        offset = self.position.offset()
        if self._metadata is not None:
            offset.update(self._metadata.offset())
        return offset


def _message_value(content: Schema) -> Schema:
    parts = {"prefix": OPTIONAL_STRING, "content": content}
    part = Schema.struct(parts, name="io.debezium.connector.postgresql.Message", version=1)
    fields = {
        "op": STRING,
        "ts_ms": OPTIONAL_INT64,
        "source": SOURCE,
        "transaction": TRANSACTION_BLOCK,
        "message": part,
    }
    return Schema.struct(fields, name="io.debezium.connector.postgresql.MessageValue", version=1)


_HANDLERS: Final[dict[type, Callable[[EventWriter, Any, int], list[SourceRecord]]]] = {
    Begin: EventWriter._begin,
    Commit: EventWriter._commit,
    Origin: EventWriter._origin,
    Relation: EventWriter._relation,
    TypeName: EventWriter._type_name,
    Insert: EventWriter._insert,
    Update: EventWriter._update,
    Delete: EventWriter._delete,
    Truncate: EventWriter._truncate,
    LogicalMessage: EventWriter._message,
}
