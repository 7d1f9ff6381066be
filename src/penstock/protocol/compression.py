"""The four codecs of record batches, in both directions, with a limit on decompressed output.

gzip uses the standard library's zlib (it can stop at a byte limit, and compresses faster than cramjam's at
the default level); lz4 frames use the `lz4` package; zstd uses `zstandard`, which can keep its context from
one batch to the next; snappy uses cramjam, which is given an output buffer of limited size. All functions
release the GIL for large inputs, which belong in a worker thread, never on the event loop. They do not hold
the GIL for long over large outputs either: these are assembled piece by piece, in memory that is mapped
rather than cleared or grown. A caller that needs an output only for a moment can have all of its outputs in
the same memory, as the kernel takes longer to map a new page than a codec takes to fill it.
"""

from __future__ import annotations

import mmap
import threading
import zlib
from collections.abc import Iterator
from enum import IntEnum
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, Protocol

import cramjam
import lz4.frame
import zstandard

from penstock.protocol.batch import Buffer, MalformedRecords

DEFAULT_MAX_BYTES: Final = 1 << 30
"""Limits what one batch may decompress to: 1 GiB, far above any batch that a client builds."""


_PIECE_BYTES: Final = 1 << 20
"""Limits the bytes copied at once, while other threads wait."""
_INPUT_BYTES: Final = 64 * 1024
"""Limits the input per call of a decompressor that copies the part it does not consume."""
_MAPPED_FROM_BYTES: Final = 4 << 20
"""Outputs of this size or more are mapped memory."""
_REUSED_BYTES_MAX: Final = 16 << 20
"""Limits the memory that a thread keeps for the outputs of `decompress_for_now`."""


class Codec(IntEnum):
    """The compression types, as numbered in the low three bits of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class LevelRange(NamedTuple):
    """The levels of one codec; `default` may lie outside (gzip's -1 means zlib's own default)."""

    lowest: int
    highest: int
    default: int


LEVELS: Final = {
    Codec.GZIP: LevelRange(1, 9, -1),
    Codec.LZ4: LevelRange(1, 17, 9),
    Codec.ZSTD: LevelRange(-(1 << 17), 22, 3),
}
"""The ranges of compression.gzip.level, compression.lz4.level and compression.zstd.level (KIP-390)."""


class CompressionError(MalformedRecords):
    """The compressed bytes are damaged, incomplete or of another codec."""


class DecompressedTooLarge(CompressionError):
    """The data would decompress to more bytes than the limit."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress the records section of a batch; `level` None selects Kafka's default for the codec.

    Raises ValueError for an unknown codec or a level outside the codec's range.
    """
    codec = Codec(codec)
    match codec:
        case Codec.GZIP:
            return zlib.compress(data, _checked_level(codec, level), wbits=_GZIP)
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            return _compress_lz4(data, _checked_level(codec, level))
        case Codec.ZSTD:
            return zstandard.ZstdCompressor(level=_checked_level(codec, level)).compress(data)
    return bytes(data)


def decompress(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> Buffer:
    """Decompress the records section of a batch into at most `max_bytes`.

    Raises DecompressedTooLarge before more than about `max_bytes` are allocated, CompressionError for damaged
    input, and ValueError for an unknown codec.
    """
    return _decompress(codec, data, max_bytes, _NewMemory())


def decompress_for_now(codec: int, data: Buffer, max_bytes: int) -> Buffer:
    """Decompress like `decompress`, into memory that the next call in the same thread overwrites."""
    return _decompress(codec, data, max_bytes, _reused)


def _decompress(codec: int, data: Buffer, max_bytes: int, memory: _Memory) -> Buffer:
    match Codec(codec):
        case Codec.GZIP:
            return memory.join(_gzip_parts(data, max_bytes))
        case Codec.SNAPPY:
            return _decompress_snappy(data, max_bytes, memory)
        case Codec.LZ4:
            return memory.join(_lz4_parts(data, max_bytes))
        case Codec.ZSTD:
            return memory.join(_zstd_parts(data, max_bytes))
    return data


def _checked_level(codec: Codec, level: int | None) -> int:
    lowest, highest, default = LEVELS[codec]
    if level is None or level == default:
        return default
    if not lowest <= level <= highest:
        raise ValueError(f"{codec.name.lower()} level {level} is not within {lowest} to {highest}")
    return level


class _Memory(Protocol):
    """Where an output goes."""

    def output(self, size: int) -> memoryview:
        """A buffer of this size."""

    def join(self, parts: Iterator[bytes]) -> Buffer:
        """The parts in one buffer."""


class _NewMemory:
    """Memory of its own for each output."""

    def output(self, size: int) -> memoryview:
        return memoryview(bytearray(size) if size < _MAPPED_FROM_BYTES else mmap.mmap(-1, size))

    def join(self, parts: Iterator[bytes]) -> Buffer:
        """Join the parts; a large result releases each part as soon as it is copied."""
        found = list(parts)
        if len(found) == 1:
            return found[0]
        size = sum(map(len, found))
        if size < _MAPPED_FROM_BYTES:
            return b"".join(found)
        out = self.output(size)
        end = size
        while found:
            part = found.pop()
            out[end - len(part) : end] = part
            end -= len(part)
        return out


class _ReusedMemory(threading.local):
    """The same memory for all outputs of a thread, as far as they are not too large for it."""

    def __init__(self) -> None:
        self._room = memoryview(b"")

    def output(self, size: int) -> memoryview:
        if size > _REUSED_BYTES_MAX:
            return _NewMemory().output(size)
        if size > len(self._room):
            self._room = memoryview(mmap.mmap(-1, max(_PIECE_BYTES, 1 << (size - 1).bit_length())))
        return self._room[:size]

    def join(self, parts: Iterator[bytes]) -> Buffer:
        first = next(parts, b"")
        part = next(parts, None)
        if part is None:
            return first
        end = len(first)
        out = self.output(end)
        out[:] = first
        while part is not None:
            if end + len(part) > _REUSED_BYTES_MAX:
                return _NewMemory().join(chain((bytes(out[:end]), part), parts))
            longer = self.output(end + len(part))
            if longer.obj is not out.obj:
                longer[:end] = out[:end]
            longer[end:] = part
            out, end = longer, end + len(part)
            part = next(parts, None)
        return out


_reused: Final = _ReusedMemory()


def _too_large(codec: str, max_bytes: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"{codec} data decompresses to more than {max_bytes} bytes")


# --- gzip ---------------------------------------------------------------------------------------------------

_GZIP: Final = 31  # zlib's window bits for a gzip header and trailer


def _gzip_parts(data: Buffer, max_bytes: int) -> Iterator[bytes]:
    """Decompress all members of a gzip stream, which a writer may concatenate (RFC 1952)."""
    room = max_bytes
    with memoryview(data) as view:
        position = 0
        while True:
            member = zlib.decompressobj(_GZIP)
            while not member.eof:
                given = member.unconsumed_tail
                if not given:
                    given = bytes(view[position : position + _INPUT_BYTES])
                    position += len(given)
                try:
                    part = member.decompress(given, min(room + 1, _PIECE_BYTES))
                except zlib.error as error:
                    raise CompressionError(f"gzip data is damaged: {error}") from None
                room -= len(part)
                if room < 0:
                    raise _too_large("gzip", max_bytes)
                if not (given or part or member.eof):
                    raise CompressionError("gzip data is cut short")
                yield part
            position -= len(member.unused_data)
            if position == len(view):
                return


# --- snappy -------------------------------------------------------------------------------------------------

# The header of snappy-java's SnappyOutputStream, as the Java client writes it: magic, version, and the oldest
# version that can read it. librdkafka and others write a single bare snappy block; readers accept both.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = Struct(">i")


def _compress_xerial(data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    with memoryview(data) as view:
        for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
            parts.append(_BLOCK_LENGTH.pack(len(block)))
            parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int, memory: _Memory) -> Buffer:
    view = memoryview(data)
    blocks = _xerial_blocks(view) if _is_xerial(view, 0) else [view]
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) if block else 0 for block in blocks]
        total = sum(sizes)
        if total > max_bytes:
            raise _too_large("snappy", max_bytes)
        out = memory.output(total)
        end = 0
        for block, size in zip(blocks, sizes, strict=True):
            if size:
                cramjam.snappy.decompress_raw_into(block, out[end : end + size])
            end += size
    except cramjam.DecompressionError as error:
        raise CompressionError(f"snappy data is damaged: {error}") from None
    return out


def _is_xerial(view: memoryview, position: int) -> bool:
    return bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC


def _xerial_blocks(view: memoryview) -> list[memoryview]:
    """Split a xerial stream into its compressed blocks; several streams may follow each other."""
    blocks = []
    position, end = 0, len(view)
    while position < end:
        if _is_xerial(view, position):
            position += len(_XERIAL_HEADER)
            continue
        try:
            (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        except StructError:
            raise CompressionError("snappy block length is cut short") from None
        position += _BLOCK_LENGTH.size
        if not 0 <= length <= end - position:
            raise CompressionError(f"snappy block of {length} bytes where {end - position} remain")
        blocks.append(view[position : position + length])
        position += length
    return blocks


# --- lz4 ----------------------------------------------------------------------------------------------------


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """Compress into one frame of independent 64 KiB blocks without content size, as the Java client requires.

    Like Kafka, this uses the fast compressor for the default level 9, and the high-compression one (whose own
    range ends at 12) for any other level.
    """
    fast = level == LEVELS[Codec.LZ4].default
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if fast else max(level, lz4.frame.COMPRESSIONLEVEL_MINHC),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _lz4_parts(data: Buffer, max_bytes: int) -> Iterator[bytes]:
    """Decompress all frames of the data, in steps so that no frame exceeds `max_bytes`."""
    room = max_bytes
    with memoryview(data) as view:
        position, size = 0, len(view)
        if not size:
            raise CompressionError("lz4 data is empty")
        while position < size:
            frame = lz4.frame.LZ4FrameDecompressor()
            while not frame.eof:
                given = b""
                if frame.needs_input:
                    given = bytes(view[position : position + _INPUT_BYTES])
                    position += len(given)
                try:
                    part = frame.decompress(given, max_length=min(room + 1, _PIECE_BYTES))
                except (RuntimeError, EOFError, ValueError) as error:
                    raise CompressionError(f"lz4 data is damaged: {error}") from None
                room -= len(part)
                if room < 0:
                    raise _too_large("lz4", max_bytes)
                if not (given or part or frame.eof) and frame.needs_input:
                    raise CompressionError("lz4 data is cut short")
                yield part
            position -= len(frame.unused_data or b"")


def repair_lz4_header(data: Buffer) -> bytes:
    """Correct the header checksum in the frame of a magic 0 message.

    Kafka's first lz4 writer included the frame magic in the hash of the descriptor (KAFKA-3160), so other
    libraries reject the byte. The checksum has eight bits, and the right value is the one that the library
    accepts.
    """
    frame = bytearray(data)
    if len(frame) < 7:
        raise CompressionError("lz4 data is cut short")
    checksum_at = 6 + (8 if frame[4] & 0x08 else 0)
    if checksum_at < len(frame):
        for value in range(256):
            frame[checksum_at] = value
            try:
                lz4.frame.get_frame_info(bytes(frame[: checksum_at + 1]))
            except RuntimeError:
                continue
            return bytes(frame)
    raise CompressionError("lz4 frame header is damaged")


# --- zstd ---------------------------------------------------------------------------------------------------

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50  # and the next fifteen values
_ZSTD_MAX_BLOCK_BYTES: Final = 128 * 1024
_ZSTD_DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED = 0, 1, 2


class _ZstdFrame(NamedTuple):
    """One frame of zstd data; `bound` limits its decompressed bytes, as its blocks say."""

    start: int
    end: int
    bound: int


class _ZstdContexts(threading.local):
    """The decompressor of each thread: to make one takes longer than to decompress a small batch."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _ZstdContexts()


def _zstd_parts(data: Buffer, max_bytes: int) -> Iterator[bytes]:
    """Decompress all frames; each gets an output of the size that its headers allow at most (RFC 8878)."""
    room, is_empty = max_bytes, True
    with memoryview(data) as view:
        for start, end, bound in _zstd_frames(view):
            frame = view[start:end]
            try:
                stated = zstandard.frame_content_size(frame)
                if stated > bound:
                    raise CompressionError(f"zstd frame states {stated} bytes, its blocks hold up to {bound}")
                if stated > room:
                    raise _too_large("zstd", max_bytes)
                part = _zstd.decompressor.decompress(frame, max_output_size=min(bound, room) or 1)
            except zstandard.ZstdError as error:
                if bound > room and "did not decompress full frame" in str(error):
                    raise _too_large("zstd", max_bytes) from None
                raise CompressionError(f"zstd data is damaged: {error}") from None
            room -= len(part)
            is_empty = False
            yield part
    if is_empty:
        raise CompressionError("zstd data is empty")


def _zstd_frames(view: memoryview) -> Iterator[_ZstdFrame]:
    """Find the frames by their headers and those of their blocks alone."""
    position = 0
    try:
        while position < len(view):
            magic = int.from_bytes(view[position : position + 4], "little")
            if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
                position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
            elif magic == _ZSTD_MAGIC:
                start = position
                position, bound = _walk_zstd_frame(view, position)
                yield _ZstdFrame(start, position, bound)
            else:
                raise CompressionError("zstd data has an unknown frame")
    except IndexError:
        raise CompressionError("zstd data is cut short") from None


def _walk_zstd_frame(view: memoryview, position: int) -> tuple[int, int]:
    """Return (position after the frame, upper bound of its decompressed size)."""
    descriptor = view[position + 4]
    single_segment = bool(descriptor & 0x20)
    position += 5
    block_bytes = _ZSTD_MAX_BLOCK_BYTES
    if not single_segment:
        exponent, mantissa = divmod(view[position], 8)
        window = (1 << (10 + exponent)) * (8 + mantissa) // 8
        block_bytes = min(block_bytes, window)
        position += 1
    position += _ZSTD_DICTIONARY_ID_BYTES[descriptor & 0x3]
    size_flag = descriptor >> 6
    position += (1 << size_flag) if size_flag or single_segment else 0
    bound = 0
    last = False
    while not last:
        header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        last, kind, size = bool(header & 1), (header >> 1) & 3, header >> 3
        if kind not in (_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED):
            raise CompressionError("zstd block of a reserved type")
        position += 3 + (1 if kind == _ZSTD_RLE else size)
        bound += block_bytes if kind == _ZSTD_COMPRESSED else size
    return position + (4 if descriptor & 0x04 else 0), bound
