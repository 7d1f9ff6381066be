"""Which bytes of a segment the event loop may send as they are: known to be sound, and in memory.

Sound is what this process appended, whose checksums it had checked, and what it has read and checked since
it opened the segment. Bytes found to have left memory come back from the disk: what was known of them holds
no longer. Nor does it for what the kernel may bring back beside them, as it reads ahead of what is asked for.
The rest stays known: kernels drop single pages, and a reader shall not pay for a gigabyte where one is gone.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from typing import Final

from penstock.storage.page_cache import PAGE_CACHE, PageCache

_FOREVER: Final = 1 << 63
_RANGES_MAX: Final = 64
_BOUNDARIES_MAX: Final = 16
_STEP_BYTES: Final = 1 << 20
_KERNEL_AHEAD_BYTES: Final = 16 << 20
"""So far beyond what is read the kernel may have gone: twice its window, which is rarely set above 8 MiB."""

_TAIL_HOT_S: Final = 5.0
"""What was in memory at the tail, and what is appended after it, isn't asked about for so long: it is dirty
or young, and the kernel drops neither."""


class Readiness:
    """The knowledge about one segment; `appended_from` is where this process's own appends begin.

    Belongs to the event loop, or to whoever has the log for himself.
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
        # what is sound: disjoint ranges in order; the last has no end, as it grows with the segment
        self._starts = [appended_from]
        self._ends = [_FOREVER]
        # where batches begin at which checks have ended
        self._boundaries: list[int] = []
        self._hot_from = 0
        self._hot_until_s = -1.0
        self.cuts = 0
        """How often the segment was truncated: what was read before may be something else now."""
        self.was_cold = False
        """Something of it was found to have left memory."""
        self.has_lost_pages = False
        """Set by whoever synced in vain, in any thread: what was not written may be gone from memory too."""

    def covers(self, fd: int, position: int, end: int, segment_end: int, now_s: float) -> bool:
        """Whether [position, end) may be sent from the loop. Raises OSError."""
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
        """(from, to): what to read and check now, so that [position, end) can be sent.

        It begins at a batch. What was checked already is left out, and who reads on from sound bytes gets up
        to `ahead_bytes` more, as far as they aren't ready. Nothing of it is known to be sound any more.
        Raises OSError.
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
        """These bytes, whole batches, were read just now and found sound. Raises OSError."""
        if position >= end:
            return
        if not self._is_held(fd, position, position + 1) and not self._is_held(fd, end - 1, end):
            # A file system with a cache of its own (ZFS, overlays): the kernel can't tell.
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
        """[position, end) is about to come from the disk, or `being_read` already: nobody has checked it.

        The same goes for what the kernel will read ahead; what it holds already it won't. Raises OSError.
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
        """The segment was cut there; what follows is appended anew."""
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
