"""Buffers for direct reads, which bypass the page cache.

A buffer is a huge page if the kernel has one. To a device it is then a single piece of memory instead of
hundreds, and as a request can hold only a limited number of pieces, disks read three times as fast.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from typing import Final

BUFFER_BYTES: Final = 2 << 20
"""Size of one buffer: a huge page on most processors."""

_BUFFERS_MAX: Final = 64
_BUFFERS_KEPT: Final = 16
_MADV_HUGEPAGE: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)


class Buffers:
    """A pool of at most `count` buffers, of which up to `kept` are kept for reuse.

    Its methods may run in any thread.
    """

    def __init__(self, count: int = _BUFFERS_MAX, *, kept: int = _BUFFERS_KEPT) -> None:
        self._count = count
        self._kept = kept
        self._tickets = [None] * count
        self._free: list[memoryview] = []

    @property
    def are_plenty(self) -> bool:
        """Whether at least half of the buffers are unused, so that some may be used to read ahead."""
        return 2 * len(self._tickets) >= self._count

    def lease(self) -> Lease | None:
        """Lease a buffer to the caller alone. Returns None if all are in use."""
        try:
            self._tickets.pop()
        except IndexError:
            return None
        try:
            memory = self._free.pop()
        except IndexError:
            memory = _huge_page()
        return Lease(self, memory)

    def take_back(self, memory: memoryview) -> None:
        if len(self._free) < self._kept:
            self._free.append(memory)
        self._tickets.append(None)


def _huge_page() -> memoryview:
    """Allocate memory that becomes one huge page on first use, if the kernel has one."""
    around = mmap.mmap(-1, 2 * BUFFER_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if _MADV_HUGEPAGE is not None:
        with suppress(OSError):  # a kernel built without huge pages
            around.madvise(_MADV_HUGEPAGE)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(around)) % BUFFER_BYTES
    return memoryview(around)[start : start + BUFFER_BYTES]


class Lease:
    """A leased buffer, which returns to its pool when the last reference to the lease is gone."""

    __slots__ = ("_buffers", "memory")

    def __init__(self, buffers: Buffers, memory: memoryview) -> None:
        self._buffers = buffers
        self.memory = memory

    def __del__(self) -> None:
        self._buffers.take_back(self.memory)


BUFFERS: Final = Buffers()
