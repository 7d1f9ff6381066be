"""Which bytes of a segment the event loop may send as they are: known to be sound, and in memory.

Sound is what this process appended, whose checksums it had checked, and what it has read and checked since
it opened the segment. Once some of it was found to have left memory, it comes back from the disk: what was
known of it holds no longer, nor for what the kernel may have read ahead behind it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from penstock.storage.page_cache import PAGE_CACHE, PageCache

_RANGES_MAX: Final = 64
_TAIL_BYTES: Final = 1 << 20
"""So much at the end of a segment stays trusted when older bytes turn out to have left memory."""

_TAIL_HOT_S: Final = 5.0
"""What was in memory at the tail, and what is appended after it, isn't asked about for so long: it is dirty
or young, and the kernel drops neither."""


class Readiness:
    """The knowledge about one segment; `appended_from` is where this process's own appends begin.

    Belongs to the event loop, or to whoever has the log for himself.
    """

    __slots__ = ("_appended_from", "_checked", "_hot_from", "_hot_until_s", "_page_cache", "_starts")

    def __init__(self, appended_from: int, page_cache: PageCache = PAGE_CACHE) -> None:
        self._appended_from = appended_from
        self._page_cache: PageCache | None = page_cache
        # disjoint ranges below `_appended_from` in order, and where they begin
        self._checked: list[tuple[int, int]] = []
        self._starts: list[int] = []
        self._hot_from = 0
        self._hot_until_s = -1.0

    def covers(self, fd: int, position: int, end: int, segment_end: int, now_s: float) -> bool:
        """Whether [position, end) may be sent from the loop. Raises OSError."""
        if now_s < self._hot_until_s and position >= self._hot_from:
            return True
        if position < self._appended_from and not self._is_checked(position, end):
            return False
        if self._page_cache is not None and not self._page_cache.holds(fd, position, end - position):
            self.forget(end, segment_end)
            return False
        if end >= segment_end:
            self._hot_from = position
            self._hot_until_s = now_s + _TAIL_HOT_S
        return True

    def note_checked(self, fd: int, position: int, end: int) -> None:
        """These bytes were read just now, and found sound. Raises OSError."""
        if self._page_cache is not None and not self._page_cache.holds(fd, position, end - position):
            # A file system with a cache of its own (ZFS, overlays): the kernel can't tell.
            self._page_cache = None
        at = bisect_right(self._starts, position)
        if at and self._checked[at - 1][1] >= position:
            at -= 1
            position, end = self._checked[at][0], max(end, self._checked[at][1])
        stop = bisect_right(self._starts, end)
        if stop > at:
            end = max(end, self._checked[stop - 1][1])
        self._checked[at:stop] = [(position, end)]
        if len(self._checked) > _RANGES_MAX:
            self._checked = [(position, end)]
        self._starts = [start for start, _ in self._checked]

    def forget(self, end: int, segment_end: int) -> None:
        """Bytes before `end` were found to have left memory: what comes back is to be checked again."""
        tail = segment_end - _TAIL_BYTES
        self._appended_from = max(self._appended_from, tail if end <= tail else segment_end)
        self._checked = []
        self._starts = []
        self._hot_until_s = -1.0

    def truncate_to(self, position: int) -> None:
        """The segment was cut there; what follows is appended anew."""
        self._appended_from = min(self._appended_from, position)
        self._checked = [(start, min(end, position)) for start, end in self._checked if start < position]
        self._starts = [start for start, _ in self._checked]
        self._hot_until_s = -1.0

    def _is_checked(self, position: int, end: int) -> bool:
        at = bisect_right(self._starts, position) - 1
        if at < 0:
            return False
        checked_end = self._checked[at][1]
        return end <= checked_end or self._appended_from <= checked_end
