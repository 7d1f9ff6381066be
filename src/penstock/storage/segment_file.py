"""A segment's `.log` file, and slices of it that outlive its deletion."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.storage.files import FileSystem
from penstock.storage.page_cache import read_resident
from penstock.storage.readiness import Readiness

if TYPE_CHECKING:
    from penstock.storage.segments import Segments

_ONE_KEEPS_ITS_OWN = threading.Lock()
"""For threads that open the same file at once."""


class SegmentFile:
    """The file of a segment, opened at first use and closed when nobody refers to it any more.

    A reader that holds a slice keeps the descriptor, and so the bytes, though the file be deleted meanwhile.
    """

    __slots__ = ("_fd", "_files", "path")

    def __init__(self, path: Path, files: FileSystem) -> None:
        self.path = path
        self._files = files
        self._fd = -1

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    @property
    def fd(self) -> int:
        """The open descriptor. Raises OSError where the file cannot be opened."""
        if self._fd < 0:
            fd = self._files.open(self.path, os.O_RDWR)
            with _ONE_KEEPS_ITS_OWN:
                if self._fd < 0:
                    self._fd = fd
            if self._fd != fd:  # another thread was first
                self._files.close(fd)
        return self._fd

    def create(self) -> None:
        """Create the file, or empty one left over from a crash. Raises OSError."""
        self._fd = self._files.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)

    def pread(self, size: int, position: int, *, wait: bool = True) -> bytes:
        """Bytes from `position` on; without `wait` BlockingIOError where they aren't in memory."""
        if wait:
            return self._files.pread(self.fd, size, position)
        if self._fd < 0:
            raise BlockingIOError(f"{self.path} isn't open yet")
        return read_resident(self._fd, size, position)

    def __del__(self) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)


class FileSlice:
    """`size` bytes of a segment file from `position` on: whole record batches, ready for sendfile.

    Has a length, so that it can stand for the records of a response; the bytes are read by `read` only.
    `is_cut`: ended by the reader's limit on bytes; `is_old`: of a segment that has another after it.
    """

    __slots__ = (
        "_readiness",
        "_segment_end",
        "fd",
        "file",
        "is_cut",
        "is_old",
        "position",
        "segments",
        "size",
    )

    def __init__(
        self,
        file: SegmentFile,
        position: int,
        size: int,
        *,
        readiness: Readiness,
        segment_end: int,
        is_cut: bool = False,
    ) -> None:
        self.file = file
        self.fd = file.fd
        self.position = position
        self.size = size
        self.is_cut = is_cut
        self.is_old = False
        self.segments: Segments | None = None
        """The log's segments as it was read: which transactions in it were aborted, their indexes know."""
        self._readiness = readiness
        self._segment_end = segment_end

    def __len__(self) -> int:
        return self.size

    def is_ready(self, now_s: float) -> bool:
        """Whether the event loop may send it: in memory, and sound as far as can be known.

        What isn't, a worker has to read and check first: `Log.check`. `now_s` is monotonic. Raises OSError.
        """
        position = self.position
        return self._readiness.covers(self.fd, position, position + self.size, self._segment_end, now_s)

    def note_checked(self) -> None:
        """Its bytes were read just now, and found sound; to be told on the thread that owns the log."""
        self._readiness.note_checked(self.fd, self.position, self.position + self.size)

    def read_next_offset(self) -> int:
        """The base offset of the batch after it, if it `is_cut`; most often in memory with it."""
        return int.from_bytes(self.file.pread(8, self.position + self.size), "big")

    def read(self) -> bytes:
        """The bytes themselves. Blocks where they are not in the page cache."""
        return self.file.pread(self.size, self.position)

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path.name}, {self.position}, {self.size})"
