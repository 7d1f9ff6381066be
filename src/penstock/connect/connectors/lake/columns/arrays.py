"""Values of Connect as Arrow arrays, a column at a time: several times as fast as row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any

import pyarrow as pa

from penstock.connect.connectors.lake.columns.arrow_types import ArrowTypes, part
from penstock.connect.data.logical import DECIMAL_NAME, TIME_NAME, millis_of_day, scale_parameter
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError


def table_of(schema: Schema, values: Sequence[Any], types: ArrowTypes) -> pa.Table:
    """Return structs, or dicts with the fields of a schema, as the rows of a table.

    Raises DataError if a value does not fit its schema or its column.
    """
    columns = types.columns_of(schema)
    try:
        return pa.Table.from_arrays(_children(schema, values, types), schema=columns)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise DataError(f"a value does not fit its column: {error}") from error


def _array(schema: Schema, values: Sequence[Any], types: ArrowTypes) -> pa.Array:
    if schema.default is not None and None in values:
        values = [schema.default if value is None else value for value in values]
    match schema.type:
        case Type.STRUCT:
            return _structs(schema, values, types)
        case Type.ARRAY:
            inner = part(schema.value_schema, schema)
            entries = [entry for value in values if value is not None for entry in value]
            return pa.ListArray.from_arrays(
                _ends(values), _array(inner, entries, types), types.type_of(schema), mask=_missing(values)
            )
        case Type.MAP:
            return _maps(schema, values, types)
        case Type.BYTES if schema.name == DECIMAL_NAME:
            _require_scale(values, scale_parameter(schema))
        case Type.INT32 if schema.name == TIME_NAME and not types.times:
            values = [None if value is None else millis_of_day(value) for value in values]
    return pa.array(values, types.type_of(schema))


def _children(schema: Schema, values: Sequence[Any], types: ArrowTypes) -> list[pa.Array]:
    rows = [_row(schema, value) for value in values]
    columns = zip(*rows, strict=True) if rows else [()] * len(schema.fields)
    return [_array(each.schema, column, types) for each, column in zip(schema.fields, columns, strict=True)]


def _row(schema: Schema, value: Any) -> Sequence[Any]:
    if isinstance(value, Struct):
        if len(value.own_values) != len(schema.fields):
            raise DataError(f"a struct has {len(value.own_values)} values, expected {len(schema.fields)}")
        return value.own_values
    if isinstance(value, Mapping):
        return [value.get(each.name) for each in schema.fields]
    raise DataError(f"expected a struct or a map, found {type(value).__name__}")


def _structs(schema: Schema, values: Sequence[Any], types: ArrowTypes) -> pa.Array:
    nothing: Mapping[str, Any] = {}
    children = _children(schema, [nothing if value is None else value for value in values], types)
    return pa.StructArray.from_arrays(children, fields=list(types.type_of(schema)), mask=_missing(values))


def _maps(schema: Schema, values: Sequence[Any], types: ArrowTypes) -> pa.Array:
    keys = [key for value in values if value is not None for key in value]
    entries = [entry for value in values if value is not None for entry in value.values()]
    return pa.MapArray.from_arrays(
        _ends(values),
        _array(part(schema.key_schema, schema), keys, types),
        _array(part(schema.value_schema, schema), entries, types),
        types.type_of(schema),
        mask=_missing(values),
    )


def _ends(values: Sequence[Any]) -> pa.Array:
    """Return where the entries of each list or map begin, and where the last ones end."""
    lengths = (0 if value is None else len(value) for value in values)
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32())


def _missing(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _require_scale(values: Sequence[Decimal | None], scale: int) -> None:
    """Raise DataError for a decimal with another scale than its schema has, as Connect does."""
    for value in values:
        if value is not None and value.as_tuple().exponent != -scale:
            raise DataError(f"a decimal does not have the scale of its schema: {value}, expected {scale}")
