"""The rows of an application's query: the number of a group, and a packed block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

PackedRow = tuple[int, bytes]
"""A row: the group and a packed block."""

PACKED: Final = StructType(
    [StructField("group", IntegerType(), False), StructField("block", BinaryType(), False)]
)
"""The columns of a row, as Spark's type."""
ROWS: Final = pa.schema([pa.field("group", pa.int32(), False), pa.field("block", pa.binary(), False)])
"""The same columns in Arrow."""

_BATCH_BYTES: Final = 4 << 20
"""The size of the blocks from which an Arrow batch is passed on."""


def row_batches(rows: Iterator[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches of a few rows each; a row's last field is its block."""
    held: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row[-1])
        if size >= _BATCH_BYTES:
            yield _batch(held, schema)
            held, size = [], 0
    if held:
        yield _batch(held, schema)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
