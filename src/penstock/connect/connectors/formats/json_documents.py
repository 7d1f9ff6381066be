"""JSON values one after the other, over any number of lines, or the elements of arrays.

If the file begins with an array, its elements are the records. Otherwise each value is one.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.connect.connectors.formats.compression import next_bytes
from penstock.connect.connectors.formats.items import Item, Stream
from penstock.connect.connectors.formats.text import json_value
from penstock.connect.errors import DataError

_CHUNK_BYTES: Final = 1 << 17
_BETWEEN: Final = re.compile(rb"[\s,]*")
_MARK: Final = re.compile(rb'["\\{}\[\]]')
_SCALAR_END: Final = re.compile(rb"[\s,\]{}\[]")
_STRING_END: Final = re.compile(rb'(?:[^"\\]|\\.)*+"', re.DOTALL)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class JsonDocumentReader:
    """Reads the values of a file, or the elements of its arrays."""

    def __init__(self, stream: Stream, position: int, *, max_bytes: int) -> None:
        head = stream.read(_CHUNK_BYTES)
        first = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
        self._has_arrays = first.startswith(b"[")
        self._is_inside = self._has_arrays and position > 0
        """Whether the position is in an array, between elements."""
        self._stream = stream
        self._position = position
        self._max_bytes = max_bytes
        self._unread = head[position:]
        self._at = 3 if position == 0 and head.startswith(_BYTE_ORDER_MARK) else 0
        """The place in the unread bytes up to which they are in records."""
        if position > len(head):
            stream.seek(position)

    def read(self, limit: int, *, is_complete: bool) -> list[Item]:
        """Return the next records, at most `limit`."""
        items: list[Item] = []
        while len(items) < limit:
            found = self._next()
            if found is None:
                chunk = next_bytes(self._stream, _CHUNK_BYTES)
                if chunk:
                    self._drop()
                    self._unread += chunk
                    continue
                if not is_complete or (found := self._last()) is None:
                    break
            items.append(self._item(found))
        self._drop()
        return items

    def _drop(self) -> None:
        self._position += self._at
        self._unread = self._unread[self._at :]
        self._at = 0

    def _item(self, data: bytes) -> Item:
        position = self._position + self._at
        try:
            return Item(position, json_value(data), None)
        except DataError as error:
            return Item(position, None, None, error, data)

    def _next(self) -> bytes | None:
        """Take the next value, if all of it is there."""
        self._skip()
        data, at = self._unread, self._at
        if at == len(data):
            return None
        end = self._end(data, at)
        if end is None:
            if len(data) - at <= self._max_bytes:
                return None
            raise DataError(
                f"the JSON value at byte {self._position + at} has more than {self._max_bytes} bytes"
            )
        self._at = end
        return data[at:end]

    def _skip(self) -> None:
        """Skip what stands between records."""
        while True:
            self._at = _BETWEEN.match(self._unread, self._at).end()  # type: ignore[union-attr]
            mark = self._unread[self._at : self._at + 1]
            if self._has_arrays and mark == (b"]" if self._is_inside else b"["):
                self._is_inside = not self._is_inside
                self._at += 1
            else:
                return

    def _end(self, data: bytes, at: int) -> int | None:
        """Find the end of the value that begins at a place; None if it is not there yet."""
        mark = data[at]
        if mark == ord('"'):
            found = _STRING_END.match(data, at + 1)
            return None if found is None else found.end()
        if mark not in b"{[":
            found = _SCALAR_END.search(data, at + 1)
            return None if found is None else found.start()
        depth = 0
        while (found := _MARK.search(data, at)) is not None:
            at = found.end()
            if found[0] in b"{[":
                depth += 1
            elif found[0] == b'"':
                string = _STRING_END.match(data, at)
                if string is None:
                    return None
                at = string.end()
            elif found[0] in b"}]":
                depth -= 1
                if depth == 0:
                    return at
        return None

    def _last(self) -> bytes | None:
        """Take what is left at the end of a file."""
        data = self._unread[self._at :]
        self._at = len(self._unread)
        return data or None
