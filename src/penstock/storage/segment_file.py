"""Represents a segment's `.log` file, and slices of it that stay readable after its deletion."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.storage.files import FileSystem
from penstock.storage.page_cache import PAGE_CACHE, read_resident
from penstock.storage.readiness import Readiness

if TYPE_CHECKING:
    from penstock.storage.direct_reads import Lease
    from penstock.storage.segments import Segments

_ONE_KEEPS_ITS_OWN = threading.Lock()
"""Held to keep one descriptor if several threads open the same file at once."""

DIRECT_BYTES_MIN: Final = 256 * 1024
"""Smallest read that bypasses the page cache. It does not pay for less, as the kernel reads ahead anyway."""

_LOOKED_AT_BYTES: Final = 64 * 1024
"""Largest distance before a batch at which the search for it may have begun."""


class SegmentFile:
    """The file of one segment, opened at first use and closed when the last reference to it is gone.

    A reader that holds a slice keeps the descriptor open, and so the bytes, even if the file is deleted.
    """

    __slots__ = ("_fd", "_files", "path", "readiness")

    def __init__(self, path: Path, files: FileSystem, appended_from: int = 0) -> None:
        self.path = path
        self.readiness = Readiness(appended_from)
        """The record of which bytes the event loop may send unchecked."""
        self._files = files
        self._fd = -1

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    @property
    def fd(self) -> int:
        """The open descriptor. Raises OSError if the file cannot be opened."""
        if self._fd < 0:
            fd = self._files.open(self.path, os.O_RDWR)
            with _ONE_KEEPS_ITS_OWN:
                if self._fd < 0:
                    self._fd = fd
            if self._fd != fd:  # another thread was first
                self._files.close(fd)
        return self._fd

    def create(self) -> None:
        """Create the file, or empty one that a crash left over. Raises OSError."""
        self._fd = self._files.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)

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


class FileSlice:
    """A slice of a segment file: `size` bytes from `position` on, whole record batches ready for sendfile.

    It has a length, so it can stand for the records of a response; only `read` reads the bytes. `is_cut`
    means that the reader's limit on bytes ended it; `is_old`, that another segment follows its segment;
    `is_loose`, that the end of its last batch was not in memory, so the slice may end in the middle of a
    batch.
    """

    __slots__ = (
        "_asked_bytes",
        "_expect_read",
        "_lease",
        "_limit",
        "_next_offset",
        "_segment_end",
        "_sound_to",
        "_to_check",
        "data",
        "fd",
        "file",
        "is_cut",
        "is_loose",
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
        limit: int,
        segment_end: int,
        expect_read: Callable[[int, int], None],
        is_loose: bool = False,
    ) -> None:
        """Make a slice whose reader may read up to `limit` in the file.

        `expect_read` is called with the offset and the position at which the reader will continue.
        """
        self.file = file
        self.fd = file.fd
        self.position = position
        self.size = size
        self.is_cut = position + size < limit
        self.is_loose = is_loose
        self.data: memoryview | None = None
        """The slice's bytes if they were read past the page cache; send these instead of the file's."""
        self.is_old = False
        self.segments: Segments | None = None
        """The log's segments at the time of the read; their indexes list the aborted transactions in it."""
        self._segment_end = segment_end
        self._asked_bytes = size
        self._limit = limit
        self._expect_read = expect_read
        self._to_check: tuple[int, int] | None = None
        self._sound_to = 0
        self._next_offset = -1
        self._lease: Lease | None = None

    def __len__(self) -> int:
        return self.size

    def is_ready(self, now_s: float) -> bool:
        """Whether the event loop may send the slice: it is in memory and known to be sound. Raises OSError.

        Otherwise a worker has to read and check it first with `Log.check`. `now_s` is monotonic.
        """
        if self.data is not None:
            return True
        if self.is_loose:
            return False
        position = self.position
        return self.file.readiness.covers(self.fd, position, position + self.size, self._segment_end, now_s)

    def plan_check(self, ahead_bytes: int = 0) -> None:
        """Decide what the check will read; for a sequential reader, up to `ahead_bytes` beyond the slice.

        Call this before the check, on the thread that owns the log. Raises OSError.
        """
        self._to_check = self.file.readiness.plan_check(
            self.fd, self.position, self.position + self.size, self._segment_end, ahead_bytes
        )

    def following(self, size_max: int = 0) -> FileSlice | None:
        """The slice that follows, as large as was asked for or up to `size_max`; None at its reader's end."""
        position = self.position + self.size
        size = min(size_max or self._asked_bytes, self._limit - position)
        if size <= 0:
            return None
        found = FileSlice(
            self.file,
            position,
            size,
            limit=self._limit,
            segment_end=self._segment_end,
            expect_read=self._expect_read,
            is_loose=True,
        )
        found.segments = self.segments
        return found

    @property
    def is_on_disk(self) -> bool:
        """Whether the slice is large, and most of it has left memory. Raises OSError."""
        return self.size >= DIRECT_BYTES_MIN and not PAGE_CACHE.holds_most(self.fd, self.position, self.size)

    def keep_in_memory(self, lease: Lease, start: int, size: int, next_offset: int) -> None:
        """Use the sound bytes in the lease's memory as the slice's data, and cut the slice to them.

        They are the slice's first `size` bytes, whole batches below `next_offset`, and begin at `start`.
        """
        if size < self.size:
            self.size, self.is_cut = size, True
        self._lease = lease
        self._next_offset = next_offset
        self.data = lease.memory[start : start + size]

    @property
    def to_check(self) -> tuple[int, int]:
        """The range of the file to check, as (from, to)."""
        return self._to_check or (self.position, self.position + self.size)

    def cut_to_sound(self, sound_to: int) -> None:
        """Cut the slice, as the check found the file sound only up to the position `sound_to`."""
        self._sound_to = sound_to
        size = sound_to - self.position
        if size < self.size:
            self.size, self.is_cut = max(0, size), True

    def note_checked(self) -> None:
        """Record that the bytes which the check found sound can be sent. Raises OSError.

        Call this on the thread that owns the log.
        """
        if self.data is not None:
            self._expect_read(self._next_offset, self.position + self.size)
            return
        start, end = self.to_check
        readiness = self.file.readiness
        if self._to_check is None:  # a worker also searched for the slice, and read headers around it
            readiness.forget(self.fd, max(0, start - _LOOKED_AT_BYTES), end, being_read=True)
        readiness.note_checked(self.fd, start, self._sound_to)

    def read_next_offset(self) -> int:
        """Read the offset of the batch after a slice that `is_cut`; it is most often in memory."""
        if self._next_offset >= 0:
            return self._next_offset
        return int.from_bytes(self.file.pread(8, self.position + self.size), "big")

    def read(self) -> bytes:
        """Read the bytes of the slice. Blocks if they are not in the page cache."""
        return self.file.pread(self.size, self.position)

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path.name}, {self.position}, {self.size})"
