"""The columns of a topic as Spark's own Kafka source names and types them, for Spark and for Arrow."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_COLUMNS: Final = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]

ARROW_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_ARROW_COLUMNS: Final = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("timestampType", pa.int32()),
]


def source_schema(include_headers: bool) -> StructType:
    headers = [StructField("headers", ArrayType(_HEADER))] if include_headers else []
    return StructType([*_COLUMNS, *headers])


def arrow_schema(include_headers: bool) -> pa.Schema:
    """Exactly what `to_arrow_schema` of pyspark makes of `source_schema`: Spark refuses anything else."""
    headers = [pa.field("headers", ARROW_HEADERS)] if include_headers else []
    return pa.schema([*_ARROW_COLUMNS, *headers])
