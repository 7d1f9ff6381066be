"""Tables as changes need them: rows are found by a column's values, and edited by one atomic commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Edit:
    """The effect of one batch of changes on a table.

    Rows are the same row if their columns ``identity`` are equal. ``put`` has the rows that are inserted, or
    replace the same row. ``removed`` has the identities of rows that go, if they are there. With
    ``everything``, all rows go but those in ``put``.
    """

    identity: tuple[str, ...]
    put: pa.Table
    removed: pa.Table
    everything: bool = False

    @property
    def changes_anything(self) -> bool:
        return bool(self.everything or self.put.num_rows or self.removed.num_rows)


class TargetTable(Protocol):
    """A table that `apply_changes` keeps: of Delta, of Iceberg, or of a class of the user's."""

    def columns(self) -> pa.Schema | None:
        """Return the table's columns; None if there is no table yet."""

    def applied(self, writer: str) -> int | None:
        """Return the id of the last batch that a query has committed; None if there is none."""

    def rows(self, column: str, values: pa.Array | None) -> pa.Table:
        """Return the rows in which a column has one of the values, or all rows; further rows do no harm."""

    def write(self, edit: Edit, writer: str, batch: int) -> None:
        """Commit an edit and that a query's batch was applied, both or neither.

        Creates the table if there is none, and adds the columns of ``put`` that it lacks.
        """


Identity = tuple[Any, ...]


def identities(rows: pa.Table, columns: Sequence[str]) -> list[Identity]:
    """Return what identifies each row: the values of columns, those of structs as tuples."""
    return list(zip(*(comparable(rows[name]) for name in columns), strict=True))


def comparable(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values such that they can be compared and hashed: structs become tuples."""
    values: list[Any] = column.to_pylist()
    if not pa.types.is_struct(column.type):
        return values
    return [None if value is None else tuple(value.values()) for value in values]


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a table's column for values of a type: times with a zone are stored in UTC."""
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) and kind.tz is not None else kind


def fitted(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return rows with exactly these columns; those that the rows lack are null.

    Raises ValueError for a value that does not fit its column.
    """
    columns_of_rows = []
    for field in columns:
        if field.name not in rows.column_names:
            columns_of_rows.append(pa.nulls(rows.num_rows, field.type))
            continue
        column = rows[field.name]
        try:
            columns_of_rows.append(_cast(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ValueError(
                f"the column {field.name!r} has the type {field.type} in the table and {column.type} in the "
                f"changes, where a value does not fit: {error}"
            ) from error
    return pa.table(columns_of_rows, schema=columns)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast a column. Raises pa.ArrowInvalid if a value would change, which Arrow allows for floats."""
    found = column.cast(kind)
    types = (column.type, kind)
    is_exact = column.type == kind or not any(map(pa.types.is_floating, types))
    if is_exact or not all(pa.types.is_floating(each) or pa.types.is_decimal(each) for each in types):
        return found
    is_same = pc.equal(found.cast(column.type), column)
    if pa.types.is_floating(column.type):
        is_same = pc.or_(is_same, pc.is_nan(column))
    if pc.all(is_same).as_py() is False:
        place = pc.index(is_same, pa.scalar(False)).as_py()
        raise pa.ArrowInvalid(f"{column[place].as_py()} would become {found[place].as_py()}")
    return found
