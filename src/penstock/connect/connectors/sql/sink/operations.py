"""Turns records into operations on rows, and operations into statements with many rows.

Operations on a table keep their order. Upserts and deletes are reduced to the last one of each key, and then
the deletes come first. A database that takes different texts for the same key gets them in their order, and
so do columns that may do the same, such as PostgreSQL's citext.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.connect.connectors.sql.connecting import Database
from penstock.connect.connectors.sql.dialects import Column, Target
from penstock.connect.connectors.sql.names import TableName
from penstock.connect.connectors.sql.sink.definition import UPDATE, UPSERT, SinkSettings
from penstock.connect.connectors.sql.sink.layouts import LAYOUTS_MAX, FieldOfRow, Layout, Layouts, Values
from penstock.connect.connectors.sql.sink.refusals import RowRefused
from penstock.connect.connectors.sql.sink.tables import Tables
from penstock.connect.connectors.sql.sink.values import Bind, binder
from penstock.connect.data.records import SinkRecord

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


PADDED: Final = frozenset({"character", "char"})
"""Types of texts that are equal although they end with different numbers of spaces."""


class Operation(NamedTuple):
    """One record's row to write, or the key of a row to delete."""

    record: SinkRecord
    target: Target
    is_delete: bool
    row: tuple[Any, ...]


class _Side:
    """The keys or the other values of rows with one layout."""

    def __init__(
        self,
        fields: Sequence[FieldOfRow],
        columns: Sequence[Column | None],
        values: Values,
        database: Database,
        settings: SinkSettings,
    ) -> None:
        zone = settings.database.zone
        self.columns = tuple(each for each in columns if each is not None)
        self._kept = None if len(self.columns) == len(columns) else [each is not None for each in columns]
        self._values = values
        binds: list[tuple[int, Bind | None]] = [
            (place, binder(field.schema, column, database.dialect, zone))
            for place, (field, column) in enumerate(zip(fields, columns, strict=True))
            if column is not None
        ]
        self._binds = [(place, bind) for place, bind in binds if bind is not None]

    def row(self, record: SinkRecord) -> list[Any]:
        values = self._values(record)
        for place, bind in self._binds:
            if values[place] is not None:
                values[place] = bind(values[place])
        if self._kept is not None:
            return [value for value, kept in zip(values, self._kept, strict=True) if kept]
        return values


class Operations:
    """Makes the operations of records."""

    def __init__(self, settings: SinkSettings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._layouts = Layouts(settings)
        self._tables = Tables(settings, database)
        self._sides: dict[tuple[TableName, int], tuple[Layout, _Side, _Side, Target]] = {}

    def forget(self) -> None:
        """Look at the tables again before the next rows."""
        self._tables.forget()
        self._sides.clear()

    def of(self, record: SinkRecord) -> Operation | None:
        """The operation of a record; None if there is nothing to do.

        Raises:
            RowRefused: the record cannot become a row.
        """
        is_delete = record.value is None
        if is_delete and not self._settings.deletes:
            raise RowRefused("the value is null; delete.enabled=true deletes the row of its key")
        table = self._tables.name_for(record.topic)
        layout = self._layouts.layout(record)
        known = self._sides.get((table, id(layout)))
        if known is None:
            if is_delete and not self._tables.existing(table):
                return None
            known = self._new(table, layout)
        _layout, keys, others, target = known
        try:
            row = (*keys.row(record), *others.row(record))
        except (ValueError, TypeError, ArithmeticError, KeyError, AttributeError) as error:
            raise RowRefused(f"a value does not fit its column: {error}") from error
        return Operation(record, target, is_delete, row)

    def _new(self, table: TableName, layout: Layout) -> tuple[Layout, _Side, _Side, Target]:
        key_columns, other_columns = self._tables.columns_for(table, layout)
        if None in key_columns:
            raise RowRefused(f"a part of the key is null, and the table {table} has no column for it")
        keys = _Side(layout.keys, key_columns, layout.key_values, self._database, self._settings)
        others = _Side(layout.others, other_columns, layout.other_values, self._database, self._settings)
        target = Target(table, keys.columns, others.columns)
        if len(self._sides) >= LAYOUTS_MAX:
            self._sides.clear()
        # The layout is kept beside its id, so that no other object gets the same id.
        made = self._sides[table, id(layout)] = (layout, keys, others, target)
        return made

    def run(self, connection: Connection, operations: Iterable[Operation]) -> None:
        """Carry out operations in the transaction of a connection."""
        dialect = self._database.dialect
        mode = self._settings.insert_mode
        for target, is_delete, rows in self._statements(operations):
            for first in range(0, len(rows), self._settings.rows_max):
                some = rows[first : first + self._settings.rows_max]
                if is_delete:
                    dialect.delete_rows(connection, target, some)
                elif mode == UPDATE:
                    dialect.update_rows(connection, target, some)
                else:
                    dialect.insert_rows(connection, target, some, upserts=mode == UPSERT)

    def _statements(
        self, operations: Iterable[Operation]
    ) -> Iterator[tuple[Target, bool, list[tuple[Any, ...]]]]:
        by_table: dict[TableName, list[Operation]] = {}
        for each in operations:
            by_table.setdefault(each.target.table, []).append(each)
        for some in by_table.values():
            reduces = self._settings.insert_mode == UPSERT
            yield from self._reduced(some) if reduces else _runs(some)

    def _reduced(
        self, operations: Sequence[Operation]
    ) -> Iterator[tuple[Target, bool, list[tuple[Any, ...]]]]:
        """The last operation of each key, the deletes first, for each stretch with the same columns."""
        keys = operations[0].target.keys
        keeps_order = self._database.dialect.folds_case or any(
            each.kind == "any" or each.type in PADDED for each in keys
        )
        last: dict[Any, Operation] = {}
        target: Target | None = None
        for each in operations:
            if not each.is_delete:
                if target is not None and each.target is not target:
                    yield from _ordered(last.values(), keeps_order=keeps_order)
                    last.clear()
                target = each.target
            key = each.row[: len(each.target.keys)]
            try:
                last.pop(key, None)
            except TypeError:  # a key that Python cannot compare, such as an array
                key = (repr(key),)
                last.pop(key, None)
            last[key] = each
        yield from _ordered(last.values(), keeps_order=keeps_order)


def _ordered(
    operations: Iterable[Operation], *, keeps_order: bool
) -> Iterator[tuple[Target, bool, list[tuple[Any, ...]]]]:
    some = list(operations)
    if not keeps_order:
        some.sort(key=lambda each: not each.is_delete)
    return _runs(some)


def _runs(operations: Sequence[Operation]) -> Iterator[tuple[Target, bool, list[tuple[Any, ...]]]]:
    """Neighbours with the same statement together."""
    first = 0
    for place, each in enumerate(operations):
        before = operations[first]
        if each.is_delete is not before.is_delete or each.target is not before.target:
            yield before.target, before.is_delete, [every.row for every in operations[first:place]]
            first = place
    if operations:
        before = operations[first]
        yield before.target, before.is_delete, [every.row for every in operations[first:]]
