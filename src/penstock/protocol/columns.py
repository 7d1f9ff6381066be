"""Convert record batches to Arrow columns and back, without Arrow: plain buffers in its memory layout.

Readers turn the records of a fetch response into columns that `pyarrow.Array.from_buffers` accepts without a
copy. Writers turn rows of columns into record batches. The loops are compiled if a C compiler was available
when the package was installed, and plain Python otherwise: `IMPLEMENTATION` tells which.

The layout, in native byte order: offset int64, timestamp int64 (ms), timestamp_type int32 (0 CreateTime, 1
LogAppendTime, -1 none, for magic 0), key and value binary (validity bitmap, int32 offsets, data), headers
list<struct<key: utf8, value: binary>>.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.protocol import batch
from penstock.protocol.batch import (
    HEADER_SIZE,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Buffer,
    CorruptBatch,
    MalformedRecords,
)
from penstock.protocol.compression import DEFAULT_MAX_BYTES, Codec, compress
from penstock.protocol.kernels import kernel
from penstock.protocol.records import assemble_batch, decode_batch, records_section

if TYPE_CHECKING:
    from penstock.protocol.kernels.column_decoder_py import BinaryBuffers, HeaderBuffers

IMPLEMENTATION: Final[str] = kernel.IMPLEMENTATION

partition_keys = kernel.partition_keys
split_rows = kernel.split_rows

NO_TIMESTAMP_TYPE: Final = -1
_MAX_OFFSET: Final = (1 << 63) - 1
_MAX_BATCH_BYTES: Final = (1 << 31) - 1
_NO_LIMIT: Final = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """An Arrow binary (or utf8) array; no `validity` means no nulls, `array_offset` is that of a slice."""

    offsets: Buffer
    data: Buffer
    validity: Buffer | None = None
    array_offset: int = 0
    null_count: int = -1


@dataclass(frozen=True, slots=True)
class TimestampColumn:
    """An Arrow int64 or timestamp('ms') array to encode."""

    data: Buffer
    validity: Buffer | None = None
    array_offset: int = 0


@dataclass(frozen=True, slots=True)
class HeadersColumn:
    """An Arrow list<struct<key: utf8, value: binary>> array, in which no struct itself is null."""

    offsets: Buffer
    keys: BinaryColumn
    values: BinaryColumn
    validity: Buffer | None = None
    array_offset: int = 0


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The result of `decode_columns`: `rows` records, and the offset and position to continue reading at.

    Columns that were not requested are None.
    """

    rows: int
    next_offset: int
    end_position: int
    offset: Buffer
    timestamp: Buffer
    timestamp_type: Buffer
    key: BinaryColumn | None
    value: BinaryColumn | None
    headers: HeadersColumn | None


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The input of `encode_batches`: `rows` rows; a missing column is null in every row."""

    rows: int
    key: BinaryColumn | None = None
    value: BinaryColumn | None = None
    timestamp: TimestampColumn | None = None
    headers: HeadersColumn | None = None


OnDamage: TypeAlias = Callable[[BatchHeader, CorruptBatch | MalformedRecords], None]


# --- decode -------------------------------------------------------------------------------------------------


def decode_columns(
    buf: Buffer,
    start_offset: int = 0,
    end_offset: int = _MAX_OFFSET,
    *,
    include_headers: bool = False,
    include_keys: bool = True,
    include_values: bool = True,
    check_crc: bool = True,
    max_bytes: int = DEFAULT_MAX_BYTES,
    stop_at_rows: int = _NO_LIMIT,
    stop_at_bytes: int = _NO_LIMIT,
    on_damage: OnDamage | None = None,
) -> RecordColumns:
    """Decode the records of the batches in `buf` with an offset in [start_offset, end_offset).

    `buf` is a partition's part of a fetch response: consecutive batches, of which the first may begin before
    `start_offset`, and the last may be partial (it is ignored). Control batches contain no records for
    readers. Each batch may decompress to `max_bytes`. Decoding stops before a batch that would exceed
    `stop_at_rows`, or once there are `stop_at_bytes` of keys and values, but never before the first batch.

    `next_offset` is the offset to continue at: after the last whole batch, at most `end_offset`, or
    `start_offset` if no batch was whole. `end_position` is the same as a position in `buf`, and its end if
    nothing in it is left to read. ``on_damage`` receives each batch that cannot be decoded; decoding goes on
    behind the batch if it returns. Without it, CorruptBatch or MalformedRecords are raised (both name the
    base offset). Raises OverflowError if a column would exceed 2 GiB.
    """
    view = memoryview(buf)
    builder = kernel.ColumnBuilder(include_headers, include_keys, include_values)
    next_offset = start_offset
    position = 0
    while True:
        position, reached = builder.append_batches(
            view, position, start_offset, end_offset, check_crc, stop_at_rows, stop_at_bytes
        )
        next_offset = max(next_offset, reached)
        size_bytes = batch.batch_size_bytes(view, position)
        if size_bytes is None or position + size_bytes > len(view):
            break
        header = batch.parse_header(view, position)
        if header.last_offset >= start_offset:
            if header.magic == batch.CURRENT_MAGIC and header.base_offset >= end_offset:
                next_offset = max(next_offset, end_offset)  # compaction has left a gap up to this batch
                position = len(view)
                break
            if builder.rows and (
                builder.rows + header.count > stop_at_rows or builder.data_bytes >= stop_at_bytes
            ):
                break
            try:
                _append_batch(
                    builder, view, position, header, start_offset, end_offset, max_bytes, check_crc=check_crc
                )
            except (CorruptBatch, MalformedRecords) as error:
                if on_damage is None:
                    raise
                on_damage(header, error)
            next_offset = max(next_offset, min(header.next_offset, end_offset))
        position += size_bytes
    return _columns_of(builder, next_offset, position)


def _append_batch(
    builder: kernel.ColumnBuilder,
    view: memoryview,
    position: int,
    header: BatchHeader,
    start_offset: int,
    end_offset: int,
    max_bytes: int,
    *,
    check_crc: bool,
) -> None:
    _check_header(header)
    if check_crc and not batch.crc_is_valid(view, header, position):
        raise CorruptBatch(f"checksum of the batch at base offset {header.base_offset} fails")
    if header.magic != batch.CURRENT_MAGIC:
        _append_legacy(builder, view, position, header, start_offset, end_offset, max_bytes)
    elif not header.is_control:
        payload = records_section(view, header, position, max_bytes)
        builder.append_payload(payload, header, start_offset, end_offset)


def _check_header(header: BatchHeader) -> None:
    """Check the fields that the producer sets, and that the broker accepts unchecked."""
    if (
        header.last_offset_delta < 0
        or not 0 <= header.base_offset <= _MAX_OFFSET - header.last_offset_delta - 1
    ):
        raise MalformedRecords(f"batch of offsets {header.base_offset} to {header.last_offset}")


def _append_legacy(
    builder: kernel.ColumnBuilder,
    view: memoryview,
    position: int,
    header: BatchHeader,
    start_offset: int,
    end_offset: int,
    max_bytes: int,
) -> None:
    timestamp_type = header.timestamp_type if header.magic == 1 else NO_TIMESTAMP_TYPE
    for record in decode_batch(view, position, max_bytes):
        if start_offset <= record.offset < end_offset:
            builder.append_row(
                record.offset, record.timestamp, timestamp_type, record.key, record.value, record.headers
            )


def _columns_of(builder: kernel.ColumnBuilder, next_offset: int, end_position: int) -> RecordColumns:
    rows = builder.rows
    offsets, timestamps, timestamp_types, key, value, headers = builder.finish()
    return RecordColumns(
        rows=rows,
        next_offset=next_offset,
        end_position=end_position,
        offset=offsets,
        timestamp=timestamps,
        timestamp_type=timestamp_types,
        key=None if key is None else _binary_column(key),
        value=None if value is None else _binary_column(value),
        headers=None if headers is None else _headers_column(headers, builder.non_ascii_header_keys),
    )


def _binary_column(buffers: BinaryBuffers) -> BinaryColumn:
    validity, offsets, data, null_count = buffers
    return BinaryColumn(offsets, data, validity if null_count else None, null_count=null_count)


def _headers_column(buffers: HeaderBuffers, non_ascii_keys: bool) -> HeadersColumn:
    list_offsets, keys, values = buffers
    key_column = _binary_column(keys)
    if non_ascii_keys:
        key_column = _valid_utf8(key_column)
    return HeadersColumn(list_offsets, key_column, _binary_column(values))


def _valid_utf8(column: BinaryColumn) -> BinaryColumn:
    """Convert header keys to valid UTF-8, as Java does: invalid bytes become U+FFFD."""
    bounds = memoryview(column.offsets).cast("i")
    data = bytearray()
    offsets = array("i", [0])
    for start, stop in pairwise(bounds):
        data += bytes(column.data[start:stop]).decode(errors="replace").encode()
        offsets.append(len(data))
    return BinaryColumn(bytearray(offsets), data, null_count=0)


# --- encode -------------------------------------------------------------------------------------------------


def encode_batches(
    columns: RowColumns,
    *,
    default_timestamp: int,
    indices: Buffer | None = None,
    start: int = 0,
    stop: int | None = None,
    max_batch_bytes: int = 1_000_000,
    compression: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> Iterator[Buffer]:
    """Encode the rows from `start` to `stop` as batches of format v2, ready to produce.

    `start` and `stop` are positions in `indices` (int64 row numbers of one partition, as `split_rows` returns
    them) or, without it, row numbers. A batch takes rows until the next would exceed `max_batch_bytes`,
    counted before compression; a larger record gets a batch of its own. Rows without a timestamp get
    `default_timestamp`. Sequences continue from batch to batch.

    Raises ValueError if the columns contradict each other.
    """
    if not HEADER_SIZE <= max_batch_bytes <= _MAX_BATCH_BYTES:
        raise ValueError(f"{max_batch_bytes} bytes is not a valid size for a batch")
    if stop is None:
        stop = columns.rows if indices is None else memoryview(indices).nbytes // 8
    encoder = kernel.RowEncoder(columns, indices, 0, default_timestamp)
    attributes = compression | (batch.TRANSACTIONAL_MASK if transactional else 0)
    index = start
    while index < stop:
        out, index, count, base_timestamp, max_timestamp = encoder.encode(index, stop, max_batch_bytes)
        header = BatchHeader(
            base_offset=0,
            batch_length=0,  # set with the CRC
            partition_leader_epoch=NO_LEADER_EPOCH,
            magic=batch.CURRENT_MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            count=count,
        )
        if compression == Codec.NONE:
            batch.write_header(out, header)
            yield out
        else:
            yield assemble_batch(header, compress(compression, memoryview(out)[HEADER_SIZE:], level))
        if base_sequence != NO_SEQUENCE:
            base_sequence = batch.increment_sequence(base_sequence, count)


def group_by_partition(partition_ids: Buffer, partitions: int) -> Iterator[tuple[int, memoryview]]:
    """Iterate over (partition, row numbers as int64 in order) for each partition that has rows."""
    indices, starts = split_rows(partition_ids, partitions)
    view = memoryview(indices)
    for partition in range(partitions):
        first, last = starts[partition], starts[partition + 1]
        if first < last:
            yield partition, view[8 * first : 8 * last]
