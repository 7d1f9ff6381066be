"""Writing a file's dirty pages to the disk in small steps.

A sync of a gigabyte at once fills the disk's queue, and holds up the file system's journal until it's
through; whoever appends meanwhile waits for both. In steps of a few MiB others have their turn in between,
and the sync at the end finds little left to do.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

_STEP_BYTES: Final = 8 * 1024 * 1024
_WRITE_AND_WAIT: Final = 7  # SYNC_FILE_RANGE_WAIT_BEFORE | _WRITE | _WAIT_AFTER
_NO_ADVICE_TAKEN: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOSYS, errno.ESPIPE, errno.EPERM})

_libc = ctypes.CDLL(None, use_errno=True)
_sync_file_range = getattr(_libc, "sync_file_range", None)  # Linux has it
if _sync_file_range is not None:
    _sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


def write_back(fd: int, size_bytes: int) -> None:
    """Have the first `size_bytes` of a file written. Not durable yet: a sync has to follow. Blocks.

    Raises OSError for what could not be written: the sync that follows would not tell it again.
    """
    if _sync_file_range is None:
        return
    for position in range(0, size_bytes, _STEP_BYTES):
        if _sync_file_range(fd, position, min(_STEP_BYTES, size_bytes - position), _WRITE_AND_WAIT):
            code = ctypes.get_errno()
            if code in _NO_ADVICE_TAKEN:
                return
            raise OSError(code, os.strerror(code))
