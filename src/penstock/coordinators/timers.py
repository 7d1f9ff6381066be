"""Timers as data: deadlines by key, cheap to postpone, checked by the owner of the clock."""

import heapq
from collections.abc import Hashable

__all__ = ["Timers"]


class Timers:
    """A set of keys, each with one deadline in milliseconds.

    Postponing a deadline, as every heartbeat does, is one dictionary write: the heap keeps the earlier entry
    and corrects it when it reaches the top. A key therefore has at most a few entries in the heap.
    """

    __slots__ = ("_deadlines", "_heap", "_queued", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[Hashable, int] = {}
        self._queued: dict[Hashable, int] = {}  # the key's earliest entry in the heap
        self._heap: list[tuple[int, int, Hashable]] = []
        self._sequence = 0  # equal deadlines fire in the order in which they were set

    def schedule(self, key: Hashable, deadline_ms: int) -> None:
        """Set the deadline of `key`, replacing a previous one."""
        self._deadlines[key] = deadline_ms
        queued_ms = self._queued.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._push(key, deadline_ms)

    def cancel(self, key: Hashable) -> None:
        """Remove the deadline of `key`, if it has one."""
        self._deadlines.pop(key, None)

    def deadline_ms(self, key: Hashable) -> int | None:
        return self._deadlines.get(key)

    @property
    def next_deadline_ms(self) -> int | None:
        """A time before which no timer fires; None if there are no timers."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def shift(self, by_ms: int) -> None:
        """Move every deadline, after the clock that `pop_due` is called with jumped by this much."""
        self._deadlines = {key: deadline_ms + by_ms for key, deadline_ms in self._deadlines.items()}
        self._queued = {key: entry_ms + by_ms for key, entry_ms in self._queued.items()}
        # All entries move by the same amount, so the heap stays ordered.
        self._heap = [(entry_ms + by_ms, sequence, key) for entry_ms, sequence, key in self._heap]

    def pop_due(self, now_ms: int) -> Hashable | None:
        """Remove and return the key with the earliest deadline that has passed; None if there is none."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._queued[key]
        del self._deadlines[key]
        return key

    def __len__(self) -> int:
        return len(self._deadlines)

    def _push(self, key: Hashable, deadline_ms: int) -> None:
        self._sequence += 1
        self._queued[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))

    def _settle(self) -> None:
        """Drop or correct stale entries until the top of the heap is valid."""
        heap = self._heap
        while heap:
            entry_ms, _, key = heap[0]
            if self._queued.get(key) != entry_ms:  # the key has an earlier entry, which was pushed later
                heapq.heappop(heap)
                continue
            deadline_ms = self._deadlines.get(key)
            if deadline_ms == entry_ms:
                return
            heapq.heappop(heap)
            del self._queued[key]
            if deadline_ms is not None:
                self._push(key, deadline_ms)
