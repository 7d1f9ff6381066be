"""Columns that hold the values of two versions of a table's columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

import pyarrow as pa

from penstock.arrow.table_rows import fitted
from penstock.connect.errors import DataError

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS: Final = (pa.float32(), pa.float64())


def widened(present: pa.Schema, added: pa.Schema) -> pa.Schema:
    """Return the present columns, wide enough for both, and then those that are only in ``added``.

    Raises DataError, which names the column, if its types have no common one.
    """
    return pa.schema(_fields(list(present), list(added), ""))


def _fields(present: list[pa.Field], added: list[pa.Field], path: str) -> list[pa.Field]:
    new = {field.name: field for field in added}
    kept = []
    for field in present:
        other = new.pop(field.name, None)
        kind = field.type if other is None else _type(field.type, other.type, path + field.name)
        kept.append(field.with_type(kind).with_nullable(True))
    return [*kept, *new.values()]


def _type(one: pa.DataType, other: pa.DataType, path: str) -> pa.DataType:
    if one == other:
        return one
    for family in (_INTEGERS, _FLOATS):
        if one in family and other in family:
            return family[max(family.index(one), family.index(other))]
    kinds = pa.types
    if kinds.is_struct(one) and kinds.is_struct(other):
        return pa.struct(_fields(list(one), list(other), f"{path}."))
    if kinds.is_map(one) and kinds.is_map(other):
        key = one.key_field.with_type(_type(one.key_type, other.key_type, f"{path}.key"))
        return pa.map_(key, one.item_field.with_type(_type(one.item_type, other.item_type, f"{path}.value")))
    if _is_list(one) and _is_list(other):
        entry = _type(one.value_type, other.value_type, f"{path}.element")
        if entry == one.value_type:
            return one
        return (pa.large_list if kinds.is_large_list(one) else pa.list_)(one.value_field.with_type(entry))
    if kinds.is_decimal(one) and kinds.is_decimal(other) and one.scale == other.scale:
        return one if one.precision >= other.precision else other
    for is_kind in (_is_text, _is_bytes, kinds.is_timestamp):
        if is_kind(one) and is_kind(other):
            return one
    raise DataError(
        f"the column {path!r} has the type {one}, and new values have {other}: there is no common one"
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def paths(columns: pa.Schema) -> set[str]:
    """Return the paths of all columns, those of fields in structs included."""
    found: set[str] = set()
    waiting = [("", column) for column in columns]
    while waiting:
        path, column = waiting.pop()
        found.add(path + column.name)
        kind = column.type
        inner = [kind.field(place) for place in range(kind.num_fields)]
        waiting += [(f"{path}{column.name}.", each) for each in inner]
    return found


def together(rows: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables as one, with the columns of all. Raises DataError in a conflict."""
    columns = reduce(widened, (table.schema for table in rows))
    return pa.concat_tables([fitted(table, columns) for table in rows])
