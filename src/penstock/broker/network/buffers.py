"""Read buffers, and the limit on request bytes held in memory.

A connection borrows a buffer when its socket becomes readable and returns it as soon as no partial frame is
left in it. So idle connections hold none, and the few buffers in use stay warm in the cache.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable

STANDARD_BYTES = 256 * 1024
POOLED_BYTES_MAX = 64 * 1024 * 1024


class BufferPool:
    """A pool of buffers whose sizes are powers of two from `STANDARD_BYTES`, used last in, first out.

    The buffers are mapped, not allocated: a page costs memory and time only once bytes arrive for it. A
    client that announces frames of 100 MB and sends ten bytes of each one uses memory for ten bytes.
    """

    def __init__(self, pooled_bytes_max: int = POOLED_BYTES_MAX) -> None:
        self._free: dict[int, list[memoryview]] = {}
        self._pooled_bytes = 0
        self._pooled_bytes_max = pooled_bytes_max

    def take(self, at_least_bytes: int) -> memoryview:
        """Return a writable buffer of at least that size, with arbitrary content. Raises OSError."""
        size = STANDARD_BYTES
        while size < at_least_bytes:
            size <<= 1
        free = self._free.get(size)
        if free:
            self._pooled_bytes -= size
            return free.pop()
        return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def give(self, buffer: memoryview) -> None:
        """Take back a buffer that is not used any more."""
        size = len(buffer)
        if self._pooled_bytes + size <= self._pooled_bytes_max:
            self._pooled_bytes += size
            self._free.setdefault(size, []).append(buffer)


class RequestMemory:
    """The limit `queued.max.request.bytes` on the bytes of incomplete frames that the node holds.

    As in Kafka, a reservation succeeds while any bytes are left. So one frame may exceed the limit, and a
    frame larger than the limit is not blocked forever. A reservation is for a whole frame, so its holder can
    finish without another one.
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
        """Call back once when memory was released; the caller must then reserve again."""
        self._waiting.append(callback)

    def release(self, size_bytes: int) -> None:
        self.reserved_bytes -= size_bytes
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, deque()
        for callback in waiting:
            callback()
