"""Converts columns to batches and assigns rows to partitions, from the buffers of Arrow arrays."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final

from penstock.protocol.batch import HEADER_SIZE, Buffer
from penstock.protocol.murmur2 import partition_for_key
from penstock.protocol.records import wrap_int64, write_varint

if TYPE_CHECKING:
    from penstock.protocol.columns import BinaryColumn, HeadersColumn, RowColumns

_MAX_COLUMN_BYTES: Final = 0x7FFFFFFF
_INT32: Final = Struct("=i")
_INT64: Final = Struct("=q")


def _is_valid(validity: memoryview | None, index: int) -> bool:
    return validity is None or bool(validity[index >> 3] >> (index & 7) & 1)


class _BinarySource:
    """A binary column to read, with every access checked against its buffers; None is a column of nulls."""

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
    """The headers column to read: the headers of each row, as a range of entries."""

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
    """Encodes rows of Arrow columns as records.

    The rows are `indices` (int64) into the columns or, if that is None, the rows from `first_row` on. Rows
    without a timestamp get `default_timestamp`. Raises ValueError if columns contradict each other.
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
        """Encode one batch of the rows from `index` on, with at most `max_bytes` but at least one record.

        Returns (room for a header and the records, index after the last row taken, record count, base
        timestamp, max timestamp); the caller writes the header into the first 61 bytes.
        """
        out = bytearray(HEADER_SIZE)
        count = base_timestamp = max_timestamp = 0
        while index < stop and count < 0x7FFFFFFF:
            row = self._row(index)
            timestamp = self._timestamp(row)
            if count == 0:
                base_timestamp = max_timestamp = timestamp
            body = self._body(row, wrap_int64(timestamp - base_timestamp), count)
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


# --- partitions ---------------------------------------------------------------------------------------------


def partition_keys(column: BinaryColumn | None, start: int, stop: int, partitions: int) -> bytearray:
    """The partition of each row's key by murmur2, as int32; the caller places null keys, which get -1."""
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
    """Group rows by partition in their order: (row indices as int64, start of each partition's indices).

    `partition_ids` has one int32 per row, beginning with that of `first_row`. The second result has
    `partitions` + 1 entries, of which the last is the number of rows.
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
