"""Reading a slice of a segment from the disk, and checking what came."""

from __future__ import annotations

import time
from typing import Final

from penstock.protocol.batch import CorruptBatch
from penstock.storage.scan import checked_batches
from penstock.storage.segment_file import FileSlice

_BATCHES_PER_BREATH: Final = 256
_BREATH_S: Final = 50e-6
"""Checksums of large batches are worked out beside other threads, the walk from header to header isn't. Over
many small batches it lets them run now and then: the interpreter itself would do so after 5 ms only."""


def sound_bytes(found: FileSlice) -> tuple[int, CorruptBatch | None]:
    """How many bytes of `found` are whole batches with good checksums, and what is wrong with the next.

    Leaves them in the page cache. Offsets lie outside the checksum: they must go up. Blocks. Raises OSError.
    """
    sound = 0
    last_offset = -1
    try:
        batches = checked_batches(found.file, found.position + found.size, start=found.position)
        for number, (position, header, _) in enumerate(batches, 1):
            if header.last_offset <= last_offset:
                raise CorruptBatch(
                    f"the batch at byte {position} ends at offset {header.last_offset}, the one before it at "
                    f"{last_offset}"
                )
            last_offset = header.last_offset
            sound = position + header.size_bytes - found.position
            if number % _BATCHES_PER_BREATH == 0:
                time.sleep(_BREATH_S)
    except CorruptBatch as error:
        return sound, error
    return sound, None
