"""Which bytes of a log became readable, for those who wait for so many."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

ENDS_MAX: Final = 8_192
"""Batches that are told apart; a high watermark that stands still for hours must not cost memory."""


class Uncommitted:
    """How large the batches are that lie beyond the high watermark.

    Counts bytes as the owner does: all that were appended since the log was opened. What lay in the log
    before that has no size here.
    """

    __slots__ = ("_ends", "committed_bytes")

    def __init__(self, committed_bytes: int) -> None:
        self._ends: deque[tuple[int, int]] = deque()
        """(next offset, bytes appended up to there), oldest first."""
        self.committed_bytes = committed_bytes
        """Bytes that were appended up to the high watermark."""

    def __len__(self) -> int:
        return len(self._ends)

    def appended(self, next_offset: int, appended_bytes: int) -> None:
        """The log ends at `next_offset` now, with so many bytes appended in all."""
        self._ends.append((next_offset, appended_bytes))
        if len(self._ends) > ENDS_MAX:
            # Every second one is as good: whoever waits hears a little later of what has become readable.
            self._ends = deque(islice(self._ends, ENDS_MAX % 2, None, 2))

    def committed(self, high_watermark: int) -> int:
        """The high watermark has moved; how many bytes it has passed."""
        ends, before_bytes = self._ends, self.committed_bytes
        while ends and ends[0][0] <= high_watermark:
            self.committed_bytes = ends.popleft()[1]
        return self.committed_bytes - before_bytes

    def truncated(self, offset: int) -> None:
        """What lay at or above `offset` is gone."""
        while self._ends and self._ends[-1][0] > offset:
            self._ends.pop()
