"""Track which bytes of a log became readable, for fetches that wait for a number of bytes."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

ENDS_MAX: Final = 8_192
"""The most batches that are tracked one by one; it bounds the memory used while the high watermark stands
still."""


class Uncommitted:
    """The sizes of the batches beyond the high watermark.

    Bytes are counted as the owner counts them: all bytes appended since the log was opened. Batches that were
    in the log before that count as 0 bytes.
    """

    __slots__ = ("_ends", "committed_bytes")

    def __init__(self, committed_bytes: int) -> None:
        self._ends: deque[tuple[int, int]] = deque()
        """(next offset, bytes appended up to it), oldest first."""
        self.committed_bytes = committed_bytes
        """The bytes appended up to the high watermark."""

    def __len__(self) -> int:
        return len(self._ends)

    def appended(self, next_offset: int, appended_bytes: int) -> None:
        """Record that the log now ends at `next_offset`, with `appended_bytes` appended in all."""
        self._ends.append((next_offset, appended_bytes))
        if len(self._ends) > ENDS_MAX:
            # Keep every second entry: waiting fetches only notice a little later that bytes became readable.
            self._ends = deque(islice(self._ends, ENDS_MAX % 2, None, 2))

    def committed(self, high_watermark: int) -> int:
        """Advance to `high_watermark` and return how many bytes it has passed."""
        ends, before_bytes = self._ends, self.committed_bytes
        while ends and ends[0][0] <= high_watermark:
            self.committed_bytes = ends.popleft()[1]
        return self.committed_bytes - before_bytes

    def truncated(self, offset: int) -> None:
        """Remove the entries that end above `offset`."""
        while self._ends and self._ends[-1][0] > offset:
            self._ends.pop()
