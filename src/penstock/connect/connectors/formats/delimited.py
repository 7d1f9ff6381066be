r"""Splits a file into records that end with a line feed, also while the file grows.

A record is a line unless a format says that it goes on: a row of CSV has line feeds between quotes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from penstock.connect.connectors.formats.compression import DAMAGED, next_bytes
from penstock.connect.connectors.formats.items import Item, Stream
from penstock.connect.data.schema import Schema
from penstock.connect.errors import DataError

_CHUNK_BYTES: Final = 1 << 17


class Decoded(NamedTuple):
    """The value of a record."""

    value: Any
    schema: Schema | None


Decode = Callable[[bytes], Decoded | None]
"""Makes a value of a record without its end; None skips it, such as a blank line. Raises DataError."""
IsWhole = Callable[[bytes], bool]
"""Whether a line is a whole record. Otherwise the record ends with the next line that would not be whole."""


class _CutLine(bytes):
    """A line that is too long, without some bytes in its middle."""

    dropped = 0
    """The number of bytes that it lacks."""


class DelimitedReader:
    """Reads the records of a file that consists of lines."""

    def __init__(
        self,
        stream: Stream,
        position: int,
        decode: Decode,
        *,
        max_bytes: int,
        is_whole: IsWhole | None = None,
    ) -> None:
        self._stream = stream
        self._position = position
        """The offset of the first byte that is in no record yet."""
        self._decode = decode
        self._is_whole = is_whole
        self._max_bytes = max_bytes
        self._lines: deque[bytes] = deque()
        """Lines that were read, each with its end."""
        self._rest = bytearray()
        """The bytes behind them, which are not yet a line."""
        self._dropped = 0
        """The number of bytes of that line that were dropped, because it is too long."""
        self._damage: Exception | None = None
        """The error of compressed data behind the records that were returned."""
        if position:
            stream.seek(position)

    def skip_to(self, position: int) -> None:
        """Go on at a position behind this one, where a record begins."""
        buffered = b"".join(self._lines) + self._rest
        self._lines.clear()
        behind = position - self._position
        if behind <= len(buffered):
            self._rest = bytearray()
            self._split(buffered[behind:])
        else:
            self._stream.seek(position)
            self._rest = bytearray()
        self._position = position

    def read(self, limit: int, *, is_complete: bool) -> list[Item]:
        """Return the next records, at most `limit`."""
        if self._damage is not None:
            raise self._damage
        items: list[Item] = []
        while len(items) < limit:
            try:
                raw = self.take(is_complete=is_complete)
            except DAMAGED as error:
                if not items:
                    raise
                self._damage = error  # the records before it first
                break
            if raw is None:
                break
            item = self._item(raw)
            if item is not None:
                items.append(item)
        return items

    def take(self, *, is_complete: bool) -> bytes | None:
        """Return the bytes of the next record with its end; None if there is no whole one yet."""
        while True:
            raw = self._whole()
            if raw is not None:
                break
            self._bound()
            chunk = next_bytes(self._stream, _CHUNK_BYTES)
            if chunk:
                self._split(chunk)
                continue
            raw = self._last() if is_complete else None
            break
        if raw is not None:
            self._position += len(raw) + (raw.dropped if isinstance(raw, _CutLine) else 0)
        return raw

    def _bound(self) -> None:
        """Drop bytes of a line that is too long anyway, so that its size does not matter."""
        kept = self._max_bytes + len(b"\r\n")  # without these it is still too long
        if len(self._rest) > kept:
            self._dropped += len(self._rest) - kept
            del self._rest[kept:]

    def _split(self, chunk: bytes) -> None:
        end = chunk.rfind(b"\n")
        if end < 0:
            self._rest += chunk
            return
        lines = (
            chunk[: end + 1].splitlines(keepends=True)
            if b"\r" not in chunk
            else _at_line_feeds(chunk[: end + 1])
        )
        if self._rest:
            lines[0] = self._line_with(lines[0])
        self._rest = bytearray(chunk[end + 1 :])
        self._lines.extend(lines)

    def _whole(self) -> bytes | None:
        """Take the lines of the next record, if all of them are there."""
        if not self._lines:
            return None
        if self._is_whole is None or self._is_whole(self._lines[0]):
            return self._lines.popleft()
        size, is_whole = 0, True
        for count, line in enumerate(self._lines, start=1):
            size += len(line)
            if size > self._max_bytes:
                return self._lines.popleft()  # its quote has no end: the row is bad, and the next is a row
            if not self._is_whole(line):  # it opens what is closed, and closes what is open
                is_whole = not is_whole
                if is_whole:
                    return b"".join([self._lines.popleft() for _ in range(count)])
        return None

    def _last(self) -> bytes | None:
        """Take what is left at the end of a file."""
        if self._lines:
            return self._lines.popleft()
        return self._line_with(b"") or None

    def _line_with(self, end: bytes) -> bytes:
        """Take the line that began in earlier chunks and has its end now."""
        line = _CutLine(self._rest + end)
        line.dropped = self._dropped
        self._rest, self._dropped = bytearray(), 0
        return line

    def _item(self, raw: bytes) -> Item | None:
        record = raw[:-1] if raw.endswith(b"\n") else raw
        if record.endswith(b"\r"):
            record = record[:-1]
        try:
            if len(record) > self._max_bytes:
                record = record[: self._max_bytes]
                raise DataError(f"the record has more than {self._max_bytes} bytes")
            decoded = self._decode(record)
        except DataError as error:
            return Item(self._position, None, None, error, record)
        return None if decoded is None else Item(self._position, decoded.value, decoded.schema)


def _at_line_feeds(data: bytes) -> list[bytes]:
    """Split at line feeds only, which end the data too."""
    return [line + b"\n" for line in data[:-1].split(b"\n")]
