"""Records of changes, whose content is made on demand: JSON straight from rows' bytes, or Structs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.connect.cdc.postgres.kernels import Change, Slot, key_json, value_json
from penstock.connect.cdc.postgres.layouts import SAMPLES, TableLayouts
from penstock.connect.cdc.postgres.pgoutput import Column, Unchanged, read_columns
from penstock.connect.cdc.postgres.schemas import TableSchema
from penstock.connect.data.encodable import EncodableRecord, JsonWriting
from penstock.connect.data.records import Header, Offset, Partition, SourceRecord
from penstock.connect.data.schema import Schema
from penstock.connect.data.struct import Struct

_LAYOUTS_MAX: Final = 8
"""Converters that a table keeps layouts for; a task has two."""


class RecordPlan:
    """The common parts of all records of a table's changes, for as long as its schemas stay the same.

    ``source`` makes a source block of the names of schema and table, a snapshot's marker, the LSN, the LSN
    of the last commit, the transaction's id, and its time in ms, µs and ns.
    """

    def __init__(
        self,
        table: TableSchema,
        width: int,
        partition: Partition,
        context: tuple[Header, ...],
        source: Callable[..., Struct],
        has_tombstones: bool,
    ) -> None:
        self.table = table
        self.partition = partition
        self.context = context
        self.source = source
        self.required = bytes(_required(table, width))
        self.key_places = tuple(each.index for each in table.keys)
        self.is_identified = table.is_identified
        self.has_tombstones = has_tombstones and table.key_schema is not None
        self._layouts: dict[int, tuple[JsonWriting, TableLayouts]] = {}

    def layouts(self, writing: JsonWriting) -> TableLayouts:
        """The table's layouts for a converter."""
        found = self._layouts.get(id(writing))
        if found is None:
            if len(self._layouts) >= _LAYOUTS_MAX:
                self._layouts.clear()
            found = writing, TableLayouts(self.table, writing, self._sample)
            self._layouts[id(writing)] = found
        return found[1]

    def _sample(self, snapshot: str | None, has_commit: bool, has_xid: bool) -> Struct:
        return self.source(
            *(self.table.schema, self.table.table, snapshot, SAMPLES[Slot.LSN]),
            SAMPLES[Slot.COMMITTED] if has_commit else None,
            SAMPLES[Slot.XID] if has_xid else None,
            *(SAMPLES[Slot.COMMIT_MS], SAMPLES[Slot.COMMIT_US], SAMPLES[Slot.COMMIT_NS]),
        )


def _required(table: TableSchema, width: int) -> Sequence[int]:
    places = {each.index for each in table.required}
    return [index in places for index in range(width)]


class ChangeRecord(EncodableRecord):
    """The record of one change. Its key, value and offset are made when they are asked for."""

    __slots__ = ("_change", "_key", "_value")

    _change: Change
    _key: Struct | None
    _value: Struct | None

    def __init__(self, change: Change) -> None:
        plan = change.plan
        self._change = change
        self.topic = plan.table.topic
        self.partition = None
        self.timestamp_ms = None
        self.headers = plan.context
        self.source_partition = plan.partition

    def key_json(self, writing: JsonWriting) -> bytes | None:
        change = self._change
        if change.plan.table.key_schema is None:
            return None
        return key_json(change, change.plan.layouts(writing).key)

    def value_json(self, writing: JsonWriting) -> bytes | None:
        change = self._change
        if change.is_tombstone:
            return None
        layouts: TableLayouts = change.plan.layouts(writing)
        committed, xid, _ = change.place
        envelope = layouts.envelope(change.operation, change.snapshot, committed is not None, xid is not None)
        return value_json(change, layouts.row, envelope)

    @property
    def key_schema(self) -> Schema | None:  # type: ignore[override]
        """The schema of the key."""
        found: Schema | None = self._change.plan.table.key_schema
        return found

    @property
    def value_schema(self) -> Schema | None:  # type: ignore[override]
        """The schema of the envelope; None for a tombstone."""
        found: Schema | None = None if self._change.is_tombstone else self._change.plan.table.envelope
        return found

    @property
    def key(self) -> Struct | None:
        """The key as a Struct, made once."""
        try:
            return self._key
        except AttributeError:
            self._key = _key(self._change)
            return self._key

    @property
    def value(self) -> Struct | None:
        """The envelope as a Struct, made once; None for a tombstone."""
        try:
            return self._value
        except AttributeError:
            self._value = None if self._change.is_tombstone else _value(self._change)
            return self._value

    @property
    def source_offset(self) -> Offset:  # type: ignore[override]
        """The offset after the record."""
        return offset_of(self._change)

    def with_topic(self, topic: str) -> ChangeRecord:
        """A copy for another topic, which still needs no Struct."""
        copy = ChangeRecord(self._change)
        copy.topic = topic
        copy.partition, copy.timestamp_ms, copy.headers = self.partition, self.timestamp_ms, self.headers
        return copy

    def _copy(self) -> Any:
        """A plain record, because what transforms change is not in the row's bytes."""
        return SourceRecord(
            topic=self.topic,
            partition=self.partition,
            key=self.key,
            key_schema=self.key_schema,
            value=self.value,
            value_schema=self.value_schema,
            timestamp_ms=self.timestamp_ms,
            headers=self.headers,
            source_partition=self.source_partition,
            source_offset=self.source_offset,
        )


_MESSAGE_TYPES: Final = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}


def offset_of(change: Change) -> dict[str, Any]:
    """The offset after a change's record, in Debezium's shape."""
    committed, xid, committed_us = change.place
    if change.snapshot is not None:
        offset = {
            "lsn_commit": committed,
            "lsn": change.lsn,
            "txId": xid,
            "ts_usec": committed_us,
        }
        is_last = change.snapshot == "last"
        return {
            **{name: value for name, value in offset.items() if value is not None},
            "snapshot": "INITIAL",
            "last_snapshot_record": is_last,
            "snapshot_completed": is_last,
        }
    found: dict[str, Any] = {
        "lsn_proc": change.lsn,
        "messageType": _MESSAGE_TYPES[change.operation],
        "lsn_commit": committed,
        "lsn": change.lsn,
        "txId": xid,
        "ts_usec": committed_us,
        "lsn_records": change.records,
    }
    if None in found.values():
        return {name: value for name, value in found.items() if value is not None}
    return found


def _key(change: Change) -> Struct | None:
    table: TableSchema = change.plan.table
    new, old = change.new, change.old
    if new is None:
        assert old is not None, "a change has a row"
        return table.key(read_columns(old))
    return table.key(with_unchanged(read_columns(new), None if old is None else read_columns(old)))


def _value(change: Change) -> Struct:
    table: TableSchema = change.plan.table
    old = None if change.old is None else read_columns(change.old)
    before = None if old is None else table.value(old)
    after = None if change.new is None else table.value(read_columns(change.new), old)
    committed, xid, committed_us = change.place
    time_us, now_us = committed_us or 0, change.now_us
    source = change.plan.source(
        *(table.schema, table.table, change.snapshot, change.lsn, committed, xid),
        *(time_us // 1000, time_us, time_us * 1000),
    )
    times = [now_us // 1000, now_us, now_us * 1000]
    return Struct.of_values(table.envelope, [before, after, source, None, change.operation, *times])


def with_unchanged(new: Sequence[Column], old: Sequence[Column] | None) -> Sequence[Column]:
    """The new tuple with unchanged columns from the old one."""
    if old is None:
        return new
    return [before if after is Unchanged.TOAST else after for after, before in zip(new, old, strict=True)]
