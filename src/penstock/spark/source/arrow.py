"""Fetched record batches to Arrow batches in the source's schema, without a Python object per record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.client.batches import headers as batch_headers
from penstock.client.fetcher import PartitionRange
from penstock.protocol.batch import Buffer
from penstock.protocol.columns import BinaryColumn, HeadersColumn, RecordColumns, decode_columns
from penstock.spark.source.schema import ARROW_HEADERS, arrow_schema

# A few MB of ordinary records: large enough to be cheap per row, small enough to stay in the cache.
_ROWS_PER_BATCH: Final = 65_536
_MAX_TIMESTAMP_MS: Final = (2**63 - 1) // 1000


def arrow_batches(
    batches: memoryview, wanted: PartitionRange, include_headers: bool, check_crcs: bool
) -> Iterator[pa.RecordBatch]:
    """The records of ``batches`` that lie in the range. Raises CorruptBatch, MalformedRecords."""
    schema = arrow_schema(include_headers)
    for chunk in _chunks(batches):
        columns = decode_columns(
            chunk, wanted.start, wanted.end, include_headers=include_headers, check_crc=check_crcs
        )
        if columns.rows:
            yield pa.RecordBatch.from_arrays(_arrays(columns, wanted), schema=schema)


def _chunks(batches: memoryview) -> Iterator[memoryview]:
    """Cut between batches, so that what they decompress to never fills the memory at once."""
    start = rows = 0
    for position, header in batch_headers(batches):
        if rows and rows + header.count > _ROWS_PER_BATCH:
            yield batches[start:position]
            start, rows = position, 0
        rows += header.count
    if start < len(batches):
        yield batches[start:]


def _arrays(columns: RecordColumns, wanted: PartitionRange) -> list[pa.Array]:
    rows = columns.rows
    timestamps_ms = np.frombuffer(columns.timestamp, np.int64)
    # A timestamp is the producer's own number: the far future is shown as the last moment Spark can say.
    timestamps_us = np.clip(timestamps_ms, -_MAX_TIMESTAMP_MS, _MAX_TIMESTAMP_MS) * 1000
    arrays = [
        _binary(columns.key, rows, pa.binary()),
        _binary(columns.value, rows, pa.binary()),
        pa.repeat(pa.scalar(wanted.topic, pa.string()), rows),
        pa.repeat(pa.scalar(wanted.partition, pa.int32()), rows),
        _fixed(columns.offset, rows, pa.int64()),
        _fixed(timestamps_us, rows, pa.timestamp("us", "UTC")),
        _fixed(columns.timestamp_type, rows, pa.int32()),
    ]
    if columns.headers is not None:
        arrays.append(_headers(columns.headers, rows))
    return arrays


def _fixed(data: Buffer | np.ndarray, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)])


def _binary(column: BinaryColumn, rows: int, kind: pa.DataType) -> pa.Array:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _headers(column: HeadersColumn, rows: int) -> pa.Array:
    """A record without headers has null, as in Spark's own source."""
    ends = np.frombuffer(column.offsets, np.int32)
    count = int(ends[-1])
    entries = pa.StructArray.from_arrays(
        [_binary(column.keys, count, pa.string()), _binary(column.values, count, pa.binary())],
        fields=list(ARROW_HEADERS.value_type),
    )
    validity = np.packbits(np.diff(ends) > 0, bitorder="little")
    return pa.Array.from_buffers(
        ARROW_HEADERS, rows, [pa.py_buffer(validity), pa.py_buffer(column.offsets)], children=[entries]
    )
