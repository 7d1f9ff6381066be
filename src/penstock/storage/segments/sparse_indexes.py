"""The sparse indexes beside a segment: offset → position, and timestamp → offset.

The formats are Kafka's, big endian; relative offsets are relative to the segment's base offset:

    offset index, 8 bytes per entry:  relativeOffset int32 | position int32
    time index, 12 bytes per entry:   timestamp int64 | relativeOffset int32

An offset entry holds the last offset of a batch and the position of that batch; a time entry states that no
record up to its offset is younger than its timestamp. Neither column ever decreases.

Kafka maps these files into memory, preallocated while their segment is active. A write into a mapped hole on
a full disk kills the process with SIGBUS, so this module buffers entries in memory and appends them to the
file in small runs. The file holds whole entries only, and needs no trimming. Recovery rebuilds entries that
are lost in a crash from the log, exactly as in Kafka. Lookups keep the file open only while they run.

Writing is not thread-safe; lookups may run in any thread.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from operator import itemgetter
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from penstock.storage.disk.files import FileSystem
from penstock.storage.disk.page_cache import read_resident

MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF
_RUN_ENTRIES: Final = 64  # entries buffered in memory before they are written
_NO_TIMESTAMP: Final = -1
_BLOCK_ENTRIES: Final = 2048  # entries read at once, because a reader's next lookups will be close by
_BLOCKS_MAX: Final = 4


class OffsetPosition(NamedTuple):
    offset: int
    position: int


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class EntryFile:
    """An index file of fixed-size entries: two integers, sorted by both. Its tail may not be written yet."""

    def __init__(self, path: Path, entry: Struct, max_bytes: int, files: FileSystem) -> None:
        self.path = path
        self.max_entries = max_bytes // entry.size
        self._files = files
        self._entry = entry
        # (number of entries in the file, entries after them); replaced together, for readers in other threads
        self._state: tuple[int, list[tuple[int, int]]] | None = None
        self._pinned_fd = -1
        # entries around recent lookups by the thread that owns the log: (slot of the first entry, bytes)
        self._blocks: list[tuple[int, bytes]] = []

    def __del__(self) -> None:
        if self._pinned_fd >= 0:
            self._files.close(self._pinned_fd)

    def pin(self) -> None:
        """Keep reading this file even if another takes its name: see `Segment.pin`. Raises OSError."""
        written, _ = self._load()
        if written and self._pinned_fd < 0:
            self._pinned_fd = self._files.open(self.path, os.O_RDONLY)

    @property
    def size_bytes(self) -> int:
        return self.entries * self._entry.size

    def _load(self) -> tuple[int, list[tuple[int, int]]]:
        if self._state is None:
            try:
                self._state = (os.stat(self.path).st_size // self._entry.size, [])
            except FileNotFoundError:
                self._state = (0, [])
        return self._state

    @property
    def entries(self) -> int:
        written, tail = self._state or self._load()
        return written + len(tail)

    @property
    def wants_spill(self) -> bool:
        """Whether enough entries for a run are buffered, so that the caller should call `spill`."""
        return self._state is not None and len(self._state[1]) >= _RUN_ENTRIES

    def add(self, first: int, second: int) -> None:
        self._load()[1].append((first, second))

    def spill(self, *, sync: bool = False) -> None:
        """Write the buffered entries to the file. On OSError they stay buffered, so nothing is lost."""
        written, tail = self._load()
        fd = self._files.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            if tail:
                assert tail == sorted(tail), f"{self.path} would not be sorted, so lookups would go wrong"
                data = b"".join([self._entry.pack(*entry) for entry in tail])
                self._files.write_all(fd, data, written * self._entry.size)
                self._state = (written + len(tail), [])
            if sync:
                self._files.fsync(fd)
        finally:
            self._files.close(fd)

    def keep(self, count: int) -> None:
        """Drop all entries from the `count`-th on."""
        written, tail = self._load()
        self._blocks = []
        if count >= written:
            self._state = (written, tail[: count - written])
            return
        self._state = (count, [])
        fd = self._files.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            self._files.ftruncate(fd, count * self._entry.size)
        finally:
            self._files.close(fd)

    def clear(self) -> None:
        """Drop all entries, and anything that a crash left in the file."""
        self._state = (1, [])
        self.keep(0)

    def last_entry(self) -> tuple[int, int] | None:
        written, tail = self._load()
        if tail:
            return tail[-1]
        return self._search(written, 0, None, True) if written else None

    def floor(self, column: int, target: int, *, wait: bool = True) -> tuple[int, int] | None:
        """The last entry whose `column` is at most `target`.

        Without `wait`, raises BlockingIOError if the entries are not in memory.
        """
        written, tail = self._load()
        if tail and tail[0][column] <= target:
            return tail[bisect_right(tail, target, key=itemgetter(column)) - 1]
        if not written:
            return None
        if wait:
            return self._search(written, column, target, wait)
        for _, block in self._blocks:
            if (found := self._floor_in(block, column, target)) is not None:
                return found
        return self._search(written, column, target, wait)

    def _floor_in(self, block: bytes, column: int, target: int) -> tuple[int, int] | None:
        """The last entry of `block` at or below `target`, or None if it may be before or after the block."""
        unpack, size = self._entry.unpack_from, self._entry.size
        last = len(block) // size - 1
        if not unpack(block)[column] <= target < unpack(block, last * size)[column]:
            return None
        slot = bisect_right(range(last), target, key=lambda slot: unpack(block, slot * size)[column]) - 1
        first, second = unpack(block, slot * size)
        return first, second

    def count_at_most(self, column: int, target: int) -> int:
        """The number of entries whose `column` is at most `target`."""
        written, tail = self._load()
        if tail and tail[0][column] <= target:
            return written + bisect_right(tail, target, key=itemgetter(column))
        fd = self._files.open(self.path, os.O_RDONLY | os.O_CREAT, 0o644)
        try:
            return self._bisect(fd, written, column, target, True)
        finally:
            self._files.close(fd)

    def _search(self, written: int, column: int, target: int | None, wait: bool) -> tuple[int, int] | None:
        """Search the entries in the file as `floor` does; without a target, return the last one."""
        if self._pinned_fd >= 0:
            return self._search_in(self._pinned_fd, written, column, target, wait)
        try:
            fd = self._files.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            if self._pinned_fd < 0:
                raise
            return self._search_in(self._pinned_fd, written, column, target, wait)
        try:
            # if it was pinned before this open, the name may already belong to another segment's file
            sure_fd = self._pinned_fd if self._pinned_fd >= 0 else fd
            return self._search_in(sure_fd, written, column, target, wait)
        finally:
            self._files.close(fd)

    def _search_in(
        self, fd: int, written: int, column: int, target: int | None, wait: bool
    ) -> tuple[int, int] | None:
        count = written if target is None else self._bisect(fd, written, column, target, wait)
        if not count:
            return None
        if not wait:
            self._keep_block(fd, count - 1, written)
        return self._read(fd, count - 1, wait)

    def _keep_block(self, fd: int, slot: int, written: int) -> None:
        """Keep the entries from `slot` on, so that a sequential reader finds its next ones without a call."""
        size = self._entry.size
        try:
            block = read_resident(fd, min(_BLOCK_ENTRIES, written - slot) * size, slot * size)
        except BlockingIOError:
            return
        if len(block) >= 2 * size:
            self._blocks = [*self._blocks[1 - _BLOCKS_MAX :], (slot, block)]

    def _bisect(self, fd: int, written: int, column: int, target: int, wait: bool) -> int:
        low, high = 0, written
        while low < high:
            middle = (low + high) // 2
            if self._read(fd, middle, wait)[column] <= target:
                low = middle + 1
            else:
                high = middle
        return low

    def _read(self, fd: int, slot: int, wait: bool) -> tuple[int, int]:
        pread = self._files.pread if wait else read_resident
        data = pread(fd, self._entry.size, slot * self._entry.size)
        first, second = self._entry.unpack(data)
        return first, second


class OffsetIndex(EntryFile):
    """The offset index of one segment: the positions of some of its batches by their last offset."""

    def __init__(self, path: Path, base_offset: int, max_bytes: int, files: FileSystem) -> None:
        super().__init__(path, Struct(">ii"), max_bytes, files)
        self.base_offset = base_offset

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries

    def last(self) -> OffsetPosition:
        """The last entry, or the start of the segment."""
        return self._absolute(self.last_entry())

    def lookup(self, offset: int, *, wait: bool = True) -> OffsetPosition:
        """The last entry at or below `offset`, or the start of the segment."""
        return self._absolute(self.floor(0, offset - self.base_offset, wait=wait))

    def lookup_position(self, position: int, *, wait: bool = True) -> OffsetPosition:
        """The last entry at or below a byte position: a batch boundary found without reading the log."""
        return self._absolute(self.floor(1, position, wait=wait))

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self.keep(self.count_at_most(0, offset - self.base_offset - 1))

    def _absolute(self, entry: tuple[int, int] | None) -> OffsetPosition:
        if entry is None:
            return OffsetPosition(self.base_offset, 0)
        relative_offset, position = entry
        return OffsetPosition(self.base_offset + relative_offset, position)


class TimeIndex(EntryFile):
    """The time index of one segment: the largest timestamp up to some of its offsets."""

    def __init__(self, path: Path, base_offset: int, max_bytes: int, files: FileSystem) -> None:
        super().__init__(path, Struct(">qi"), max_bytes, files)
        self.base_offset = base_offset
        self._last: TimestampOffset | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more entries fit; one slot is reserved for the entry that a roll or a close adds."""
        return self.entries >= self.max_entries - 1

    def last(self) -> TimestampOffset:
        """The last entry, or (-1, base offset)."""
        if self._last is None:
            self._last = self._absolute(self.last_entry())
        return self._last

    def add_if_later(self, timestamp: int, offset: int) -> None:
        """Append an entry if its timestamp is later than that of the last entry."""
        if timestamp > self.last().timestamp:
            self.add(timestamp, offset - self.base_offset)
            self._last = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or below `timestamp`, or (-1, base offset)."""
        return self._absolute(self.floor(0, timestamp))

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self.keep(self.count_at_most(1, offset - self.base_offset - 1))

    def keep(self, count: int) -> None:
        super().keep(count)
        self._last = None

    def _absolute(self, entry: tuple[int, int] | None) -> TimestampOffset:
        if entry is None:
            return TimestampOffset(_NO_TIMESTAMP, self.base_offset)
        timestamp, relative_offset = entry
        return TimestampOffset(timestamp, self.base_offset + relative_offset)
