"""Checking batches as a disk gave them, many in one call."""

from __future__ import annotations

from typing import Final

from penstock.protocol.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    MAGIC_OFFSET,
    Buffer,
    CorruptBatch,
    crc_is_valid,
    parse_header,
)

_LARGEST_OFFSET: Final = (1 << 63) - 1


def check_batches(data: Buffer, after_offset: int, portable: bool = False) -> tuple[int, int]:
    """(bytes, last offset) of the whole and sound batches of magic 2 that `data` begins with.

    Their checksums hold and their last offsets go up, from above `after_offset` on. What comes next is cut
    short, of an older format, or damaged. `portable`: without the processor's instruction for checksums.
    """
    sound = 0
    with memoryview(data) as view:
        while len(view) - sound >= HEADER_SIZE and view[sound + MAGIC_OFFSET] == CURRENT_MAGIC:
            try:
                header = parse_header(view, sound)
            except CorruptBatch:
                break
            if not after_offset < header.last_offset <= _LARGEST_OFFSET:
                break
            if not crc_is_valid(view, header, sound):
                break
            sound += header.size_bytes
            after_offset = header.last_offset
    return sound, after_offset
