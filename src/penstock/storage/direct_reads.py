"""Reading records that nobody has read for long straight from the disk, past the page cache.

Who checks bytes has to have them in memory, and who sends them from there needs no page cache in between:
into a buffer that is used again and again a disk reads at a fifth of the processor time that it takes to
fill fresh pages, look at each and let the socket take it. Nor does a consumer that is days behind then push
out what all others read. What was checked is what is sent, as nobody else can reach it.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

from penstock.protocol.kernels import kernel
from penstock.storage.segment_file import FileSlice

_BLOCK_BYTES: Final = 4096
DIRECT_BYTES_MAX: Final = 1 << 20
_BUFFER_BYTES: Final = DIRECT_BYTES_MAX + 2 * _BLOCK_BYTES
_BUFFERS_MAX: Final = 64
_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)  # Linux has it


class Buffers:
    """At most so many at once, reused. Its methods may run in any thread."""

    def __init__(self, count: int = _BUFFERS_MAX) -> None:
        self._tickets = [None] * count
        self._free: list[mmap.mmap] = []

    def lease(self) -> Lease | None:
        """A buffer of one's own, or None where all are in use."""
        try:
            self._tickets.pop()
        except IndexError:
            return None
        try:
            memory = self._free.pop()
        except IndexError:
            memory = mmap.mmap(-1, _BUFFER_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return Lease(self, memory)

    def take_back(self, memory: mmap.mmap) -> None:
        self._free.append(memory)
        self._tickets.append(None)


class Lease:
    """A buffer that is given back when nobody refers to it any more."""

    __slots__ = ("_buffers", "memory")

    def __init__(self, buffers: Buffers, memory: mmap.mmap) -> None:
        self._buffers = buffers
        self.memory = memory

    def __del__(self) -> None:
        self._buffers.take_back(self.memory)


BUFFERS: Final = Buffers()


def read_directly(found: FileSlice, buffers: Buffers = BUFFERS) -> bool:
    """Read `found` and check it; it's cut to its sound batches, which `found.data` holds then.

    False where that can't be: the file system has no direct reads, the buffers are in use, a batch is larger
    than one, or the first batch is damaged or of an old format: then it is to be read as ever. Blocks.
    """
    lease = buffers.lease() if _O_DIRECT else None
    if lease is None:
        return False
    start = found.position // _BLOCK_BYTES * _BLOCK_BYTES
    at = found.position - start
    size = min(found.size, DIRECT_BYTES_MAX)
    with memoryview(lease.memory) as view:
        got = _read(found.fd, view[: -(-(at + size) // _BLOCK_BYTES) * _BLOCK_BYTES], start)
        sound, last_offset = kernel.check_batches(view[at : min(at + size, got)], -1)
    if sound <= 0:
        return False
    found.keep_in_memory(lease, at, sound, last_offset + 1)
    return True


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
