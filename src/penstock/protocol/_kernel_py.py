"""The loops over records in Python: fallback where `_kernel.pyx` is not compiled, and its oracle in tests.

Both twins have the same API, accept and refuse the same input, and give the same bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.protocol._compaction_py import (
    KEPT_IN_EMPTY,
    KEPT_WHEN_REBUILT,
    OFFSET_MAP_SLOT_BYTES,
    FilteredRun,
    IndexMarks,
    OffsetMap,
    ProducerIds,
    Run,
    RunFilter,
    count_keyless,
    index_records,
    index_run,
    judge_records,
    rebuild_records,
)
from penstock.protocol.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    MAGIC_OFFSET,
    BatchHeader,
    Buffer,
    CorruptBatch,
    MalformedRecords,
    crc_is_valid,
    parse_header,
)
from penstock.protocol.murmur2 import partition_for_key
from penstock.protocol.records import Headers, decode_records, write_varint

if TYPE_CHECKING:
    from penstock.protocol.columns import BinaryColumn, HeadersColumn, RowColumns

__all__ = [
    "IMPLEMENTATION",
    "KEPT_IN_EMPTY",
    "KEPT_WHEN_REBUILT",
    "OFFSET_MAP_SLOT_BYTES",
    "ColumnBuilder",
    "FilteredRun",
    "IndexMarks",
    "OffsetMap",
    "ProducerIds",
    "RowEncoder",
    "Run",
    "RunFilter",
    "check_batches",
    "count_keyless",
    "index_records",
    "index_run",
    "judge_records",
    "partition_keys",
    "rebuild_records",
    "split_rows",
]

IMPLEMENTATION = "pure"

# validity bitmap, int32 offsets, data, number of nulls
BinaryBuffers: TypeAlias = tuple[bytearray, bytearray, bytearray, int]
HeaderBuffers: TypeAlias = tuple[bytearray, BinaryBuffers, BinaryBuffers]

_MAX_COLUMN_BYTES: Final = 0x7FFFFFFF
_SMALLEST_RECORD_BYTES: Final = 7
_INT32: Final = Struct("=i")
_INT64: Final = Struct("=q")
_MASK64: Final = 0xFFFFFFFFFFFFFFFF
_SIGN64: Final = 1 << 63
_LARGEST_OFFSET: Final = _SIGN64 - 1


# --- decode: batches → columns ------------------------------------------------------------------------------


class _BinarySink:
    """One binary column under construction."""

    def __init__(self) -> None:
        self.validity = bytearray()
        self.offsets = array("i", [0])
        self.data = bytearray()
        self.rows = 0
        self.nulls = 0

    def put(self, data: Buffer | None) -> None:
        byte, bit = divmod(self.rows, 8)
        if bit == 0:
            self.validity.append(0)
        if data is None:
            self.nulls += 1
        else:
            self.validity[byte] |= 1 << bit
            self.data += data
        self.offsets.append(len(self.data))
        self.rows += 1

    def finish(self) -> BinaryBuffers:
        return self.validity, bytearray(self.offsets), self.data, self.nulls


class ColumnBuilder:
    """Columns under construction: offset, timestamp, timestamp type, key, value, and headers if wanted.

    `non_ascii_header_keys` tells that header keys were copied unchecked (compiled twin only: here they went
    through str already).
    """

    def __init__(self, include_headers: bool = False) -> None:
        self.include_headers = include_headers
        self.non_ascii_header_keys = False
        self._offsets = array("q")
        self._timestamps = array("q")
        self._timestamp_types = array("i")
        self._list_offsets = array("i", [0])
        self._keys = _BinarySink()
        self._values = _BinarySink()
        self._header_keys = _BinarySink()
        self._header_values = _BinarySink()

    @property
    def rows(self) -> int:
        return len(self._offsets)

    def append_payload(
        self, payload: Buffer, header: BatchHeader, start_offset: int, end_offset: int
    ) -> None:
        """All records of a v2 batch with an offset in [start_offset, end_offset).

        `payload` is the records section, decompressed. Raises MalformedRecords with nothing appended where
        any record does not parse, OverflowError where a column would pass 2 GiB.
        """
        if not 0 <= header.count <= len(payload) // _SMALLEST_RECORD_BYTES:
            raise MalformedRecords(f"{header.count} records cannot fit into {len(payload)} bytes")
        self._check_room(len(payload))
        timestamp_type = header.timestamp_type
        for record in list(decode_records(header, payload)):
            if start_offset <= record.offset < end_offset:
                self._append(timestamp_type, *record)

    def append_row(
        self,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers,
    ) -> None:
        """One record, decoded already."""
        self._check_room(len(key or b"") + len(value or b""))
        self._append(timestamp_type, offset, timestamp, key, value, headers)

    def _append(
        self,
        timestamp_type: int,
        offset: int,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers,
    ) -> None:
        self._offsets.append(offset)
        self._timestamps.append(timestamp)
        self._timestamp_types.append(timestamp_type)
        self._keys.put(key)
        self._values.put(value)
        if self.include_headers:
            for header_key, header_value in headers:
                self._header_keys.put(header_key.encode())
                self._header_values.put(header_value)
            self._list_offsets.append(self._header_keys.rows)

    def _check_room(self, more_bytes: int) -> None:
        used = max(len(self._keys.data), len(self._values.data))
        if self.include_headers:
            used = max(used, len(self._header_keys.data), len(self._header_values.data))
        if used + more_bytes > _MAX_COLUMN_BYTES:
            raise OverflowError("a column would pass 2 GiB: decode fewer batches at a time")

    def finish(
        self,
    ) -> tuple[bytearray, bytearray, bytearray, BinaryBuffers, BinaryBuffers, HeaderBuffers | None]:
        """The buffers, in the order of the columns. The builder is used up."""
        headers = None
        if self.include_headers:
            lists = bytearray(self._list_offsets)
            headers = (lists, self._header_keys.finish(), self._header_values.finish())
        return (
            bytearray(self._offsets),
            bytearray(self._timestamps),
            bytearray(self._timestamp_types),
            self._keys.finish(),
            self._values.finish(),
            headers,
        )


# --- encode: columns → batches ------------------------------------------------------------------------------


def _is_valid(validity: memoryview | None, index: int) -> bool:
    return validity is None or bool(validity[index >> 3] >> (index & 7) & 1)


class _BinarySource:
    """One binary column to read, every access checked against its buffers; None is a column of nulls."""

    def __init__(self, column: BinaryColumn | None) -> None:
        self.present = column is not None
        if column is None:
            return
        self.offsets = _bytes_view(column.offsets)
        self.data = _bytes_view(column.data)
        self.validity = None if column.validity is None else _bytes_view(column.validity)
        self.first = column.array_offset
        self.rows = _rows_of(len(self.offsets) // 4 - 1, self.validity, self.first)

    def __getitem__(self, row: int) -> memoryview | None:
        if not self.present:
            return None
        if not 0 <= row < self.rows:
            raise ValueError(f"row {row} is outside its column")
        row += self.first
        if not _is_valid(self.validity, row):
            return None
        (start,) = _INT32.unpack_from(self.offsets, 4 * row)
        (stop,) = _INT32.unpack_from(self.offsets, 4 * row + 4)
        if not 0 <= start <= stop <= len(self.data):
            raise ValueError(f"row {row}: column offsets lead outside its data")
        return self.data[start:stop]


class _ListSource:
    """The headers of each row as a range of entries."""

    def __init__(self, headers: HeadersColumn) -> None:
        self.offsets = _bytes_view(headers.offsets)
        self.validity = None if headers.validity is None else _bytes_view(headers.validity)
        self.first = headers.array_offset
        self.rows = _rows_of(len(self.offsets) // 4 - 1, self.validity, self.first)

    def __getitem__(self, row: int) -> range:
        if not 0 <= row < self.rows:
            raise ValueError(f"row {row} is outside the headers")
        row += self.first
        if not _is_valid(self.validity, row):
            return range(0)
        (start,) = _INT32.unpack_from(self.offsets, 4 * row)
        (stop,) = _INT32.unpack_from(self.offsets, 4 * row + 4)
        if not 0 <= start <= stop:
            raise ValueError(f"row {row}: list offsets lead outside the headers")
        return range(start, stop)


def _bytes_view(buffer: Buffer) -> memoryview:
    return memoryview(buffer).cast("B")


def _rows_of(entries: int, validity: memoryview | None, first: int) -> int:
    if first < 0:
        return 0
    rows = entries - first
    return rows if validity is None else min(rows, 8 * len(validity) - first)


class RowEncoder:
    """Rows of Arrow columns → records.

    The rows are `indices` (int64) into the columns or, where that is None, those from `first_row` on. Rows
    without a timestamp get `default_timestamp`. Raises ValueError where columns contradict themselves.
    """

    def __init__(
        self, columns: RowColumns, indices: Buffer | None, first_row: int, default_timestamp: int
    ) -> None:
        headers = columns.headers
        self._keys = _BinarySource(columns.key)
        self._values = _BinarySource(columns.value)
        self._lists = None if headers is None else _ListSource(headers)
        self._header_keys = _BinarySource(None if headers is None else headers.keys)
        self._header_values = _BinarySource(None if headers is None else headers.values)
        self._indices = None if indices is None else _bytes_view(indices)
        self._first_row = first_row
        self._default_timestamp = default_timestamp
        self._timestamps: memoryview | None = None
        if columns.timestamp is not None:
            timestamp = columns.timestamp
            self._timestamps = _bytes_view(timestamp.data)
            self._timestamp_validity = None if timestamp.validity is None else _bytes_view(timestamp.validity)
            self._timestamp_first = timestamp.array_offset
            self._timestamp_rows = _rows_of(
                len(self._timestamps) // 8, self._timestamp_validity, self._timestamp_first
            )

    def encode(self, index: int, stop: int, max_bytes: int) -> tuple[bytearray, int, int, int, int]:
        """One batch of the rows from `index` on, at most `max_bytes` large but of one record at least.

        Returns (header room and records, index after the last row taken, record count, base timestamp, max
        timestamp); the caller writes the header into the first 61 bytes.
        """
        out = bytearray(HEADER_SIZE)
        count = base_timestamp = max_timestamp = 0
        while index < stop and count < 0x7FFFFFFF:
            row = self._row(index)
            timestamp = self._timestamp(row)
            if count == 0:
                base_timestamp = max_timestamp = timestamp
            body = self._body(row, _wrap_int64(timestamp - base_timestamp), count)
            record = bytearray()
            write_varint(record, len(body))
            record += body
            if len(record) + HEADER_SIZE > _MAX_COLUMN_BYTES:
                raise ValueError(f"row {index}: a record of {len(record)} bytes fits no batch")
            if count and len(out) + len(record) > max_bytes:
                break
            out += record
            max_timestamp = max(max_timestamp, timestamp)
            count += 1
            index += 1
        return out, index, count, base_timestamp, max_timestamp

    def _row(self, index: int) -> int:
        if self._indices is None:
            return self._first_row + index
        if not 0 <= index < len(self._indices) // 8:
            raise ValueError(f"index {index} is outside the row indices")
        row: int = _INT64.unpack_from(self._indices, 8 * index)[0]
        return row

    def _timestamp(self, row: int) -> int:
        if self._timestamps is None:
            return self._default_timestamp
        if not 0 <= row < self._timestamp_rows:
            raise ValueError(f"row {row} is outside the timestamps")
        row += self._timestamp_first
        if not _is_valid(self._timestamp_validity, row):
            return self._default_timestamp
        timestamp: int = _INT64.unpack_from(self._timestamps, 8 * row)[0]
        return timestamp

    def _body(self, row: int, timestamp_delta: int, offset_delta: int) -> bytearray:
        body = bytearray(b"\x00")
        write_varint(body, timestamp_delta)
        write_varint(body, offset_delta)
        _write_cell(body, self._keys[row])
        _write_cell(body, self._values[row])
        entries = range(0) if self._lists is None else self._lists[row]
        write_varint(body, len(entries))
        for entry in entries:
            header_key = self._header_keys[entry]
            if header_key is None:
                raise ValueError(f"row {row}: header without key")
            _write_cell(body, header_key)
            _write_cell(body, self._header_values[entry])
        return body


def _write_cell(out: bytearray, data: memoryview | None) -> None:
    if data is None:
        out.append(0x01)
    else:
        write_varint(out, len(data))
        out += data


def _wrap_int64(value: int) -> int:
    return ((value + _SIGN64) & _MASK64) - _SIGN64


# --- partitions ---------------------------------------------------------------------------------------------


def partition_keys(column: BinaryColumn | None, start: int, stop: int, partitions: int) -> bytearray:
    """The partition of each row's key by murmur2, as int32; -1 for a null key, which the caller places."""
    if partitions <= 0:
        raise ValueError(f"{partitions} partitions")
    if stop < start:
        raise ValueError(f"rows {start} to {stop}")
    keys = _BinarySource(column)
    return bytearray(array("i", _partitions(keys, start, stop, partitions)))


def _partitions(keys: _BinarySource, start: int, stop: int, partitions: int) -> Iterator[int]:
    for row in range(start, stop):
        key = keys[row]
        yield -1 if key is None else partition_for_key(key, partitions)


def split_rows(partition_ids: Buffer, partitions: int, first_row: int = 0) -> tuple[bytearray, list[int]]:
    """Group rows by partition, their order kept: (row indices as int64, where each partition's begin).

    `partition_ids` has an int32 a row, the first being that of `first_row`. The second result has
    `partitions` + 1 entries, the last being the number of rows.
    """
    rows: list[list[int]] = [[] for _ in range(partitions)]
    for row, partition in enumerate(memoryview(partition_ids).cast("B").cast("i")):
        if not 0 <= partition < partitions:
            raise ValueError(f"row {row}: partition {partition} of {partitions}")
        rows[partition].append(first_row + row)
    starts = [0]
    for group in rows:
        starts.append(starts[-1] + len(group))
    return bytearray(array("q", (row for group in rows for row in group))), starts


# --- checking: batches as a disk gave them ------------------------------------------------------------------


def check_batches(data: Buffer, after_offset: int, portable: bool = False) -> tuple[int, int]:
    """(bytes, last offset) of the whole and sound batches of magic 2 that `data` begins with.

    Their checksums hold and their last offsets go up, from above `after_offset` on. What comes next is cut
    short, of an older format, or damaged. `portable`: without the processor's instruction for checksums.
    """
    sound = 0
    with memoryview(data) as view:
        while len(view) - sound >= HEADER_SIZE and view[sound + MAGIC_OFFSET] == CURRENT_MAGIC:
            try:
                header = parse_header(view, sound)
            except CorruptBatch:
                break
            if not after_offset < header.last_offset <= _LARGEST_OFFSET:
                break
            if not crc_is_valid(view, header, sound):
                break
            sound += header.size_bytes
            after_offset = header.last_offset
    return sound, after_offset
