"""Reads old records straight from the disk, bypassing the page cache.

Batches have to be in memory to be checked, and can be sent from there without the page cache. Reading into a
buffer that is used again and again takes a fifth of the processor time needed to fill new pages, check them
and let the socket send them. A consumer that lags by days then does not evict the pages that all others read.
The bytes that were checked are the bytes that are sent, because nothing else can access the buffer.

A buffer is a huge page if the kernel has one. To a device it is then a single piece of memory instead of
hundreds, and as a request can hold only a limited number of pieces, disks read three times as fast. The space
that a slice leaves in its buffer is filled with the slices that follow, because its reader will read on.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import suppress
from typing import Final

from penstock.protocol.kernels import kernel
from penstock.storage.segment_file import FileSlice

_BLOCK_BYTES: Final = 4096
BUFFER_BYTES: Final = 2 << 20
"""Size of one buffer: a huge page on most processors."""

_BUFFERS_MAX: Final = 64
_BUFFERS_KEPT: Final = 16
_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)  # exists on Linux
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


def read_directly(found: FileSlice, buffers: Buffers = BUFFERS) -> list[FileSlice]:
    """Read and check `found` and the slices that follow it. Returns them in order, `found` first. Blocks.

    Each slice is cut to its sound batches, which its `data` then holds. Slices that follow are read if they
    fit into the buffer and are not in memory. Returns an empty list if nothing could be read directly: the
    file system has no direct reads, all buffers are in use, a batch is larger than a buffer, or the first
    batch is damaged or of an old format. The caller must then read `found` in the normal way.
    """
    lease = buffers.lease() if _O_DIRECT else None
    if lease is None:
        return []
    start = found.position // _BLOCK_BYTES * _BLOCK_BYTES
    at = found.position - start
    end = min(at + found.size, BUFFER_BYTES)
    rest = found.following(BUFFER_BYTES - end) if end < BUFFER_BYTES else None
    if rest is not None and rest.is_on_disk:
        end += rest.size
    end = min(end, _read(found.fd, lease.memory[: -(-end // _BLOCK_BYTES) * _BLOCK_BYTES], start))
    slices: list[FileSlice] = []
    piece: FileSlice | None = found
    last_offset = -1
    while piece is not None and (piece is found or end - at >= piece.size // 2):
        sound, last_offset = kernel.check_batches(lease.memory[at : min(at + piece.size, end)], last_offset)
        if sound <= 0:
            break
        piece.keep_in_memory(lease, at, sound, last_offset + 1)
        slices.append(piece)
        at += sound
        piece = piece.following()
    return slices


def _read(fd: int, into: memoryview, position: int) -> int:
    """Read directly and return the number of bytes; 0 on failure, as a normal read will report the cause."""
    try:
        # Open the same file as `fd`, even if its name now belongs to another file.
        direct_fd = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | _O_DIRECT)
        try:
            return os.preadv(direct_fd, [into], position)
        finally:
            os.close(direct_fd)
    except OSError:
        return 0
