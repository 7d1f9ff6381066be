"""Represents a segment's `.log` file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from penstock.storage.disk.files import FileSystem
from penstock.storage.disk.page_cache import PAGE_CACHE, read_resident
from penstock.storage.segments.readiness import Readiness

_ONE_KEEPS_ITS_OWN = threading.Lock()
"""Held to keep one descriptor if several threads open the same file at once."""


class SegmentFile:
    """The file of one segment, opened at first use and closed when the last reference to it is gone.

    A reader that holds a slice keeps the descriptor open, and so the bytes, even if the file is deleted.
    """

    __slots__ = ("_fd", "_files", "_reads_ahead", "path", "readiness")

    def __init__(self, path: Path, files: FileSystem, appended_from: int = 0) -> None:
        self.path = path
        self.readiness = Readiness(appended_from)
        """The record of which bytes the event loop may send unchecked."""
        self._files = files
        self._fd = -1
        self._reads_ahead = True

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    @property
    def fd(self) -> int:
        """The open descriptor. Raises OSError if the file cannot be opened."""
        if self._fd < 0:
            fd = self._files.open(self.path, os.O_RDWR)
            if not self._reads_ahead:
                self._files.set_read_ahead(fd, False)
            with _ONE_KEEPS_ITS_OWN:
                if self._fd < 0:
                    self._fd = fd
            if self._fd != fd:  # another thread was first
                self._files.close(fd)
        return self._fd

    def create(self) -> None:
        """Create the file, or empty one that a crash left over. Raises OSError."""
        self._fd = self._files.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)

    def set_read_ahead(self, wanted: bool) -> None:
        """Choose whether the kernel reads ahead in this file, from the next read on. Raises OSError."""
        if wanted != self._reads_ahead:
            self._reads_ahead = wanted
            if self._fd >= 0:
                self._files.set_read_ahead(self._fd, wanted)

    def pread(self, size: int, position: int, *, wait: bool = True) -> bytes:
        """Read up to `size` bytes from `position` on.

        Without `wait`, which requires the thread that owns the log, raises BlockingIOError if the bytes are
        not in memory.
        """
        if wait:
            return self._files.pread(self.fd, size, position)
        if self._fd < 0:
            raise BlockingIOError(f"{self.path} is not open yet")
        if self.is_known_cold_at(position):
            raise BlockingIOError("the bytes are not in memory")  # do not read it, as a worker will
        try:
            return read_resident(self._fd, size, position)
        except BlockingIOError:
            # the attempt makes the kernel read these bytes, unchecked
            self.readiness.forget(self._fd, position, position + size, being_read=True)
            raise

    def is_known_cold_at(self, position: int) -> bool:
        """Whether this byte, and others before, have left memory. Raises OSError."""
        return self.readiness.was_cold and self._fd >= 0 and not PAGE_CACHE.holds(self._fd, position, 1)

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from `position` on. Returns the bytes read, fewer at the end of the file. Blocks."""
        return self._files.preadv(self.fd, [buffer], position)

    def __del__(self) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)
