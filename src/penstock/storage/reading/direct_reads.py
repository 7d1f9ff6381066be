"""Reads old records straight from the disk, bypassing the page cache.

Batches have to be in memory to be checked, and can be sent from there without the page cache. Reading into a
buffer that is used again and again takes a fifth of the processor time needed to fill new pages, check them
and let the socket send them. A consumer that lags by days then does not evict the pages that all others read.
The bytes that were checked are the bytes that are sent, because nothing else can access the buffer.

The space that a slice leaves in its buffer is filled with the slices that follow, because its reader will
read on.
"""

from __future__ import annotations

import os
from typing import Final

from penstock.protocol.kernels import kernel
from penstock.storage.disk.direct_buffers import BUFFER_BYTES, BUFFERS, Buffers
from penstock.storage.segments.file_slice import FileSlice

_BLOCK_BYTES: Final = 4096
_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)  # exists on Linux


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
