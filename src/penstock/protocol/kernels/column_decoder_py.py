"""Converts batches to columns: records become the buffers of Arrow arrays."""

from __future__ import annotations

from array import array
from typing import Final, TypeAlias

from penstock.protocol.batch import SMALLEST_RECORD_BYTES, BatchHeader, Buffer, MalformedRecords
from penstock.protocol.records import Headers, decode_records

BinaryBuffers: TypeAlias = tuple[bytearray, bytearray, bytearray, int]
"""The validity bitmap, int32 offsets, data, and number of nulls of a column."""
HeaderBuffers: TypeAlias = tuple[bytearray, BinaryBuffers, BinaryBuffers]

_MAX_COLUMN_BYTES: Final = 0x7FFFFFFF


class _BinarySink:
    """A binary column under construction."""

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
    """Columns under construction: offset, timestamp, timestamp type; key, value and headers on request.

    `non_ascii_header_keys` means that header keys were copied unchecked. Only the compiled twin sets it: here
    they have already been decoded to str.
    """

    def __init__(
        self, include_headers: bool = False, include_keys: bool = True, include_values: bool = True
    ) -> None:
        self.include_headers = include_headers
        self.include_keys = include_keys
        self.include_values = include_values
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
        """Append all records of a v2 batch with an offset in [start_offset, end_offset).

        `payload` is the decompressed records section. Raises MalformedRecords, with nothing appended, if any
        record cannot be parsed, and OverflowError if a column would exceed 2 GiB.
        """
        if not 0 <= header.count <= len(payload) // SMALLEST_RECORD_BYTES:
            raise MalformedRecords(f"{header.count} records cannot fit into {len(payload)} bytes")
        self._check_room(len(payload))
        timestamp_type = header.timestamp_type
        for record in list(decode_records(header, payload)):
            if start_offset <= record.offset < end_offset:
                self._append(timestamp_type, *record)

    def append_batches(
        self,
        buf: Buffer,
        position: int,
        start_offset: int,
        end_offset: int,
        check_crc: bool,
        max_rows: int,
        max_bytes: int,
    ) -> tuple[int, int]:
        """Append consecutive plain batches from `position` on: (their end, the offset after them).

        It stops before the first batch that is compressed, a control batch, older than v2, incomplete,
        damaged in any way, begins at `end_offset` or later, or would bring the builder above `max_rows` or
        `max_bytes` (of keys and values together). The caller handles that batch. This twin appends none, as
        it would gain nothing.
        """
        return position, start_offset

    def append_row(
        self,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers,
    ) -> None:
        """Append one record that is already decoded."""
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
        if self.include_keys:
            self._keys.put(key)
        if self.include_values:
            self._values.put(value)
        if self.include_headers:
            for header_key, header_value in headers:
                self._header_keys.put(header_key.encode())
                self._header_values.put(header_value)
            self._list_offsets.append(self._header_keys.rows)

    @property
    def data_bytes(self) -> int:
        """The size of keys and values together."""
        return len(self._keys.data) + len(self._values.data)

    def _check_room(self, more_bytes: int) -> None:
        used = max(len(self._keys.data), len(self._values.data))
        if self.include_headers:
            used = max(used, len(self._header_keys.data), len(self._header_values.data))
        if used + more_bytes > _MAX_COLUMN_BYTES:
            raise OverflowError("a column would pass 2 GiB: decode fewer batches at a time")

    def finish(
        self,
    ) -> tuple[
        bytearray, bytearray, bytearray, BinaryBuffers | None, BinaryBuffers | None, HeaderBuffers | None
    ]:
        """Return the buffers of all columns, None for unwanted ones; the builder cannot be used again."""
        headers = None
        if self.include_headers:
            lists = bytearray(self._list_offsets)
            headers = (lists, self._header_keys.finish(), self._header_values.finish())
        return (
            bytearray(self._offsets),
            bytearray(self._timestamps),
            bytearray(self._timestamp_types),
            self._keys.finish() if self.include_keys else None,
            self._values.finish() if self.include_values else None,
            headers,
        )
