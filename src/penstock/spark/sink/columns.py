"""Find the columns of a DataFrame that make a record, and convert them to arrays for the encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.client.settings import ConfigError
from penstock.protocol.columns import BinaryColumn, HeadersColumn, RowColumns, TimestampColumn

_TEXT_OR_BINARY: Final = "string or binary"
_HEADERS: Final = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The names of the columns that exist, as the DataFrame spells them. Other columns are ignored."""

    value: str
    key: str | None
    headers: str | None
    topic: str | None
    partition: str | None
    timestamp: str | None


def find_columns(
    schema: StructType, has_topic_option: bool, encoded: frozenset[str] = frozenset()
) -> SinkColumns:
    """Return the columns to write. Raises ConfigError if one is missing or has the wrong type.

    ``encoded`` names those of key and value that a format writes, which then decides on their types.
    """
    fields = {field.name.lower(): field for field in schema}
    if "value" not in fields:
        raise ConfigError(f"the column 'value' is missing: found {', '.join(schema.names) or 'no columns'}")
    if "topic" not in fields and not has_topic_option:
        raise ConfigError("no topic to write to: set the option 'topic' or add a column 'topic'")
    expected = {
        "value": _TEXT_OR_BINARY,
        "key": _TEXT_OR_BINARY,
        "topic": "string",
        "partition": "int",
        "headers": _HEADERS,
        "timestamp": "timestamp",
    }
    for name, types in expected.items():
        if name in fields and name not in encoded and not _is_fit(name, fields[name].dataType):
            found = fields[name].dataType.simpleString()
            raise ConfigError(f"the column '{name}' has the type {found}, expected {types}")
    names = {name: fields[name].name if name in fields else None for name in expected if name != "value"}
    if has_topic_option:
        names["topic"] = None
    return SinkColumns(value=fields["value"].name, **names)


def _is_fit(name: str, kind: DataType) -> bool:
    match name:
        case "value" | "key":
            return isinstance(kind, (StringType, BinaryType))
        case "topic":
            return isinstance(kind, StringType)
        case "partition":
            return isinstance(kind, IntegerType)
        case "timestamp":
            return isinstance(kind, (TimestampType, TimestampNTZType))
    wanted = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    return (
        isinstance(kind, ArrayType)
        and isinstance(kind.elementType, StructType)
        and [(f.name.lower(), type(f.dataType)) for f in kind.elementType]
        == [(f.name, type(f.dataType)) for f in wanted]
    )


def row_columns(batch: pa.RecordBatch, columns: SinkColumns) -> RowColumns:
    """The arrays of the columns, without a copy except for timestamps, which change from µs to ms."""
    return RowColumns(
        rows=batch.num_rows,
        key=None if columns.key is None else binary_column(batch.column(columns.key)),
        value=binary_column(batch.column(columns.value)),
        timestamp=None if columns.timestamp is None else _timestamp_column(batch.column(columns.timestamp)),
        headers=None if columns.headers is None else _headers_column(batch.column(columns.headers)),
    )


def binary_column(array: pa.Array) -> BinaryColumn:
    """The buffers of a string or binary array; an array of the large kind is narrowed first."""
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        array = array.cast(pa.binary())
    validity, offsets, data = array.buffers()
    return BinaryColumn(
        offsets=offsets,
        data=b"" if data is None else data,
        validity=validity,
        array_offset=array.offset,
        null_count=array.null_count,
    )


def _timestamp_column(array: pa.Array) -> TimestampColumn:
    validity, data = array.buffers()
    timestamps_ms = np.frombuffer(data, np.int64) // 1000
    return TimestampColumn(timestamps_ms.data, validity, array.offset)


def _headers_column(array: pa.Array) -> HeadersColumn:
    validity, offsets = array.buffers()[:2]
    keys, values = array.values.flatten()  # a null header becomes one without key, which the encoder rejects
    return HeadersColumn(offsets, binary_column(keys), binary_column(values), validity, array.offset)
