"""Reading a slice of a segment from the disk, and checking what came."""

from __future__ import annotations

import threading
from typing import Final

from penstock.protocol.batch import CorruptBatch
from penstock.protocol.kernels import kernel
from penstock.storage.scan import checked_batches
from penstock.storage.segment_file import FileSlice, SegmentFile

_BUFFER_BYTES: Final = 512 * 1024
"""Small enough to stay in a core's own cache between the copy and the checksum."""


class _Reader(threading.local):
    """Each thread's buffer."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))


_reader: Final = _Reader()


def sound_end(found: FileSlice) -> tuple[int, CorruptBatch | None]:
    """Up to where in the file what `found` has `to_check` is sound, and what is wrong with the next batch.

    Sound are whole batches with good checksums, whose offsets go up, as those lie outside the checksum. A
    batch that crosses the end of what is to be checked is no damage where that lies behind `found`. Leaves
    all of it in the page cache. Blocks. Raises OSError.
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
    """(bytes, last offset) of the sound batches from `position` on, as many as one buffer holds."""
    buffer = _reader.buffer[: end - position]
    got = file.read_into(buffer, position)
    return kernel.check_batches(buffer[:got], last_offset)


def _check_one(file: SegmentFile, position: int, end: int, last_offset: int) -> tuple[int, int]:
    """(bytes, last offset) of a batch larger than the buffer, or of an old format. Raises CorruptBatch."""
    _, header, _ = next(checked_batches(file, end, start=position))
    if header.last_offset <= last_offset:
        raise CorruptBatch(
            f"the batch at byte {position} ends at offset {header.last_offset}, the one before it at "
            f"{last_offset}"
        )
    return header.size_bytes, header.last_offset
