"""A segment's `.log` file, and slices of it that outlive its deletion."""

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
"""For threads that open the same file at once."""

DIRECT_BYTES_MIN: Final = 256 * 1024
"""Less isn't worth a read of its own past the page cache: the kernel reads ahead of it as well."""

_LOOKED_AT_BYTES: Final = 64 * 1024
"""So far before a batch the search for it may have begun."""


class SegmentFile:
    """The file of a segment, opened at first use and closed when nobody refers to it any more.

    A reader that holds a slice keeps the descriptor, and so the bytes, though the file be deleted meanwhile.
    """

    __slots__ = ("_fd", "_files", "path", "readiness")

    def __init__(self, path: Path, files: FileSystem, appended_from: int = 0) -> None:
        self.path = path
        self.readiness = Readiness(appended_from)
        """What of it the event loop may send."""
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
        """Bytes from `position` on.

        Without `wait`, on the thread that owns the log, BlockingIOError where they aren't in memory.
        """
        if wait:
            return self._files.pread(self.fd, size, position)
        if self._fd < 0:
            raise BlockingIOError(f"{self.path} isn't open yet")
        if self.is_known_cold_at(position):
            raise BlockingIOError("it has left memory")  # not asked for, as it is to be read elsewhere
        try:
            return read_resident(self._fd, size, position)
        except BlockingIOError:
            # that it was asked for has the kernel read it, unchecked
            self.readiness.forget(self._fd, position, position + size, being_read=True)
            raise

    def is_known_cold_at(self, position: int) -> bool:
        """Whether this byte has left memory, as others before. Raises OSError."""
        return self.readiness.was_cold and self._fd >= 0 and not PAGE_CACHE.holds(self._fd, position, 1)

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from `position` on; the bytes read, less than asked for at the file's end. Blocks."""
        return self._files.preadv(self.fd, [buffer], position)

    def __del__(self) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)


class FileSlice:
    """`size` bytes of a segment file from `position` on: whole record batches, ready for sendfile.

    Has a length, so that it can stand for the records of a response; the bytes are read by `read` only.
    `is_cut`: ended by the reader's limit on bytes; `is_old`: of a segment that has another after it;
    `is_loose`: where its last batch ends isn't in memory, so that it may end in the middle of one.
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
        """`limit`: up to where in the file its reader may read. `expect_read` hears where he will go on."""
        self.file = file
        self.fd = file.fd
        self.position = position
        self.size = size
        self.is_cut = position + size < limit
        self.is_loose = is_loose
        self.data: memoryview | None = None
        """Its bytes, where they were read past the page cache: these are to be sent, not the file's."""
        self.is_old = False
        self.segments: Segments | None = None
        """The log's segments as it was read: which transactions in it were aborted, their indexes know."""
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
        """Whether the event loop may send it: in memory, and sound as far as can be known.

        What isn't, a worker has to read and check first: `Log.check`. `now_s` is monotonic. Raises OSError.
        """
        if self.data is not None:
            return True
        if self.is_loose:
            return False
        position = self.position
        return self.file.readiness.covers(self.fd, position, position + self.size, self._segment_end, now_s)

    def plan_check(self, ahead_bytes: int = 0) -> None:
        """Settle what the check will read: of what follows as well, for who reads in sequence.

        To be called on the thread that owns the log, before the check. Raises OSError.
        """
        self._to_check = self.file.readiness.plan_check(
            self.fd, self.position, self.position + self.size, self._segment_end, ahead_bytes
        )

    def following(self, size_max: int = 0) -> FileSlice | None:
        """What its reader will want next, as much again or up to `size_max`; None at his limit."""
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
        """Whether it is large, and most of it has left memory. Raises OSError."""
        return self.size >= DIRECT_BYTES_MIN and not PAGE_CACHE.holds_most(self.fd, self.position, self.size)

    def keep_in_memory(self, lease: Lease, start: int, size: int, next_offset: int) -> None:
        """Its first `size` bytes, whole batches up to `next_offset`, were read to `start` and found sound."""
        if size < self.size:
            self.size, self.is_cut = size, True
        self._lease = lease
        self._next_offset = next_offset
        self.data = lease.memory[start : start + size]

    @property
    def to_check(self) -> tuple[int, int]:
        """From where to where in the file."""
        return self._to_check or (self.position, self.position + self.size)

    def cut_to_sound(self, sound_to: int) -> None:
        """Its check found all sound up to this place in the file; what it holds beyond is damaged."""
        self._sound_to = sound_to
        size = sound_to - self.position
        if size < self.size:
            self.size, self.is_cut = max(0, size), True

    def note_checked(self) -> None:
        """What the check found sound can be sent. On the thread that owns the log; raises OSError."""
        if self.data is not None:
            self._expect_read(self._next_offset, self.position + self.size)
            return
        start, end = self.to_check
        readiness = self.file.readiness
        if self._to_check is None:  # then a worker looked for it too, and read headers around it
            readiness.forget(self.fd, max(0, start - _LOOKED_AT_BYTES), end, being_read=True)
        readiness.note_checked(self.fd, start, self._sound_to)

    def read_next_offset(self) -> int:
        """Where the batch after it begins, if it `is_cut`; most often in memory with it."""
        if self._next_offset >= 0:
            return self._next_offset
        return int.from_bytes(self.file.pread(8, self.position + self.size), "big")

    def read(self) -> bytes:
        """The bytes themselves. Blocks where they are not in the page cache."""
        return self.file.pread(self.size, self.position)

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path.name}, {self.position}, {self.size})"
