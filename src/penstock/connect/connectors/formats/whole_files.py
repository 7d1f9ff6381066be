"""Whole files as records: the bytes of a file are one record."""

from __future__ import annotations

from penstock.connect.connectors.formats.items import Item, Stream
from penstock.connect.data.schema import BYTES
from penstock.connect.errors import DataError


class WholeFileReader:
    """Reads a file as one record, behind which the position is 1."""

    def __init__(self, stream: Stream, position: int, *, max_bytes: int) -> None:
        self._stream = stream
        self._is_read = position > 0
        self._max_bytes = max_bytes

    def read(self, limit: int, *, is_complete: bool) -> list[Item]:
        """Return the record, unless it was read."""
        if self._is_read or not is_complete:
            return []
        self._is_read = True
        data = self._stream.read(self._max_bytes + 1)
        if len(data) > self._max_bytes:
            raise DataError(f"the file has more than {self._max_bytes} bytes")
        return [Item(1, data, BYTES)]
