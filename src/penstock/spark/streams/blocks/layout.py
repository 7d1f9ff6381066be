"""The columns that blocks are made of, and the block of the records that were read from one partition."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.arrow.layout import Layout
from penstock.spark.streams.blocks.packing import Binary, Block, Kind
from penstock.topology.records import NO_HEADERS, Headers

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""The columns that blocks are made of, with timestamps in milliseconds."""
LAYOUT: Final = Layout(include_headers=True, timestamp_unit="ms").select(COLUMNS)


def block_of(batch: pa.RecordBatch, kind: Kind, clock_ms: int) -> Block:
    """Return the records read from one partition, unchanged."""
    topic = batch.column("topic")[0].as_py()
    headers = batch.column("headers")
    return Block(
        kind,
        clock_ms,
        topic,
        batch.column("partition")[0].as_py(),
        (topic,),
        _numbers(batch.column("timestamp")),
        _numbers(batch.column("offset")),
        Binary.of_arrow(batch.column("key")),
        Binary.of_arrow(batch.column("value")),
        None,
        None,
        None if headers.null_count == len(headers) else _header_rows(headers),
    )


def _numbers(array: pa.Array) -> np.ndarray:
    return np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)


def _header_rows(array: pa.Array) -> list[Headers]:
    return [
        NO_HEADERS if row is None else tuple((entry["key"], entry["value"]) for entry in row)
        for row in array.to_pylist()
    ]
