"""The schemas and values of Arrow's columns, without loss.

Times of micro- and nanoseconds become numbers under Debezium's names, because Connect's own times have only
milliseconds.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa

from penstock.connect.data import logical
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

Convert = Callable[[Any], Any]


class ArrowColumn(NamedTuple):
    """The schema of an Arrow type, and the function for its values; None if they stay as they are."""

    schema: Schema
    convert: Convert | None
    as_numbers: bool = False
    """Whether a column is cast to 64-bit numbers before it is read."""


_NUMBERS: Final = {
    pa.int8(): Type.INT8,
    pa.int16(): Type.INT16,
    pa.int32(): Type.INT32,
    pa.int64(): Type.INT64,
    pa.uint8(): Type.INT16,
    pa.uint16(): Type.INT32,
    pa.uint32(): Type.INT64,
    pa.float16(): Type.FLOAT32,
    pa.float32(): Type.FLOAT32,
    pa.float64(): Type.FLOAT64,
    pa.bool_(): Type.BOOLEAN,
    pa.null(): Type.STRING,
}
_PRECISE: Final = {"us": "Micro", "ns": "Nano"}


def arrow_column(of: pa.DataType, nullable: bool = True) -> ArrowColumn:
    """Return the schema and the conversion of a type. Raises DataError if Connect has no such type."""
    if of in _NUMBERS:
        return ArrowColumn(Schema(_NUMBERS[of], optional=nullable or pa.types.is_null(of)), None)
    if pa.types.is_dictionary(of):
        return arrow_column(of.value_type, nullable)
    if pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of):
        return ArrowColumn(Schema(Type.STRING, optional=nullable), None)
    if pa.types.is_binary(of) or pa.types.is_large_binary(of) or pa.types.is_fixed_size_binary(of):
        return ArrowColumn(Schema(Type.BYTES, optional=nullable), None)
    if pa.types.is_decimal(of):
        return ArrowColumn(logical.decimal_schema(of.scale, optional=nullable), None)
    if pa.types.is_uint64(of):
        return ArrowColumn(logical.decimal_schema(0, optional=nullable), Decimal)
    if pa.types.is_temporal(of):
        return _time(of, nullable)
    return _nested(of, nullable)


def _time(of: pa.DataType, nullable: bool) -> ArrowColumn:
    if pa.types.is_date(of):
        return ArrowColumn(logical.date_schema(optional=nullable), None)
    if pa.types.is_timestamp(of) or pa.types.is_time(of):
        kind = "Timestamp" if pa.types.is_timestamp(of) else "Time"
        if of.unit in _PRECISE:
            name = f"io.debezium.time.{_PRECISE[of.unit]}{kind}"
            return ArrowColumn(Schema(Type.INT64, optional=nullable, name=name, version=1), None, True)
        if kind == "Time":
            return ArrowColumn(logical.time_schema(optional=nullable), None)
        return ArrowColumn(logical.timestamp_schema(optional=nullable), _in_utc)
    raise DataError(f"Connect has no type for {of} of Arrow")


def _nested(of: pa.DataType, nullable: bool) -> ArrowColumn:
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        element = _within(of.value_field)
        convert = element.convert
        schema = Schema.array(element.schema, optional=nullable)
        return ArrowColumn(schema, None if convert is None else lambda found: [*map(convert, found)])
    if pa.types.is_map(of):
        key, item = _within(of.key_field), _within(of.item_field)
        schema = Schema.map(key.schema, item.schema, optional=nullable)
        key_of, item_of = key.convert or _same, item.convert or _same
        return ArrowColumn(schema, lambda found: {key_of(name): item_of(each) for name, each in found})
    if pa.types.is_struct(of):
        columns = {each.name: _within(each) for each in of}
        schema = Schema.struct({name: each.schema for name, each in columns.items()}, optional=nullable)
        reads = [(name, each.convert or _same) for name, each in columns.items()]
        return ArrowColumn(
            schema, lambda found: Struct.of_values(schema, [read(found[name]) for name, read in reads])
        )
    raise DataError(f"Connect has no type for {of} of Arrow")


def _within(field: pa.Field) -> ArrowColumn:
    """The column of a field in a list, map or struct, whose values are converted one by one."""
    found = arrow_column(field.type, field.nullable)
    convert = _number_in(field.type) if found.as_numbers else found.convert
    if convert is None:
        return found
    return ArrowColumn(found.schema, lambda value: None if value is None else convert(value))


def _number_in(of: pa.DataType) -> Convert:
    return lambda value: pa.scalar(value, of).cast(pa.int64()).as_py()


def _same(value: Any) -> Any:
    return value


def _in_utc(value: datetime.datetime) -> datetime.datetime:
    return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)


def column_values(column: pa.Array, of: ArrowColumn) -> list[Any]:
    """Return the values of a column as Connect has them."""
    if of.as_numbers:
        return list(column.cast(pa.int64()).to_pylist())
    values = column.to_pylist()
    convert = of.convert
    if convert is not None:
        values = [None if each is None else convert(each) for each in values]
    return list(values)
