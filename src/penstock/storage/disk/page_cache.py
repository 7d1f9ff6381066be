"""Checks whether a range of a file is in the page cache, or reading it (also by `sendfile`) would block.

On Linux, `cachestat` (since 6.5) gives an exact answer in a microsecond. Elsewhere `preadv` with RWF_NOWAIT
samples the range; without that too, every range counts as resident.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import threading
from typing import Final

_CACHESTAT: Final = 451  # the same on every architecture that Python runs on
_SAMPLE_INTERVAL_BYTES: Final = 64 * 1024


class _ByteRange(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _CacheStat(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "evicted_recently")
    )


class _Call(threading.local):
    """The argument and result structures of one thread's calls, and their addresses."""

    def __init__(self) -> None:
        self.range = _ByteRange()
        self.result = _CacheStat()
        self.range_at = ctypes.addressof(self.range)
        self.result_at = ctypes.addressof(self.result)


class PageCache:
    """The probe of the page cache, using the best method that this kernel provides."""

    def __init__(self, *, has_cachestat: bool = sys.platform == "linux") -> None:
        self._has_cachestat = has_cachestat
        self._call = _Call()
        # PyDLL keeps the GIL: the call ends before another thread could make use of the interpreter
        self._syscall = ctypes.PyDLL(None, use_errno=True).syscall
        self._syscall.argtypes = [
            ctypes.c_long,
            ctypes.c_long,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_long,
        ]

    def holds(self, fd: int, position: int, size: int) -> bool:
        """Whether all of these bytes are in memory. Raises OSError if the descriptor is unreadable."""
        if not self._has_cachestat:
            return _sampled(fd, position, size)
        cached = self._cached_pages(fd, position, size)
        if cached is None:
            return _sampled(fd, position, size)
        return cached >= _pages(position, size)

    def holds_most(self, fd: int, position: int, size: int) -> bool:
        """Whether at least half of these bytes are in memory; True without `cachestat`. Raises OSError."""
        cached = self._cached_pages(fd, position, size) if self._has_cachestat else None
        return cached is None or 2 * cached >= _pages(position, size)

    def _cached_pages(self, fd: int, position: int, size: int) -> int | None:
        call = self._call
        call.range.offset = position
        call.range.length = size
        if self._syscall(_CACHESTAT, fd, call.range_at, call.result_at, 0):
            if ctypes.get_errno() == errno.EBADF:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            self._has_cachestat = False  # an older kernel, or a sandbox without the call
            return None
        cached: int = call.result.cached
        return cached


def _pages(position: int, size: int) -> int:
    return (position + size - 1) // mmap.PAGESIZE - position // mmap.PAGESIZE + 1


def _sampled(fd: int, position: int, size: int) -> bool:
    """Estimate `PageCache.holds` from one byte every 64 KiB and the last byte."""
    if not hasattr(os, "RWF_NOWAIT"):
        return True
    byte = [bytearray(1)]
    try:
        for at in (*range(position, position + size, _SAMPLE_INTERVAL_BYTES), position + size - 1):
            os.preadv(fd, byte, at, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:  # the file system does not support RWF_NOWAIT
            return True
        raise
    return True


def read_resident(fd: int, size: int, position: int) -> bytes:
    """Read like `os.pread`, but from memory only. Raises BlockingIOError if it would wait for the disk."""
    if not hasattr(os, "RWF_NOWAIT"):
        return os.pread(fd, size, position)
    data = bytearray(size)
    try:
        got = os.preadv(fd, [data], position, os.RWF_NOWAIT)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return os.pread(fd, size, position)
        raise
    if got < size and position + got < os.fstat(fd).st_size:
        raise BlockingIOError(errno.EAGAIN, "only a part of the range is in memory")
    return bytes(data[:got])


PAGE_CACHE: Final = PageCache()
