"""Keeps memory that was freed for the next large buffers, instead of returning it to the kernel each time.

A request with large compressed batches needs buffers of megabytes for milliseconds. By default, the C
library maps each of them anew, and the kernel clears and maps every page of it: with batches of 900 KiB, that
was 95,000 page faults a second.
"""

from __future__ import annotations

import ctypes
from typing import Final

KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limits the freed memory at the end of the heap that the C library keeps."""
MAPPED_FROM_BYTES: Final = 32 * 1024 * 1024
"""Buffers of this size or more are mapped for themselves; glibc allows no larger limit."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """Apply the limits to this process. Returns False if its C library has no such settings, unlike glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX) and mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES))
