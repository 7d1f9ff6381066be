"""Reading records that nobody has read for long straight from the disk, past the page cache.

Who checks bytes has to have them in memory, and who sends them from there needs no page cache in between:
into a buffer that is used again and again a disk reads at a fifth of the processor time that it takes to
fill fresh pages, look at each and let the socket take it. Nor does a consumer that is days behind then push
out what all others read. What was checked is what is sent, as nobody else can reach it.

A buffer is a huge page where the kernel has one. To a device it is a single piece of memory then instead of
hundreds, of which a request takes only so many: disks read three times as fast. The room that a slice leaves
in its buffer is filled with those that follow, as its reader reads on.
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
"""A huge page, of most processors."""

_BUFFERS_MAX: Final = 64
_BUFFERS_KEPT: Final = 16
_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)  # Linux has it
_MADV_HUGEPAGE: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)


class Buffers:
    """At most so many at once, reused. Its methods may run in any thread."""

    def __init__(self, count: int = _BUFFERS_MAX, *, kept: int = _BUFFERS_KEPT) -> None:
        self._count = count
        self._kept = kept
        self._tickets = [None] * count
        self._free: list[memoryview] = []

    @property
    def are_plenty(self) -> bool:
        """At least half of them aren't in use: some may be filled before anybody asks for it."""
        return 2 * len(self._tickets) >= self._count

    def lease(self) -> Lease | None:
        """A buffer of one's own, or None where all are in use."""
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
    """Memory that is one huge page as soon as it is used, if the kernel has one."""
    around = mmap.mmap(-1, 2 * BUFFER_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if _MADV_HUGEPAGE is not None:
        with suppress(OSError):  # a kernel built without them
            around.madvise(_MADV_HUGEPAGE)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(around)) % BUFFER_BYTES
    return memoryview(around)[start : start + BUFFER_BYTES]


class Lease:
    """A buffer that is given back when nobody refers to it any more."""

    __slots__ = ("_buffers", "memory")

    def __init__(self, buffers: Buffers, memory: memoryview) -> None:
        self._buffers = buffers
        self.memory = memory

    def __del__(self) -> None:
        self._buffers.take_back(self.memory)


BUFFERS: Final = Buffers()


def read_directly(found: FileSlice, buffers: Buffers = BUFFERS) -> list[FileSlice]:
    """Read `found` and what follows it, and check it: slices one after the other, `found` the first of them.

    Each is cut to its sound batches, which its `data` holds then. What follows is read as far as there is
    room for it, and as it isn't in memory. None at all where that can't be: the file system has no direct
    reads, the buffers are in use, a batch is larger than one, or the first batch is damaged or of an old
    format: then `found` is to be read as ever. Blocks.
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
    """Bytes read, none where that fails: a plain read will tell why."""
    try:
        # The very file that is open, whatever bears its name by now.
        direct_fd = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | _O_DIRECT)
        try:
            return os.preadv(direct_fd, [into], position)
        finally:
            os.close(direct_fd)
    except OSError:
        return 0
