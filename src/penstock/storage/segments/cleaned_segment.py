"""The files of a segment that a clean writes, until the log adopts them.

While a clean writes them, their names end in `.cleaned`; once they are complete and durable, in `.swap`.
After a crash, the next start removes `.cleaned` files and puts `.swap` files in place: see
`partition.leftovers`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from penstock.protocol.batch import BatchHeader, Buffer
from penstock.protocol.kernels import kernel
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import FileSystem
from penstock.storage.names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from penstock.storage.segments.segment import Segment
from penstock.storage.segments.segment_file import SegmentFile
from penstock.storage.segments.sparse_indexes import OffsetIndex, TimeIndex
from penstock.storage.segments.transaction_index import TransactionIndex


class CleanedSegment:
    """A segment that one worker is writing; only the thread that owns the log calls `put_in_place`.

    Every method may raise OSError.
    """

    def __init__(
        self, directory: Path, base_offset: int, config: LogConfig, files: FileSystem, buffer_bytes: int
    ) -> None:
        self.base_offset = base_offset
        self.marks = kernel.IndexMarks(base_offset, config.index_interval_bytes)
        """Index marks; the caller adds every batch here before `append_marked`."""
        self._directory = directory
        self._config = config
        self._files = files
        self._buffer = bytearray()
        self._buffer_bytes = buffer_bytes
        self._modified_s = 0.0
        for suffix in SEGMENT_SUFFIXES:
            files.remove_if_exists(self._path(suffix, CLEANED_SUFFIX))
        self._file = SegmentFile(self._path(LOG_SUFFIX, CLEANED_SUFFIX), files)
        self._file.create()
        index_bytes = config.segment_index_bytes
        self._offset_index = OffsetIndex(
            self._path(OFFSET_INDEX_SUFFIX, CLEANED_SUFFIX), base_offset, index_bytes, files
        )
        self._time_index = TimeIndex(
            self._path(TIME_INDEX_SUFFIX, CLEANED_SUFFIX), base_offset, index_bytes, files
        )
        self.transaction_index = TransactionIndex(self._path(TRANSACTION_INDEX_SUFFIX, CLEANED_SUFFIX), files)

    def _path(self, suffix: str, mark: str) -> Path:
        path = segment_path(self._directory, self.base_offset, suffix)
        return path.with_name(path.name + mark)

    @property
    def size(self) -> int:
        return self.marks.size

    def append(self, header: BatchHeader, data: Buffer) -> None:
        """Add a batch; its offsets must follow those added before."""
        self.marks.add(header.last_offset, header.max_timestamp, len(data))
        self.append_marked(data)

    def append_marked(self, data: Buffer) -> None:
        """Add batches that `marks` already contains."""
        for last_offset, position, *largest in self.marks.take_entries():
            self._add_index_entry(last_offset, position, *largest)
        self._buffer += data
        if len(self._buffer) >= self._buffer_bytes:
            self._write()

    def _add_index_entry(
        self, last_offset: int, position: int, largest_timestamp: int, its_offset: int
    ) -> None:
        if self._offset_index.is_full or self._time_index.is_full:
            return
        self._offset_index.add(last_offset - self.base_offset, position)
        self._time_index.add_if_later(largest_timestamp, its_offset)
        if self._offset_index.wants_spill:
            self._offset_index.spill()
            self._time_index.spill()

    def _write(self) -> None:
        self._files.write_all(self._file.fd, self._buffer, self.size - len(self._buffer))
        self._buffer = bytearray()

    def finish(self, modified_s: float) -> None:
        """Make the whole segment durable.

        `modified_s` is the modification time, in seconds, of the last segment that this one replaces. It
        stands in for the timestamps of records that have none.
        """
        self._write()
        self._time_index.add_if_later(self.marks.largest_timestamp, self.marks.largest_timestamp_offset)
        self._offset_index.spill(sync=True)
        self._time_index.spill(sync=True)
        self._files.sync_path(self.transaction_index.path)
        os.utime(self._file.path, (modified_s, modified_s))
        self._files.fsync(self._file.fd)
        self._modified_s = modified_s

    def offer(self) -> None:
        """Rename the files to `.swap`, durably: from here on, recovery after a crash puts them in place."""
        for suffix in SEGMENT_SUFFIXES:
            self._rename(suffix, CLEANED_SUFFIX, SWAP_SUFFIX)
        self._files.sync_directory(self._directory)

    def put_in_place(self) -> None:
        """Give the files their final names, `.log` first, because recovery looks for its `.swap`."""
        for suffix in SEGMENT_SUFFIXES:
            self._rename(suffix, SWAP_SUFFIX, "")

    def _rename(self, suffix: str, mark: str, new_mark: str) -> None:
        path = self._path(suffix, mark)
        if suffix == TRANSACTION_INDEX_SUFFIX and not path.exists():
            return  # the segment has no aborted transaction
        self._files.rename(path, self._path(suffix, new_mark))

    def to_segment(self, rng: random.Random) -> Segment:
        """The segment that consists of these files once they are in place."""
        created_ms = int(self._modified_s * 1000)
        return Segment(
            self._directory,
            self.base_offset,
            self._config,
            self._files,
            size=self.size,
            created_ms=created_ms,
            rng=rng,
        )

    def discard(self) -> None:
        """Remove all files that are not in place yet."""
        for mark in (CLEANED_SUFFIX, SWAP_SUFFIX):
            for suffix in SEGMENT_SUFFIXES:
                self._files.remove_if_exists(self._path(suffix, mark))
