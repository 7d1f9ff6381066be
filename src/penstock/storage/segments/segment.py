"""One segment of a log: its `.log` file and the indexes beside it."""

from __future__ import annotations

import logging
import os
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from penstock.protocol.batch import (
    CURRENT_MAGIC,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    crc_is_valid,
)
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import FileSystem
from penstock.storage.disk.writeback import WRITE_BACK_BYTES, WRITE_BACK_MARGIN_BYTES
from penstock.storage.names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from penstock.storage.segments.file_slice import DIRECT_BYTES_MIN, FileSlice
from penstock.storage.segments.scan import headers as scan_headers
from penstock.storage.segments.scan import last_header
from penstock.storage.segments.segment_file import SegmentFile
from penstock.storage.segments.sparse_indexes import (
    MAX_RELATIVE_OFFSET,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
)
from penstock.storage.segments.transaction_index import TransactionIndex

log = logging.getLogger(__name__)

_RECENT_BATCHES: Final = 64
_WRITE_BACK_DISTANCE_BYTES: Final = WRITE_BACK_BYTES + WRITE_BACK_MARGIN_BYTES
_NEXT_READS_MAX: Final = 16
_BEYOND: Final = 1 << 63


class Segment:
    """One segment of a log: batches from `base_offset` on, in offset order, in one file.

    One thread appends, rolls and truncates. `slice` and the lookups may run in any thread at the same time:
    they see only bytes below the `end_position` passed to them, which never change.
    """

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        files: FileSystem,
        *,
        size: int,
        created_ms: int,
        rng: random.Random,
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.jitter_ms = config.segment_jitter(rng)
        self.deleted = False
        self._index_is_damaged = False
        self._is_preallocated = False
        self._files = files
        self._index_interval_bytes = config.index_interval_bytes
        self.file = SegmentFile(segment_path(directory, base_offset, LOG_SUFFIX), files, appended_from=size)
        self.offset_index = OffsetIndex(
            segment_path(directory, base_offset, OFFSET_INDEX_SUFFIX),
            base_offset,
            config.segment_index_bytes,
            files,
        )
        self.time_index = TimeIndex(
            segment_path(directory, base_offset, TIME_INDEX_SUFFIX),
            base_offset,
            config.segment_index_bytes,
            files,
        )
        self.transaction_index = TransactionIndex(
            segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX), files
        )
        self._pwrite = files.pwrite
        self._indexes_full = False  # updated when the indexes grow; loaded by `prepare_for_appends`
        self._bytes_since_index_entry = 0
        self._max_timestamp: TimestampOffset | None = None
        self._first_batch_timestamp: int | None = None
        # (base offset, position) of the last batches appended, so that readers at the tail need no index
        self._recent: list[tuple[int, int]] = []
        # {offset: position} of batches at which reads ended, because their readers ask for these next
        self._next_reads: dict[int, int] = {}
        self._write_back_at = size + _WRITE_BACK_DISTANCE_BYTES

    @classmethod
    def create(
        cls,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        files: FileSystem,
        *,
        now_ms: int,
        rng: random.Random,
    ) -> Segment:
        """Create an empty segment; leftover files of the same names are emptied. Raises OSError."""
        segment = cls(directory, base_offset, config, files, size=0, created_ms=now_ms, rng=rng)
        segment.file.create()
        if config.preallocate:
            files.ftruncate(segment.file.fd, config.segment_bytes)
            segment._is_preallocated = True
        segment.reset_indexes()
        return segment

    @staticmethod
    def remove_files(directory: Path, base_offset: int, files: FileSystem) -> None:
        """Remove the files of a failed `create` durably, or the log would end at its base offset."""
        paths = [segment_path(directory, base_offset, suffix) for suffix in SEGMENT_SUFFIXES]
        removed = [path for path in paths if files.remove_if_exists(path)]
        if removed:
            files.sync_directory(directory)

    # --- appending

    def prepare_for_appends(self) -> None:
        """Load the state that an append updates after its write, so that only the write itself can fail.

        The first append opens the file, so that idle partitions need no descriptor. Raises OSError.
        """
        self.offset_index.last()
        self._indexes_full = self.offset_index.is_full or self.time_index.is_full
        self.max_timestamp  # noqa: B018

    def append(
        self, records: bytes | bytearray | memoryview, headers: Sequence[BatchHeader], offset: int
    ) -> None:
        """Write batches, whose offsets are already assigned from `offset` on, with one call.

        Raises OSError; the caller then calls `undo_write` to restore the segment, see `Log.append`.
        """
        if self.offset_index.wants_spill:
            self.offset_index.spill()
            self.time_index.spill()
        position = self.size
        written = self._pwrite(self.file.fd, records, position)
        if written != len(records):
            self._files.write_all(self.file.fd, memoryview(records)[written:], position + written)
        if position == 0:
            self._first_batch_timestamp = max(header.max_timestamp for header in headers)
        for header in headers:
            self._note(header, offset, position)
            offset += header.last_offset_delta + 1
            position += header.batch_length + LOG_OVERHEAD
        assert position == self.size + len(records), "the headers do not describe the bytes that were written"
        self.size = position
        if position >= self._write_back_at:
            self._write_back_soon()

    def _write_back_soon(self) -> None:
        """Start writing older appends to the disk, before the kernel writes them all at once."""
        while self.size >= self._write_back_at:
            start = self._write_back_at - _WRITE_BACK_DISTANCE_BYTES
            self._files.write_back_soon(self.file, start, WRITE_BACK_BYTES)
            self._write_back_at += WRITE_BACK_BYTES

    def _note(self, header: BatchHeader, base_offset: int, position: int) -> None:
        """Update the state in memory and the indexes for one appended batch."""
        last_offset = base_offset + header.last_offset_delta
        largest = self._max_timestamp or self.max_timestamp
        if header.max_timestamp > largest.timestamp:
            largest = self._max_timestamp = TimestampOffset(header.max_timestamp, last_offset)
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self.offset_index.add(last_offset - self.base_offset, position)
            self.time_index.add_if_later(*largest)
            self._indexes_full = self.offset_index.is_full or self.time_index.is_full
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += header.batch_length + LOG_OVERHEAD
        recent = self._recent
        recent.append((base_offset, position))
        if len(recent) >= 2 * _RECENT_BATCHES:
            self._recent = recent[_RECENT_BATCHES:]

    def undo_write(self) -> None:
        """Cut off anything that a failed append left after the last complete one. Raises OSError."""
        if self.file.is_open:
            self._files.ftruncate(self.file.fd, self.size)

    def should_roll(
        self,
        config: LogConfig,
        size_bytes: int,
        max_timestamp: int,
        last_offset: int,
        clock: Callable[[], int],
    ) -> bool:
        """Whether an append with these properties must go to a new segment."""
        return (
            self.size > config.segment_bytes - size_bytes
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            or (
                self.size > 0
                and self._waited_ms(max_timestamp, clock) > config.max_segment_ms - self.jitter_ms
            )
            or self._indexes_full
        )

    def _waited_ms(self, max_timestamp: int, clock: Callable[[], int]) -> int:
        """The segment's age by the records' timestamps if they have any, otherwise by `clock`."""
        first = self.first_batch_timestamp
        return max_timestamp - first if first >= 0 else clock() - self.created_ms

    def finish(self) -> None:
        """Complete the indexes of a segment that gets no more batches, and release preallocated space."""
        self.time_index.add_if_later(*self.max_timestamp)
        self.offset_index.spill()
        self.time_index.spill()
        if self.file.is_open or self._is_preallocated:
            self._files.ftruncate(self.file.fd, self.size)
            self._is_preallocated = False

    def sync(self, *, finished: bool) -> None:
        """Make the segment durable; its indexes only if `finished`, as recovery rebuilds an active one's."""
        if self.deleted:
            return
        try:
            fd = self.file.fd
        except FileNotFoundError:
            if self.deleted:  # deleted since the check above
                return
            raise
        try:
            if finished:
                self._files.write_back(fd, self.size)
            self._files.fdatasync(fd)
        except OSError:
            # Drop the pages at once: no reader, not even the next process, may treat them as written.
            # The flag is set before the drop, and again after it for readers that checked it meanwhile.
            self.file.readiness.has_lost_pages = True
            self._files.drop_clean_cache(fd)
            self.file.readiness.has_lost_pages = True
            raise
        if finished:
            for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                self._files.sync_path(segment_path(self.directory, self.base_offset, suffix))
            self._files.sync_path(self.transaction_index.path)

    # --- timestamps

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the first batch that has it; (-1, base) if none."""
        if self._max_timestamp is None:
            self._max_timestamp = self.time_index.last()
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp, or the time of the last write if no record has a timestamp."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else int(os.stat(self.file.path).st_mtime * 1000)

    @property
    def first_batch_timestamp(self) -> int:
        if self._first_batch_timestamp is None:
            first = next(scan_headers(self.file, 0, self.size), None)
            if first is None:
                return NO_TIMESTAMP
            self._first_batch_timestamp = first[1].max_timestamp
        return self._first_batch_timestamp

    # --- reading

    def position_of(self, offset: int, end_position: int, *, wait: bool = True) -> int | None:
        """The position of the first batch that holds `offset` or a later one; None at or beyond the end.

        Without `wait`, raises BlockingIOError if the lookup would have to wait for the disk.
        """
        recent = self._recent
        if recent and offset >= recent[0][0]:
            base_offset, position = recent[bisect_right(recent, (offset, _BEYOND)) - 1]
            if base_offset == offset:
                return position if position < end_position else None
        elif (expected := self._next_reads.get(offset)) is not None:
            return expected if expected < end_position else None
        else:
            position = self._position_in(self.offset_index.lookup, offset, wait)
        reached, passed = position, None
        for at, header in scan_headers(self.file, position, end_position, wait=wait):
            if header.last_offset >= offset:
                if header.base_offset > offset and passed is not None:
                    self._check_old_format(*passed, wait)
                return at
            reached, passed = at + header.size_bytes, (at, header)
        if passed is not None:
            self._check_old_format(*passed, wait)
        if reached < end_position:
            raise CorruptBatch(f"the batch at byte {reached} ends beyond byte {end_position}")
        return None

    def _check_old_format(self, position: int, header: BatchHeader, wait: bool) -> None:
        """Check that a batch before an apparent gap is not a newer batch whose magic was damaged.

        The checksum does not cover the magic. If a batch is read as the single record of an old format, its
        later records seem not to exist and would be skipped. Raises CorruptBatch, OSError.
        """
        if header.magic != CURRENT_MAGIC and not crc_is_valid(
            self.file.pread(header.size_bytes, position, wait=wait), header
        ):
            raise CorruptBatch(f"batch at byte {position} (offset {header.base_offset}) fails its checksum")

    def _position_in(self, lookup: Callable[..., OffsetPosition], target: int, wait: bool) -> int:
        """The batch boundary that the offset index gives, or 0 if the index is damaged.

        After a clean stop, indexes are trusted without reading them, as in Kafka. A wrong entry would hide
        records, so each entry is checked here.
        """
        if self._index_is_damaged:
            return 0
        entry = lookup(target, wait=wait)
        if entry.position == 0 or self._begins_batch(entry, wait):
            return entry.position
        log.warning(
            "offset index is damaged, no batch begins at its entry file=%s offset=%d position=%d",
            self.offset_index.path,
            *entry,
        )
        self._index_is_damaged = True
        return 0

    def _begins_batch(self, entry: OffsetPosition, wait: bool) -> bool:
        """Whether a batch that matches the index entry begins at its position."""
        if not 0 < entry.position < self.size:
            return False
        try:
            found = next(scan_headers(self.file, entry.position, self.size, wait=wait), None)
        except CorruptBatch:
            return False
        return found is not None and found[1].base_offset <= entry.offset

    def slice(
        self, position: int, end_position: int, max_bytes: int, *, min_one_batch: bool, wait: bool = True
    ) -> FileSlice:
        """Make a slice of whole batches, at most `max_bytes`, from the boundary `position` on.

        If more batches follow, the slice is cut at a boundary known from memory or the index, otherwise after
        the first batch, so that no partial batch is sent. The first batch may exceed `max_bytes` only with
        `min_one_batch`. `wait` is as in `position_of`, except that a large slice becomes loose instead of
        raising, because the check that reads it will find where its batches end.
        """
        size = end_position - position
        is_loose = False
        if size > max_bytes >= DIRECT_BYTES_MIN and not wait and self.file.is_known_cold_at(position):
            size, is_loose = max_bytes, True
        elif size > max_bytes:
            try:
                size = self._boundary_below(position, position + max_bytes, wait) - position
            except BlockingIOError:
                if max_bytes < DIRECT_BYTES_MIN:
                    raise
                size, is_loose = max_bytes, True
            if size <= 0:
                _, first = next(scan_headers(self.file, position, end_position, wait=wait))
                size = first.size_bytes
                if size > max_bytes and not min_one_batch:
                    size = 0
        return FileSlice(
            self.file,
            position,
            size,
            limit=end_position,
            segment_end=self.size,
            expect_read=self._expect_read,
            is_loose=is_loose,
        )

    def _boundary_below(self, start: int, limit: int, wait: bool) -> int:
        """The last known batch boundary at or below the position `limit`, or one at or below `start`."""
        recent = self._recent
        if recent and limit >= recent[0][1]:
            return recent[bisect_right(recent, limit, key=_position) - 1][1]
        boundary = self._position_in(self.offset_index.lookup_position, limit, wait)
        for at, header in scan_headers(self.file, max(boundary, start), self.size, wait=wait):
            if at + header.size_bytes > limit:
                self._expect_read(header.base_offset, at)
                return at
        return start

    def _expect_read(self, offset: int, position: int) -> None:
        """Remember where a reader will continue, to save an index lookup."""
        if len(self._next_reads) >= _NEXT_READS_MAX:
            self._next_reads = {}
        self._next_reads[offset] = position

    def release_file(self) -> None:
        """Release the descriptor that opening the log needed; readers that hold a slice keep it."""
        self.file = SegmentFile(self.file.path, self._files, appended_from=self.size)

    def read_next_offset(self) -> int:
        """Find the offset after the last record; reads at most a few KiB from the last index entry on."""
        last = self.offset_index.last()
        header = last_header(self.file, last.position, self.size)
        return header.next_offset if header else self.base_offset

    # --- truncating and removing

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Drop the batches from the one that holds `offset` on. Returns the bytes dropped. Raises OSError."""
        position = self.position_of(offset, self.size)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self._recent = []
        self._bytes_since_index_entry = 0
        dropped = 0
        if position is not None:
            dropped = self.size - position
            self.truncate_at(position)
        if self.size == 0:
            self.created_ms = now_ms
        for index in (self.offset_index, self.time_index):
            last = index.last()
            assert index.entries == 0 or last.offset < offset, f"{index.path} leads beyond {offset}: {last}"
        self._max_timestamp = self._scan_max_timestamp()
        return dropped

    def truncate_at(self, position: int) -> None:
        """Cut the file at a batch boundary; the caller handles the indexes. Raises OSError."""
        self._files.ftruncate(self.file.fd, position)
        self.size = position
        self._recent = []
        self._next_reads = {}
        self.file.readiness.truncate_to(position)
        self._write_back_at = min(self._write_back_at, position + _WRITE_BACK_DISTANCE_BYTES)
        if position == 0:
            self._first_batch_timestamp = None

    def _scan_max_timestamp(self) -> TimestampOffset:
        """Find the largest timestamp if the time index does not reach to the end of the file."""
        largest = self.time_index.last()
        start = self.offset_index.lookup(largest.offset).position
        for _, header in scan_headers(self.file, start, self.size):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    def rebuild_index_entry(self, position: int, header: BatchHeader) -> None:
        """Index one batch that recovery found sound. Call `reset_indexes` before the first one."""
        if header.max_timestamp > self.max_timestamp.timestamp:
            self._max_timestamp = TimestampOffset(header.max_timestamp, header.last_offset)
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self.offset_index.add(header.last_offset - self.base_offset, position)
            self.time_index.add_if_later(*self.max_timestamp)
            self._bytes_since_index_entry = 0
            if self.offset_index.wants_spill:
                self.offset_index.spill()
                self.time_index.spill()
        self._bytes_since_index_entry += header.size_bytes

    def reset_indexes(self) -> None:
        self.offset_index.clear()
        self.time_index.clear()
        self.transaction_index.clear()
        self._max_timestamp = None
        self._bytes_since_index_entry = 0

    def pin(self) -> None:
        """Keep the files open, because a compacted segment is about to take their names. Raises OSError.

        Readers in any thread that have this segment keep reading it: after they have opened a file by its
        name, they check for the pinned file.
        """
        self.file.fd  # noqa: B018
        self.offset_index.pin()
        self.time_index.pin()
        self.transaction_index.keep_for_readers()

    def mark_deleted(self) -> list[Path]:
        """Rename the files as deleted. Returns their paths, for a worker to remove. Raises OSError."""
        self.deleted = True
        self.transaction_index.keep_for_readers()
        marked = []
        for suffix in SEGMENT_SUFFIXES:
            path = segment_path(self.directory, self.base_offset, suffix)
            renamed = path.with_name(path.name + DELETED_SUFFIX)
            try:
                self._files.rename(path, renamed)
            except FileNotFoundError:
                continue
            marked.append(renamed)
        self.file.path = marked[0] if marked else self.file.path
        return marked

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}, {self.size} bytes)"


def _position(batch: tuple[int, int]) -> int:
    return batch[1]
