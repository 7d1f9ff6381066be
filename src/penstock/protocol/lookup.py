"""The few cases in which a broker must read the records inside a batch, always off the event loop.

Compacted topics refuse records without a key, and ListOffsets finds records by their timestamps. Both use the
column kernel. Only the compiled kernel holds the GIL for no more than microseconds.
"""

from __future__ import annotations

from penstock.protocol import batch
from penstock.protocol.batch import Buffer
from penstock.protocol.columns import RecordColumns, decode_columns
from penstock.protocol.compression import DEFAULT_MAX_BYTES


def find_null_key(buf: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> bool:
    """Whether any record of the batch has no key. Raises MalformedRecords if the records cannot be parsed."""
    key = _columns_of_batch(buf, 0, max_bytes, include_keys=True).key
    return key is not None and key.null_count > 0


def first_offset_at(
    buf: Buffer, timestamp: int, position: int = 0, max_bytes: int = DEFAULT_MAX_BYTES
) -> tuple[int, int] | None:
    """Find the first record at or after `timestamp` in the batch at `position`.

    Returns (offset, timestamp), or None if there is no such record.
    """
    columns = _columns_of_batch(buf, position, max_bytes)
    for row, found in enumerate(memoryview(columns.timestamp).cast("q")):
        if found >= timestamp:
            return memoryview(columns.offset).cast("q")[row], found
    return None


def max_timestamp_offset(
    buf: Buffer, position: int = 0, max_bytes: int = DEFAULT_MAX_BYTES
) -> tuple[int, int] | None:
    """Find the first record with the latest timestamp in the batch at `position` (KIP-734).

    Returns (offset, timestamp), or None if the batch has no records left (compaction keeps such batches for
    their sequences).
    """
    columns = _columns_of_batch(buf, position, max_bytes)
    timestamps = memoryview(columns.timestamp).cast("q").tolist()
    if not timestamps:
        return None
    latest = max(timestamps)
    return memoryview(columns.offset).cast("q")[timestamps.index(latest)], latest


def _columns_of_batch(
    buf: Buffer, position: int, max_bytes: int, *, include_keys: bool = False
) -> RecordColumns:
    header = batch.parse_header(buf, position)
    one_batch = memoryview(buf)[position : position + header.size_bytes]
    return decode_columns(
        one_batch, include_keys=include_keys, include_values=False, check_crc=False, max_bytes=max_bytes
    )
