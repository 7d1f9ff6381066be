"""Represents slices of a segment file, which stay readable after the file's deletion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from penstock.storage.disk.direct_buffers import Lease
from penstock.storage.disk.page_cache import PAGE_CACHE
from penstock.storage.segments.segment_file import SegmentFile
from penstock.storage.segments.transaction_index import TransactionIndex

DIRECT_BYTES_MIN: Final = 256 * 1024
"""Smallest read that bypasses the page cache. It does not pay for less, as the kernel reads ahead of those.

It does not read ahead of larger ones: with up to 8 MiB of read-ahead, a lagging reader would always find its
next bytes in the page cache, and copy them from there to check them.
"""

_LOOKED_AT_BYTES: Final = 64 * 1024
"""Largest distance before a batch at which the search for it may have begun."""


class IndexedSegment(Protocol):
    """A segment as the search for aborted transactions sees it."""

    @property
    def base_offset(self) -> int: ...

    @property
    def file(self) -> SegmentFile: ...

    @property
    def transaction_index(self) -> TransactionIndex: ...


class IndexedSegments(Protocol):
    """A log's list of segments as the search for aborted transactions sees it."""

    def from_offset(self, offset: int, /) -> Sequence[IndexedSegment]:
        """The segment that holds `offset`, or would hold it, and all segments after it."""


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
        self.segments: IndexedSegments | None = None
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
