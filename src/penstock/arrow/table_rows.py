"""Rows of tables in Arrow: what identifies them, and how they get the columns of a stored table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
