"""Rows that replace or remove those with the same key (upsert), from records of several shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.table_rows import identities
from penstock.connect.connectors.lake.columns.fields import field_of, own_field
from penstock.connect.connectors.lake.columns.row_buffer import DELETED
from penstock.connect.connectors.lake.columns.widening import together
from penstock.connect.data.records import SinkRecord
from penstock.connect.data.schema import Schema
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

DELETES: Final = frozenset({"d", "delete", "true"})
"""The values, in lower case, of a field that marks a deletion: Debezium's `op` and `__deleted`, and words."""


class Change(NamedTuple):
    """The row that a record puts into a table; if it is deleted, only its keys matter."""

    schema: Schema | None
    value: Any
    is_deleted: bool = False


@dataclass(frozen=True)
class KeyedChanges:
    """Reads changes from records: ``keys`` identify rows, the field ``operation`` marks deletions."""

    keys: tuple[str, ...]
    operation: str | None = None

    def of(self, record: SinkRecord) -> Change:
        """Return the change that a record makes. Raises DataError if it lacks a key."""
        if record.value is None:
            return self._tombstone(record)
        for name in self.keys:
            if own_field(record.value, name) is None:
                raise DataError(
                    f"the record's value has no key field {name!r}: expected {', '.join(self.keys)}"
                )
        mark = None if self.operation is None else field_of(record.value, self.operation)
        return Change(record.value_schema, record.value, str(mark).lower() in DELETES)

    def _tombstone(self, record: SinkRecord) -> Change:
        """Return the deletion that a record without a value makes: its key is the row's."""
        if isinstance(record.key, Struct | Mapping):
            values = [own_field(record.key, name) for name in self.keys]
        else:
            values = [record.key] if len(self.keys) == 1 else []
        if not values or None in values:
            raise DataError(
                f"a record without a value deletes by its key: expected {', '.join(self.keys)}, "
                f"found {record.key!r}"
            )
        row = dict(zip(self.keys, values, strict=True))
        if record.key_schema is None:
            return Change(None, row, is_deleted=True)
        if isinstance(record.key, Struct):
            fields = {name: record.key.schema.by_name[name].schema for name in self.keys}
        else:
            fields = {self.keys[0]: record.key_schema}
        return Change(Schema.struct(fields), row, is_deleted=True)


class LastChanges(NamedTuple):
    """One row for each key: ``put`` has those to insert or replace, ``removed`` the keys to delete."""

    put: pa.Table
    removed: pa.Table

    @property
    def row_count(self) -> int:
        return int(self.put.num_rows + self.removed.num_rows)


def last_changes(rows: Sequence[pa.Table], keys: Sequence[str]) -> LastChanges:
    """Return what is left of changes in their order: the last one of each key."""
    changes = together(rows)
    last = {identity: place for place, identity in enumerate(identities(changes, keys))}
    kept = changes.take(pa.array(sorted(last.values()), pa.int64()))
    deleted = kept[DELETED]
    return LastChanges(
        kept.filter(pc.invert(deleted)).drop_columns([DELETED]), kept.filter(deleted).select(list(keys))
    )
