"""Tracks which bytes of a segment the event loop may send unchecked: those known to be sound and in memory.

Bytes are sound if this process appended them, after checking their checksums, or has read and checked them
since it opened the segment. Bytes that have left memory come back from the disk, so they are no longer known
to be sound. The same applies to bytes near them that the kernel may load by its read-ahead. All other bytes
stay known: kernels drop single pages, and losing one must not make a reader check a whole gigabyte again.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from typing import Final

from penstock.storage.disk.page_cache import PAGE_CACHE, PageCache

_FOREVER: Final = 1 << 63
_RANGES_MAX: Final = 64
_BOUNDARIES_MAX: Final = 16
_STEP_BYTES: Final = 1 << 20
_KERNEL_AHEAD_BYTES: Final = 16 << 20
"""Limit of the kernel's read-ahead beyond a read: twice its window, which is rarely set above 8 MiB."""

_TAIL_HOT_S: Final = 5.0
"""Time for which the tail, and what is appended to it, counts as in memory without another check: its
pages are dirty or young, and the kernel drops neither."""


class Readiness:
    """The readiness of one segment's bytes; `appended_from` is where this process's own appends begin.

    Only the event loop uses it, or a caller that has the log to itself.
    """

    __slots__ = (
        "_boundaries",
        "_ends",
        "_hot_from",
        "_hot_until_s",
        "_page_cache",
        "_starts",
        "cuts",
        "has_lost_pages",
        "was_cold",
    )

    def __init__(self, appended_from: int = 0, page_cache: PageCache = PAGE_CACHE) -> None:
        self._page_cache: PageCache | None = page_cache
        # the sound bytes as disjoint ranges in order; the last one has no end, as it grows with the segment
        self._starts = [appended_from]
        self._ends = [_FOREVER]
        # starts of batches at which checks have ended
        self._boundaries: list[int] = []
        self._hot_from = 0
        self._hot_until_s = -1.0
        self.cuts = 0
        """The number of truncations; bytes that were read before one may have changed since."""
        self.was_cold = False
        """Whether some bytes were found to have left memory."""
        self.has_lost_pages = False
        """Set in any thread after a failed sync: unwritten bytes may be gone from memory too."""

    def covers(self, fd: int, position: int, end: int, segment_end: int, now_s: float) -> bool:
        """Whether the event loop may send [position, end). Raises OSError."""
        self._heed_lost_pages()
        if now_s < self._hot_until_s and position >= self._hot_from:
            return True
        if not self._is_sound(position, end):
            return False
        if not self._is_held(fd, position, end):
            self.forget(fd, position, end)
            return False
        if end >= segment_end:
            self._hot_from = position
            self._hot_until_s = now_s + _TAIL_HOT_S
        return True

    def plan_check(
        self, fd: int, position: int, end: int, segment_end: int, ahead_bytes: int
    ) -> tuple[int, int]:
        """Return the range (from, to) to read and check so that [position, end) can be sent. Raises OSError.

        The range begins at a batch and leaves out leading bytes that are already checked. If the reader
        continues after sound bytes, the range extends up to `ahead_bytes` beyond `end`, as far as those bytes
        are not ready. The whole range then no longer counts as sound.
        """
        self._heed_lost_pages()
        start = position
        for boundary in self._boundaries:
            if start < boundary < end and self._is_ready(fd, position, boundary):
                start = boundary
        stop = end
        if position == 0 or self._is_sound(position - 1, position):
            limit = min(end + ahead_bytes, segment_end)
            while stop < limit:
                step = min(stop + _STEP_BYTES, limit)
                if self._is_ready(fd, stop, step):
                    break
                stop = step
        self.forget(fd, start, stop)
        return start, stop

    def note_checked(self, fd: int, position: int, end: int) -> None:
        """Record that these bytes, whole batches, were just read and found sound. Raises OSError."""
        if position >= end:
            return
        if not self._is_held(fd, position, position + 1) and not self._is_held(fd, end - 1, end):
            # The file system has its own cache (ZFS, overlays), which the kernel does not report.
            self._page_cache = None
        first = bisect_left(self._ends, position)
        last = bisect_right(self._starts, end)
        self._boundaries = [*self._boundaries[1 - _BOUNDARIES_MAX :], end]
        if first < last:
            position = min(position, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._replace(first, last, [(position, end)])
        if len(self._starts) > _RANGES_MAX:
            sizes = [end - start for start, end in zip(self._starts, self._ends, strict=True)]
            shortest = min((at for at in range(len(sizes)) if at != first), key=sizes.__getitem__)
            self._replace(shortest, shortest + 1, [])

    def forget(self, fd: int, position: int, end: int, *, being_read: bool = False) -> None:
        """Discard what is known of [position, end), which comes from the disk unchecked. Raises OSError.

        The same applies to bytes that the kernel will read ahead; it skips bytes that it already holds. With
        `being_read`, the read has begun, so read-ahead may already have brought bytes into memory.
        """
        self._hot_until_s = -1.0
        self.was_cold = True
        self._remove(position, end)
        limit = min(end + _KERNEL_AHEAD_BYTES, os.fstat(fd).st_size)
        for at in range(end, limit, _STEP_BYTES):
            step = min(at + _STEP_BYTES, limit)
            if being_read or not self._is_held(fd, at, step):
                self._remove(at, step)

    def _heed_lost_pages(self) -> None:
        if self.has_lost_pages:
            self.has_lost_pages = False
            self._starts, self._ends, self._boundaries = [], [], []
            self._hot_until_s = -1.0
            self.was_cold = True

    def truncate_to(self, position: int) -> None:
        """Record that the segment was cut at `position`; bytes after it will be new appends."""
        self.cuts += 1
        self._remove(position, _FOREVER)
        self._boundaries = [boundary for boundary in self._boundaries if boundary <= position]
        if self._ends and self._ends[-1] == position:
            self._ends[-1] = _FOREVER
        else:
            self._starts.append(position)
            self._ends.append(_FOREVER)
        self._hot_until_s = -1.0

    def _is_ready(self, fd: int, position: int, end: int) -> bool:
        return self._is_sound(position, end) and self._is_held(fd, position, end)

    def _is_sound(self, position: int, end: int) -> bool:
        at = bisect_right(self._starts, position) - 1
        return at >= 0 and end <= self._ends[at]

    def _is_held(self, fd: int, position: int, end: int) -> bool:
        return self._page_cache is None or self._page_cache.holds(fd, position, end - position)

    def _remove(self, position: int, end: int) -> None:
        first = bisect_right(self._ends, position)
        last = bisect_left(self._starts, end)
        if first < last:
            parts = ((self._starts[first], position), (end, self._ends[last - 1]))
            self._replace(first, last, [(start, stop) for start, stop in parts if start < stop])

    def _replace(self, first: int, last: int, ranges: list[tuple[int, int]]) -> None:
        self._starts[first:last] = [start for start, _ in ranges]
        self._ends[first:last] = [end for _, end in ranges]
