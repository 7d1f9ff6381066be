"""Checks many batches, as read from a disk, in one call."""

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
    """Return (size, last offset) of the whole and valid batches of magic 2 at the beginning of `data`.

    Their checksums are right, and their last offsets increase, all above `after_offset`. The bytes after them
    are incomplete, of an older format, or damaged. `portable` avoids the processor's instruction for
    checksums.
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
