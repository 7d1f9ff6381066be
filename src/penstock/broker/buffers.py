"""Read buffers and the bound on request bytes held in memory.

A connection borrows a buffer when its socket turns readable and gives it back as soon as no partial
frame is left in it, so idle connections hold none and the few in circulation stay warm in the cache.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable

STANDARD_BYTES = 256 * 1024
POOLED_BYTES_MAX = 64 * 1024 * 1024


class BufferPool:
    """Buffers in sizes of powers of two, `STANDARD_BYTES` the smallest; last given, first taken.

    They are mapped, not allocated: a page costs memory and time only once bytes arrive for it. Whoever
    announces frames of 100 MB and sends ten bytes of each gets ten bytes' worth.
    """

    def __init__(self, pooled_bytes_max: int = POOLED_BYTES_MAX) -> None:
        self._free: dict[int, list[memoryview]] = {}
        self._pooled_bytes = 0
        self._pooled_bytes_max = pooled_bytes_max

    def take(self, at_least_bytes: int) -> memoryview:
        """A writable buffer of at least that size, with whatever was in it before. Raises OSError."""
        size = STANDARD_BYTES
        while size < at_least_bytes:
            size <<= 1
        free = self._free.get(size)
        if free:
            self._pooled_bytes -= size
            return free.pop()
        return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def give(self, buffer: memoryview) -> None:
        """Take back a buffer of which no part is used any more."""
        size = len(buffer)
        if self._pooled_bytes + size <= self._pooled_bytes_max:
            self._pooled_bytes += size
            self._free.setdefault(size, []).append(buffer)


class RequestMemory:
    """`queued.max.request.bytes`: how many bytes of incomplete frames the node accepts to hold.

    As in Kafka a reservation succeeds while anything is left, so that one frame may overshoot and a
    frame larger than the limit isn't stuck forever; reservations are for whole frames, so whoever got
    one can finish without asking again.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes if limit_bytes > 0 else None
        self._waiting: deque[Callable[[], None]] = deque()
        self.reserved_bytes = 0

    def reserve(self, size_bytes: int) -> bool:
        if self._limit_bytes is not None and self.reserved_bytes >= self._limit_bytes:
            return False
        self.reserved_bytes += size_bytes
        return True

    def call_when_free(self, callback: Callable[[], None]) -> None:
        """Call back once when memory was released; the caller then has to reserve again."""
        self._waiting.append(callback)

    def release(self, size_bytes: int) -> None:
        self.reserved_bytes -= size_bytes
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, deque()
        for callback in waiting:
            callback()
