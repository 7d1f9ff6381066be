"""Makes the kernel write dirty pages to the disk early, in small steps, from threads that may block.

By default, the kernel accumulates gigabytes and then writes them in a burst. While it allocates disk space
for a file's pages, appends to that file wait: 20 to 40 ms at a time on ext4, measured at 350 to 700 MB/s. If
it is advised every 8 MiB, it has little to do at once: waits became rare, and a third as long or less.

A sync of a gigabyte at once fills the disk's queue and blocks the file system's journal until it ends, and
concurrent appends wait for both. If the data is written in steps, other requests are served in between, and
the final sync has little left to do.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

WRITE_BACK_BYTES: Final = 8 * 1024 * 1024
"""Bytes written back in one step."""

WRITE_BACK_MARGIN_BYTES: Final = 2 * 1024 * 1024
"""Distance to the end of a growing file: pages being written are locked, and appends fill the last one."""

_BEYOND_ALL_BYTES: Final = 1 << 62
_WAITING_MAX: Final = 64
_WAIT: Final = 1  # SYNC_FILE_RANGE_WAIT_BEFORE
_WRITE: Final = 2  # SYNC_FILE_RANGE_WRITE
_WRITE_AND_WAIT: Final = 7  # _WAIT_BEFORE | _WRITE | _WAIT_AFTER
_NO_ADVICE_TAKEN: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOSYS, errno.ESPIPE, errno.EPERM})

_libc = ctypes.CDLL(None, use_errno=True)
_sync_file_range = getattr(_libc, "sync_file_range", None)  # exists on Linux
if _sync_file_range is not None:
    _sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


class OpenFile(Protocol):
    """A file that stays open as long as a reference to it exists."""

    @property
    def fd(self) -> int: ...


def write_back(fd: int, size_bytes: int) -> None:
    """Write the first `size_bytes` of a file to the disk. Blocks. A sync must follow to make them durable.

    Raises OSError if something could not be written; the sync that follows would not report this again.
    """
    if _sync_file_range is None:
        return
    for position in range(0, size_bytes, WRITE_BACK_BYTES):
        size = min(WRITE_BACK_BYTES, size_bytes - position)
        if _sync_file_range(fd, position, size, _WRITE_AND_WAIT):
            code = ctypes.get_errno()
            if code in _NO_ADVICE_TAKEN:
                return
            raise OSError(code, os.strerror(code))


def raise_lost_writes(fd: int) -> None:
    """Raise the OSError of a failed write to a file, if the kernel has not reported it yet.

    This neither starts a write nor waits for one: there is no data in the range it names, but the kernel
    reports errors of the whole file. The file may have been opened after the failure.
    """
    if _sync_file_range is not None and _sync_file_range(fd, _BEYOND_ALL_BYTES, 1, _WAIT):
        code = ctypes.get_errno()
        if code not in _NO_ADVICE_TAKEN:
            raise OSError(code, os.strerror(code))


class WriteBehind:
    """A thread that advises the kernel to begin writing, because even that may block."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="write-behind")
        self._room = threading.BoundedSemaphore(_WAITING_MAX)

    def write_soon(self, file: OpenFile, position: int, size_bytes: int) -> None:
        """Advise the kernel to write a range soon. The next sync reports errors."""
        if self._room.acquire(blocking=False):
            self._thread.submit(self._write, file, position, size_bytes)

    def _write(self, file: OpenFile, position: int, size_bytes: int) -> None:
        try:
            if _sync_file_range is not None:
                _sync_file_range(file.fd, position, size_bytes, _WRITE)
        except OSError:
            return  # the file was deleted before it was opened
        finally:
            self._room.release()
