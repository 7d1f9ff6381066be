"""Decompresses files; their first bytes tell how they were compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, cast

import zstandard

from penstock.connect.connectors.formats.items import Stream

DAMAGED: Final = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)
"""Errors of data that are cut off or damaged. bz2 raises a plain OSError and ValueError instead."""
_GZIP: Final = b"\x1f\x8b"
_BZIP2: Final = b"BZh"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_MAGIC_BYTES: Final = 4
_CHUNK_BYTES: Final = 1 << 17
_ZSTD_BYTES: Final = 1 << 14
"""How much is decompressed at once: the result may be thousands of times as large."""


class Bzip2Reader(bz2.BZ2File):
    """A bzip2 file that raises EOFError for damaged data, and an OSError only if it cannot be read."""

    def read(self, size: int | None = -1) -> bytes:
        with _damage_is_an_end():
            return super().read(-1 if size is None else size)

    def read1(self, size: int = -1) -> bytes:
        with _damage_is_an_end():
            return super().read1(size)


@contextmanager
def _damage_is_an_end() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise EOFError(f"Invalid bzip2 data: {error}") from error


class ZstdReader(io.RawIOBase):
    """The content of a zstd file. The package's own reader takes a frame that is cut off for a whole one."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._is_within = False
        """Whether a frame has begun and not ended."""
        self._content = b""
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go forward to an offset, or to the end if that comes before; nothing goes back."""
        if whence != io.SEEK_SET or offset < self._at:
            raise io.UnsupportedOperation(f"seek from {self._at} to {offset} in compressed data")
        while self._at < offset and self.read(min(offset - self._at, _CHUNK_BYTES)):
            pass
        return self._at

    def readinto(self, buffer: Any) -> int:
        while not self._content and (data := self._stream.read(_ZSTD_BYTES)):
            self._decompress(data)
        if not self._content and self._is_within:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        self._at += count
        return count

    def _decompress(self, data: bytes) -> None:
        while data:
            self._is_within = True
            self._content += self._frame.decompress(data)
            data = b""
            if self._frame.eof:
                data = self._frame.unused_data
                self._frame = zstandard.ZstdDecompressor().decompressobj()
                self._is_within = False


def next_bytes(stream: Stream, most: int) -> bytes:
    """Read some bytes of a stream; none at its end.

    `read` of the standard decompressors would lose the bytes before a damaged place.
    """
    if isinstance(stream, gzip.GzipFile | bz2.BZ2File):
        return stream.read1(most)
    return stream.read(most)


def is_compressed(stream: Stream) -> bool:
    """Whether a file at its beginning is compressed; the stream is at its beginning afterwards."""
    magic = stream.read(_MAGIC_BYTES)
    stream.seek(0)
    return magic.startswith((_GZIP, _BZIP2, _ZSTD))


def decompressed(stream: Stream) -> Stream:
    """Return a stream of the decompressed bytes of a file; the stream itself if it is not compressed."""
    magic = stream.read(_MAGIC_BYTES)
    stream.seek(0)
    if magic.startswith(_GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=stream))
    if magic.startswith(_BZIP2):
        return cast(IO[bytes], Bzip2Reader(stream))
    if magic == _ZSTD:
        return cast(IO[bytes], ZstdReader(stream))
    return stream
