"""Avro container files: blocks of records behind a header with their schema."""

from __future__ import annotations

import bz2
import json
import lzma
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

import cramjam
import zstandard

from penstock.connect.connectors.formats.items import Item, Stream
from penstock.connect.converters.avro.from_avro import connect_schema
from penstock.connect.converters.avro.reading import Read, read_long, reader
from penstock.connect.converters.avro.settings import AvroSettings
from penstock.connect.converters.avro.to_avro import avro_text
from penstock.connect.converters.avro.writing import Writing, add_long
from penstock.connect.data.schema import Schema
from penstock.connect.errors import DataError
from penstock.registry.formats import SchemaError, parse
from penstock.registry.formats.avro.schema import AvroSchema

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
_BLOCK_MAX_BYTES: Final = 1 << 30
"""Limit on the size of a block, which could fill the memory if the file is damaged."""
_LONG_BYTES: Final = 10
_DAMAGED: Final = (zlib.error, OSError, ValueError, EOFError, lzma.LZMAError, zstandard.ZstdError)


def _snappy(data: bytes) -> bytes:
    found = bytes(cramjam.snappy.decompress_raw(data[:-4]))
    if zlib.crc32(found) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the checksum is another")
    return found


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


DECOMPRESS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": lambda data: zlib.decompress(data, -15),
    "snappy": _snappy,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
    "zstandard": _zstd,
}
COMPRESS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data, wbits=-15),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big"),
    "zstandard": lambda data: zstandard.ZstdCompressor().compress(data),
}


class AvroReader:
    """Reads the records of a container; a position is the number of records before it."""

    def __init__(self, stream: Stream, position: int) -> None:
        self._stream = stream
        self._start = position
        self._position = 0
        if stream.read(len(MAGIC)) != MAGIC:
            raise DataError("Invalid Avro container: it does not begin with Obj and 1")
        metadata = self._metadata()
        self._sync = self._exactly(SYNC_BYTES)
        codec = metadata.get("avro.codec", b"null").decode(errors="replace")
        if codec not in DECOMPRESS:
            raise DataError(f"Unknown codec '{codec}' of an Avro container, expected {', '.join(DECOMPRESS)}")
        self._decompress = DECOMPRESS[codec]
        self._schema, self._read = schema_and_reader(metadata.get("avro.schema", b""))
        self._block = b""
        self._at = 0
        self._left = 0
        """Number of records of the block that are not read yet."""

    def read(self, limit: int, *, is_complete: bool) -> list[Item]:
        """Return the next records, at most `limit`."""
        items: list[Item] = []
        while len(items) < limit and (self._left or self._next_block()):
            try:
                value, self._at = self._read(self._block, self._at)
            except (DataError, IndexError, struct.error, RecursionError) as error:
                if items:
                    break  # the records before it first
                raise DataError(f"Invalid record {self._position} of an Avro container: {error}") from error
            self._left -= 1
            self._position += 1
            if self._position > self._start:
                items.append(Item(self._position, value, self._schema))
        return items

    def _next_block(self) -> bool:
        """Go on with the next block that has records behind the start; return whether there is one."""
        while (count := self._long()) is not None:
            size = self._long()
            if size is None or count < 0 or not 0 <= size <= _BLOCK_MAX_BYTES:
                raise DataError(f"Invalid block of an Avro container: {count} records in {size} bytes")
            data = self._exactly(size)
            if self._exactly(SYNC_BYTES) != self._sync:
                raise DataError(f"Invalid Avro container: no marker behind record {self._position + count}")
            if count and self._position + count > self._start:
                try:
                    self._block = self._decompress(data)
                except _DAMAGED as error:
                    raise DataError(f"Invalid block behind record {self._position}: {error}") from error
                self._at, self._left = 0, count
                return True
            self._position += count
        return False

    def _metadata(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        while count := self._long():
            if count < 0:
                self._long()
            for _ in range(abs(count)):
                name = self._bytes().decode(errors="replace")
                found[name] = self._bytes()
        return found

    def _bytes(self) -> bytes:
        size = self._long()
        if size is None or not 0 <= size <= _BLOCK_MAX_BYTES:
            raise DataError(f"Invalid header of an Avro container: a size of {size}")
        return self._exactly(size)

    def _long(self) -> int | None:
        """Read a number; None at the end of the file."""
        data = b""
        while not data or data[-1] & 0x80:
            byte = self._stream.read(1)
            if not byte and not data:
                return None
            if not byte or len(data) == _LONG_BYTES:
                raise DataError("Invalid Avro container: it is cut off")
            data += byte
        return read_long(data, 0)[0]

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise DataError(f"Invalid Avro container: it is cut off, {size - len(data)} bytes are missing")
        return data


def schema_and_reader(text: bytes) -> tuple[Schema | None, Read]:
    """Return Connect's schema for a schema in Avro, and the function that reads values. Raises DataError."""
    try:
        parsed = parse(AvroSchema.format, text.decode())
    except (SchemaError, UnicodeDecodeError) as error:
        raise DataError(f"Invalid schema of an Avro container: {error}") from error
    assert isinstance(parsed, AvroSchema)
    schema = connect_schema(parsed.root, AvroSettings())
    return schema, reader(schema, parsed.root)


class AvroWriter:
    """Writes the records of one schema to a container."""

    def __init__(self, out: IO[bytes], schema: Schema | None, codec: str) -> None:
        """Write the header. Raises DataError if the schema has no form in Avro."""
        settings = AvroSettings()
        text = avro_text(schema, settings)
        try:
            parsed = parse(AvroSchema.format, text)
        except SchemaError as error:
            raise DataError(f"{schema} has no form in Avro: {error}") from error
        assert isinstance(parsed, AvroSchema)
        self._write = Writing(settings).writer(schema, parsed.root)
        self._compress = COMPRESS[codec]
        self._out = out
        self._sync = os.urandom(SYNC_BYTES)
        self._block = bytearray()
        self._count = 0
        header = bytearray(MAGIC)
        add_long(2, header)
        for name, value in (("avro.schema", json.dumps(json.loads(text))), ("avro.codec", codec)):
            for part in (name.encode(), value.encode()):
                add_long(len(part), header)
                header += part
        header.append(0)
        out.write(bytes(header) + self._sync)

    def write(self, value: Any) -> int:
        """Add a record and return its size. Raises DataError if it does not fit the schema."""
        size = len(self._block)
        try:
            self._write(value, self._block)
        except DataError:
            del self._block[size:]
            raise
        self._count += 1
        written = len(self._block) - size
        if len(self._block) >= 1 << 16:
            self.flush()
        return written

    def flush(self) -> None:
        """Write the block, if it has records."""
        if self._count:
            data = self._compress(bytes(self._block))
            head = bytearray()
            add_long(self._count, head)
            add_long(len(data), head)
            self._out.write(bytes(head) + data + self._sync)
            self._block.clear()
            self._count = 0
