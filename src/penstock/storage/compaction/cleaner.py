"""Does one clean of one log: maps the keys of its dirty part, then filters its segments, in a worker thread.

The map holds the newest offset of as many keys as fit into its memory. If it fills up, the clean ends at that
offset and the next clean continues from there. The cleaner verifies every batch that it reads, because a
damaged batch must not get a new checksum. A batch whose checksum is right, and whose records cannot be read
nevertheless, stays as it is: its producer wrote it wrong, and the rest of the log can be cleaned around it.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Final, NamedTuple, Protocol

from penstock.protocol.batch import CURRENT_MAGIC, BatchHeader, Buffer, CorruptBatch, MalformedRecords
from penstock.protocol.kernels import kernel
from penstock.protocol.records import decode_batch, records_section
from penstock.storage.compaction.batch_filter import DECOMPRESSED_BYTES_MAX, BatchFilter, last_records
from penstock.storage.compaction.cleanable import LogToClean
from penstock.storage.compaction.config import CleanerConfig
from penstock.storage.compaction.grouping import group_by_size
from penstock.storage.compaction.segment_reader import SegmentReader
from penstock.storage.compaction.stats import CleanerStats
from penstock.storage.compaction.throttler import Throttler
from penstock.storage.compaction.transactions import CleanedTransactions
from penstock.storage.disk.files import FileSystem
from penstock.storage.errors import CleaningAborted, CorruptLog
from penstock.storage.partition.log import Log
from penstock.storage.segments.cleaned_segment import CleanedSegment
from penstock.storage.segments.segment import Segment

log = logging.getLogger(__name__)

_SECRET_BYTES: Final = 16
_LOAD_FACTOR_MIN: Final = 0.01
"""Lower bound of `log.cleaner.io.buffer.load.factor`, because the config accepts any number."""
_THROTTLED_BYTES: Final = 64 * 1024
"""Bytes read or written between two calls of the throttler, which reads the clock."""


class Surroundings(Protocol):
    """The interface through which a clean calls its owner."""

    def check(self) -> None:
        """Raise CleaningAborted if the clean must end; the clean calls this after every read."""

    def pause(self, pause_s: float) -> None:
        """Wait for `pause_s` seconds, or less if the clean must end."""

    def install(self, cleaned: CleanedSegment, replaced: Sequence[Segment]) -> None:
        """Make the log adopt the cleaned segment, on the log's thread. Raises CleaningAborted, LogError."""


class CleanResult(NamedTuple):
    end_offset: int
    """The first offset that was not mapped, where the next clean begins."""
    stats: CleanerStats


class _Cleaning(NamedTuple):
    """The state that all groups of one clean share."""

    log: Log
    transactions: CleanedTransactions
    batch_filter: BatchFilter
    legacy_horizon_s: float
    """Segments modified at this time (Unix seconds) or earlier lose their tombstones of magic 0 and 1."""


class Cleaner:
    """The cleaner of one log, within the memory that one worker may use."""

    def __init__(
        self,
        config: CleanerConfig,
        throttler: Throttler,
        files: FileSystem,
        rng: random.Random,
        surroundings: Surroundings,
    ) -> None:
        threads = max(1, config.threads)
        self._slots = config.dedupe_buffer_size // threads // kernel.OFFSET_MAP_SLOT_BYTES
        self._load_factor = min(max(config.io_buffer_load_factor, _LOAD_FACTOR_MIN), 1.0)
        self._write_bytes = config.io_buffer_size // threads // 2
        self._throttler = throttler
        self._files = files
        self._rng = rng
        self._surroundings = surroundings
        self._unthrottled_bytes = 0
        self._stats = CleanerStats()

    def clean(self, found: LogToClean, now_ms: int) -> CleanResult:
        """Clean the range described by `found`. Raises CleaningAborted, LogError (CorruptLog), OSError."""
        partition_log = found.log
        started_s = time.monotonic()
        self._stats = CleanerStats()
        log.info(
            "cleaning the dirty part of a log log=%s from=%d to=%d",
            partition_log.name,
            found.first_dirty_offset,
            found.first_uncleanable_offset,
        )
        offsets = self._map_keys(found)
        end_offset = offsets.latest_offset + 1
        assert found.first_dirty_offset <= end_offset, "a clean never moves the clean part back"
        assert end_offset <= max(found.first_dirty_offset, found.first_uncleanable_offset), (
            "records that must not be cleaned yet were mapped"
        )
        self._stats.buffer_utilization = len(offsets) / max(self._slots, 1)
        cleaning = self._begin(found, offsets, now_ms)
        for group in group_by_size(
            partition_log.segments.between(0, end_offset),
            partition_log.config,
            found.first_uncleanable_offset,
        ):
            self._clean_group(cleaning, group)
        self._stats.elapsed_s = time.monotonic() - started_s
        return CleanResult(end_offset, self._stats)

    def _begin(self, found: LogToClean, offsets: kernel.OffsetMap, now_ms: int) -> _Cleaning:
        partition_log = found.log
        transactions = CleanedTransactions()
        batch_filter = BatchFilter(
            offsets,
            transactions,
            last_records(list(partition_log.producer_state.producers.values())),
            self._stats,
            now_ms=now_ms,
            delete_retention_ms=partition_log.config.delete_retention_ms,
            up_to_offset=found.first_uncleanable_offset,
        )
        clean = partition_log.segments.between(0, found.first_dirty_offset)
        legacy_horizon_s = (
            _modified_s(clean[-1]) - partition_log.config.delete_retention_ms / 1000 if clean else 0.0
        )
        return _Cleaning(partition_log, transactions, batch_filter, legacy_horizon_s)

    # --- the map of keys

    def _map_keys(self, found: LogToClean) -> kernel.OffsetMap:
        """Map the keys of the dirty part, or of as much of it as fits, to their newest offsets."""
        partition_log, start, end = found.log, found.first_dirty_offset, found.first_uncleanable_offset
        offsets = self._new_map(end - start)
        transactions = CleanedTransactions()
        transactions.add_aborted(partition_log.aborted_transactions(start, end))
        offsets.latest_offset = start - 1
        dirty = partition_log.segments.between(start, end)
        for segment, following in zip_longest(dirty, dirty[1:]):
            if not self._map_segment(found, segment, offsets, transactions):
                break
            # an earlier clean may have removed the segment's last records
            offsets.latest_offset = (end if following is None else following.base_offset) - 1
        return offsets

    def _new_map(self, offset_count: int) -> kernel.OffsetMap:
        """Make a map for as many keys as `offset_count` records can have, within the memory of one worker."""
        capacity = max(int(self._slots * self._load_factor), 1)
        if offset_count < capacity:
            capacity = max(offset_count, 1)
        slots = max(min(self._slots, int(capacity / self._load_factor) + 1), capacity)
        return kernel.OffsetMap(slots, capacity, self._rng.randbytes(_SECRET_BYTES))

    def _map_segment(
        self,
        found: LogToClean,
        segment: Segment,
        offsets: kernel.OffsetMap,
        transactions: CleanedTransactions,
    ) -> bool:
        """Map the keys of one segment. Returns False if the map is full before the segment ends."""
        start_offset = found.first_dirty_offset
        reader = self._reader(found.log, segment, segment.offset_index.lookup(start_offset).position)
        with _damage_named(found.log, segment):
            while reader.has_more:
                read_bytes = 0
                if (run := reader.run(transactions.committed_below)) is not None:
                    read_bytes = reader.pass_run(*kernel.index_run(offsets, run, start_offset))
                if not read_bytes:
                    header, data = reader.batch()
                    read_bytes = len(data)
                    if header.is_control:
                        transactions.is_marker_needless(header, data)
                    elif not transactions.is_aborted(header) and not _map_batch(
                        offsets, header, data, start_offset
                    ):
                        return False
                    if header.last_offset >= start_offset:
                        offsets.latest_offset = header.last_offset
                self._take(read_bytes)
        return True

    # --- filtering

    def _clean_group(self, cleaning: _Cleaning, group: Sequence[Segment]) -> None:
        """Write the segment that replaces a group, and install it in the log."""
        partition_log = cleaning.log
        cleaned = CleanedSegment(
            partition_log.directory,
            group[0].base_offset,
            partition_log.config,
            self._files,
            self._write_bytes,
        )
        try:
            self._write_group(cleaning, group, cleaned)
            self._surroundings.check()  # if the log was deleted, its directory may now be another log's
            cleaned.offer()
            for segment in group:
                segment.pin()
        except BaseException:
            cleaned.discard()
            raise
        try:
            self._surroundings.install(cleaned, group)
        except CleaningAborted:
            cleaned.discard()
            raise
        self._files.sync_directory(partition_log.directory)

    def _write_group(self, cleaning: _Cleaning, group: Sequence[Segment], cleaned: CleanedSegment) -> None:
        partition_log, transactions, batch_filter, legacy_horizon_s = cleaning
        transactions.index = cleaned.transaction_index
        upper_bounds = [*(segment.base_offset for segment in group[1:]), group[-1].read_next_offset()]
        for segment, upper_bound in zip(group, upper_bounds, strict=True):
            transactions.add_aborted(partition_log.aborted_transactions(segment.base_offset, upper_bound))
            batch_filter.keep_legacy_tombstones = _modified_s(segment) > legacy_horizon_s
            self._filter_segment(cleaning, segment, cleaned)
        cleaned.finish(_modified_s(group[-1]))

    def _filter_segment(self, cleaning: _Cleaning, segment: Segment, cleaned: CleanedSegment) -> None:
        partition_log, transactions, batch_filter, _ = cleaning
        reader = self._reader(partition_log, segment)
        with _damage_named(partition_log, segment):
            while reader.has_more:
                read_bytes = written_bytes = 0
                if (run := reader.run(transactions.committed_below)) is not None:
                    filtered = batch_filter.apply_to_run(run, cleaned.marks)
                    read_bytes = reader.pass_run(filtered.position, filtered.lowest_offset)
                    written_bytes = len(filtered.data)
                    cleaned.append_marked(filtered.data)
                if not read_bytes:
                    header, data = reader.batch()
                    read_bytes = len(data)
                    remaining = _remaining(batch_filter, header, data, str(partition_log.name))
                    if remaining is not None:
                        cleaned.append(*remaining)
                        written_bytes = len(remaining[1])
                self._stats.bytes_read += read_bytes
                self._stats.bytes_written += written_bytes
                self._take(read_bytes + written_bytes)

    def _reader(self, partition_log: Log, segment: Segment, position: int = 0) -> SegmentReader:
        following = partition_log.segments.from_offset(segment.base_offset)[1]
        return SegmentReader(segment, following.base_offset, position)

    def _take(self, size_bytes: int) -> None:
        """Count bytes read and written; pause if the throttler requires it. Raises CleaningAborted."""
        self._surroundings.check()
        self._unthrottled_bytes += size_bytes
        if self._unthrottled_bytes >= _THROTTLED_BYTES:
            pause_s = self._throttler.pause_s(self._unthrottled_bytes)
            self._unthrottled_bytes = 0
            if pause_s > 0:
                self._surroundings.pause(pause_s)


def _map_batch(offsets: kernel.OffsetMap, header: BatchHeader, data: memoryview, start_offset: int) -> bool:
    """Map the keys of one batch, none if its records are malformed.

    Returns False if the map is full before the batch ends.
    """
    try:
        if header.magic == CURRENT_MAGIC:
            section = records_section(data, header, 0, DECOMPRESSED_BYTES_MAX)
            return kernel.index_records(offsets, section, header, start_offset)
        records = list(decode_batch(data, max_bytes=DECOMPRESSED_BYTES_MAX))
    except MalformedRecords:
        return True
    return all(
        offsets.put(record.key, record.offset)
        for record in records
        if record.key is not None and record.offset >= start_offset
    )


def _remaining(
    batch_filter: BatchFilter, header: BatchHeader, data: memoryview, log_name: str
) -> tuple[BatchHeader, Buffer] | None:
    """Return what the filter leaves of a batch: all of it if its records are malformed."""
    try:
        return batch_filter.apply(header, data)
    except MalformedRecords as error:
        log.warning(
            "damaged batch kept log=%s first_offset=%d last_offset=%d reason=%r",
            log_name,
            header.base_offset,
            header.last_offset,
            str(error),
        )
        return header, data


def _modified_s(segment: Segment) -> float:
    """The modification time of the segment's file in Unix seconds; a clean preserves it."""
    return segment.file.path.stat().st_mtime


@contextmanager
def _damage_named(partition_log: Log, segment: Segment) -> Iterator[None]:
    """Turn damage found in a segment into a CorruptLog that names the partition and the file."""
    try:
        yield
    except (CorruptBatch, MalformedRecords) as error:
        raise CorruptLog(f"{partition_log.name}, {segment.file.path}: {error}") from error
