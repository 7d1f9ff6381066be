"""Reads a segment for a clean: plain batches in runs for the kernel, all other batches one by one."""

from __future__ import annotations

from typing import Final

from penstock.protocol import batch
from penstock.protocol.batch import BatchHeader, CorruptBatch, batch_size_bytes, crc_is_valid, parse_header
from penstock.protocol.kernels import kernel
from penstock.storage.segments.segment import Segment

_OF_TRANSACTIONS: Final = batch.TRANSACTIONAL_MASK | batch.CONTROL_MASK
_WINDOW_BYTES: Final = 1 << 20
_RUN_BYTES: Final = 256 << 10
"""Size of a run, a fraction of a millisecond's work: a clean can pause or end only between two runs."""


class SegmentReader:
    """A reader of one segment, from the batch boundary `position` on.

    All offsets must be below `limit_offset`; otherwise the segment is corrupt.
    """

    def __init__(self, segment: Segment, limit_offset: int, position: int = 0) -> None:
        self._file = segment.file
        self._end = segment.size
        self._lowest_offset = segment.base_offset
        self._limit_offset = limit_offset
        self._window = memoryview(b"")
        self._window_start = position
        self._at = 0

    @property
    def has_more(self) -> bool:
        return self._window_start + self._at < self._end

    def run(self, committed_below: int) -> kernel.Run | None:
        """Return the next run for the kernel, or None if `batch` must read the next batch.

        There are no aborted transactions below the offset `committed_below`. Raises CorruptBatch, OSError.
        """
        self._fill()
        attributes = self._window[self._at + batch.ATTRIBUTES_OFFSET + 1]
        if attributes & batch.COMPRESSION_MASK or (not committed_below and attributes & _OF_TRANSACTIONS):
            return None
        stop = min(self._at + _RUN_BYTES, len(self._window))
        return kernel.Run(
            self._window, self._at, stop, self._lowest_offset, self._limit_offset, committed_below
        )

    def pass_run(self, position: int, lowest_offset: int) -> int:
        """Continue where the kernel ended. Returns the bytes that it passed; if 0, call `batch` next."""
        passed = position - self._at
        self._at, self._lowest_offset = position, lowest_offset
        return passed

    def batch(self) -> tuple[BatchHeader, memoryview]:
        """Read the next batch and verify it. Raises CorruptBatch, OSError."""
        size = self._fill()
        at, position = self._at, self._window_start + self._at
        header = parse_header(self._window, at)
        if not crc_is_valid(self._window, header, at):
            raise CorruptBatch(f"batch at byte {position} (offset {header.base_offset}) fails its checksum")
        # the checksum does not cover the offsets
        if not self._lowest_offset <= header.base_offset <= header.last_offset < self._limit_offset:
            raise CorruptBatch(
                f"the batch at byte {position}, offsets {header.base_offset} to {header.last_offset}, "
                f"is not within {self._lowest_offset} and {self._limit_offset}"
            )
        self._at, self._lowest_offset = at + size, header.next_offset
        return header, self._window[at : at + size]

    def _fill(self) -> int:
        """Read until the window holds the whole next batch. Returns the size of that batch."""
        size = batch_size_bytes(self._window, self._at)
        while size is None or self._at + size > len(self._window):
            position = self._window_start + self._at
            remaining = self._end - position
            if size is not None and size > remaining:
                raise CorruptBatch(f"{remaining} bytes at byte {position} are a truncated batch")
            wanted = min(max(_WINDOW_BYTES, size or 0), remaining)
            self._window = memoryview(self._file.pread(wanted, position))
            self._window_start, self._at = position, 0
            size = batch_size_bytes(self._window)
            if size is None or len(self._window) < wanted:
                raise CorruptBatch(f"{remaining} bytes at byte {position} are a truncated batch")
        return size
