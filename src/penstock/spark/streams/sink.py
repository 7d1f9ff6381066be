"""What leaves the query: packed blocks, unpacked to the columns of the ``penstock`` sink, which does the
rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.arrow.layout import HEADERS
from penstock.spark.sink.exactly_once import ExactlyOnceStreamWriter
from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.writer import StreamWriter
from penstock.spark.streams.packing import Block, Kind

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_COLUMNS: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("timestamp", TimestampType()),
        StructField("headers", ArrayType(_HEADER)),
    ]
)
_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("headers", HEADERS),
    ]
)


class ExactlyOnceStreamsWriter(ExactlyOnceStreamWriter):
    def __init__(self, options: SinkOptions) -> None:
        super().__init__(options, _COLUMNS)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(unpacked(iterator))


class AtLeastOnceStreamsWriter(StreamWriter):
    def __init__(self, options: SinkOptions) -> None:
        super().__init__(options, _COLUMNS)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(unpacked(iterator))


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each block as one batch of rows for one topic. Blocks of other kinds are for tasks, and hold nothing
    here.

    Where there is no shuffle they come straight from the source.
    """
    for batch in batches:
        for data in batch.column("block"):
            block = Block.unpack(data.as_py())
            if block.kind is Kind.OUTPUTS and block.rows:
                yield block.to_arrow(_SCHEMA)
