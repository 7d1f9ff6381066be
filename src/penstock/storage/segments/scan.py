"""Iterates over the batches of a segment file by their headers, without decoding records."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.protocol.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    BatchHeader,
    CorruptBatch,
    crc_is_valid,
    parse_header,
)
from penstock.storage.segments.segment_file import SegmentFile

_HEADERS_WINDOW_BYTES = 8 * 1024
_RECOVERY_WINDOW_BYTES = 1 << 20


def headers(
    file: SegmentFile, start: int, end: int, *, wait: bool = True
) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over (position, header) of each whole batch from the boundary `start` on.

    Checksums are not verified. The iteration ends at `end`, or at a batch that crosses it. Raises
    CorruptBatch if the bytes are not a batch, and without `wait` BlockingIOError if they are not in memory.
    """
    window, window_start = b"", start
    position = start
    while position + LOG_OVERHEAD < end:
        at = position - window_start
        if at + HEADER_SIZE > len(window):
            window, window_start, at = file.pread(_HEADERS_WINDOW_BYTES, position, wait=wait), position, 0
        header = parse_header(window, at)
        following = position + LOG_OVERHEAD + header.batch_length
        if following > end:
            return
        yield position, header
        position = following


def checked_batches(
    file: SegmentFile, end: int, *, start: int = 0
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Iterate over (position, header, bytes) of each whole and sound batch from the boundary `start` on.

    Raises CorruptBatch at the first batch that is truncated, malformed, or fails its checksum: the sound part
    of the file ends after the last batch that was returned.
    """
    window, window_start, position = memoryview(b""), start, start
    while position < end:
        at = position - window_start
        size = _batch_size(window, at)
        if size is None or at + size > len(window):
            wanted = max(_RECOVERY_WINDOW_BYTES, size or 0)
            window, window_start, at = (
                memoryview(file.pread(min(wanted, end - position), position)),
                position,
                0,
            )
            size = _batch_size(window, 0)
            if size is None or size > end - position:
                raise CorruptBatch(f"{end - position} bytes at byte {position} are a truncated batch")
            if size > len(window):
                continue
        header = parse_header(window, at)
        if not crc_is_valid(window, header, at):
            raise CorruptBatch(f"batch at byte {position} (offset {header.base_offset}) fails its checksum")
        yield position, header, window[at : at + size]
        position += size


def holds_batch(data: bytes, offsets: range) -> bool:
    """Whether a sound batch with one of these base offsets begins anywhere after the start of `data`."""
    at = MAGIC_OFFSET
    while (at := data.find(CURRENT_MAGIC, at + 1)) >= 0:
        start = at - MAGIC_OFFSET
        if int.from_bytes(data[start : start + 8], "big") not in offsets:
            continue
        length = int.from_bytes(data[start + 8 : start + LOG_OVERHEAD], "big", signed=True)
        if HEADER_SIZE <= LOG_OVERHEAD + length <= len(data) - start and crc_is_valid(
            data, parse_header(data, start), start
        ):
            return True
    return False


def _batch_size(window: memoryview, at: int) -> int | None:
    """The size of the batch at `at` in the window, or None if the window does not contain its length."""
    remaining = len(window) - at
    if remaining < LOG_OVERHEAD:
        return None
    length = int.from_bytes(window[at + 8 : at + LOG_OVERHEAD], "big", signed=True)
    if length < 0:
        raise CorruptBatch(f"invalid batch length {length}")
    return LOG_OVERHEAD + length


def last_header(file: SegmentFile, start: int, end: int) -> BatchHeader | None:
    """The header of the last whole batch between the boundary `start` and `end`."""
    last = None
    for _, header in headers(file, start, end):
        last = header
    return last
