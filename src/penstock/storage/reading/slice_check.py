"""Reads a slice of a segment from the disk, and checks its batches."""

from __future__ import annotations

import threading
from typing import Final

from penstock.protocol.batch import CorruptBatch
from penstock.protocol.kernels import kernel
from penstock.storage.segments.file_slice import FileSlice
from penstock.storage.segments.scan import checked_batches
from penstock.storage.segments.segment_file import SegmentFile

_BUFFER_BYTES: Final = 512 * 1024
"""Size of a read buffer: small enough to stay in a core's cache between the copy and the checksum."""


class _Reader(threading.local):
    """The buffer of each thread."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))


_reader: Final = _Reader()


def sound_end(found: FileSlice) -> tuple[int, CorruptBatch | None]:
    """Check the range `found.to_check`. Returns where its sound part ends, and the error of the next batch.

    Batches are sound if they are whole, have valid checksums and increasing offsets, which the checksum does
    not cover. A batch that crosses the end of the range is not damaged if that end is after `found`. The
    bytes that were read stay in the page cache. Blocks. Raises OSError.
    """
    position, end = found.to_check
    found_end = found.position + found.size
    last_offset = -1
    try:
        while position < end:
            sound, last_offset = _check_run(found.file, position, end, last_offset)
            position += sound
            if sound == 0:
                if position >= found_end and end - position < _BUFFER_BYTES:
                    break
                size, last_offset = _check_one(found.file, position, end, last_offset)
                position += size
    except CorruptBatch as error:
        return position, error
    return position, None


def _check_run(file: SegmentFile, position: int, end: int, last_offset: int) -> tuple[int, int]:
    """Check the batches that fit into one buffer. Returns (bytes, last offset) of the sound ones."""
    buffer = _reader.buffer[: end - position]
    got = file.read_into(buffer, position)
    return kernel.check_batches(buffer[:got], last_offset)


def _check_one(file: SegmentFile, position: int, end: int, last_offset: int) -> tuple[int, int]:
    """Check a batch that is larger than the buffer or of an old format. Returns (bytes, last offset).

    Raises CorruptBatch.
    """
    _, header, _ = next(checked_batches(file, end, start=position))
    if header.last_offset <= last_offset:
        raise CorruptBatch(
            f"the batch at byte {position} ends at offset {header.last_offset}, the one before it at "
            f"{last_offset}"
        )
    return header.size_bytes, header.last_offset
