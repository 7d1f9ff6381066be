"""Opens a partition's directory, and recovers its log after an unclean stop.

After a clean stop, only file sizes, the last index entries and the newest producer snapshot are read. After
an unclean stop, recovery reads the segments from the recovery point on completely: it verifies the checksum
of every batch, cuts the file after the last sound batch, rebuilds the indexes and replays producers. It drops
segments after a cut, because a log may end early but must not have holes. It runs before the log is served,
so it may run in a worker.
"""

from __future__ import annotations

import errno
import logging
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from penstock.protocol.batch import LOG_OVERHEAD, BatchHeader, CorruptBatch
from penstock.storage.config import LogConfig
from penstock.storage.disk import checkpoints
from penstock.storage.disk.files import FileSystem
from penstock.storage.names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TopicPartition,
    offset_of_file,
    segment_path,
)
from penstock.storage.partition.leader_epochs import LeaderEpochs
from penstock.storage.partition.leftovers import remove_leftovers
from penstock.storage.partition.producer_replay import rebuild_producers, transaction_marker
from penstock.storage.producers.producer_state import ProducerState
from penstock.storage.segments.scan import checked_batches, holds_batch
from penstock.storage.segments.scan import headers as scan_headers
from penstock.storage.segments.segment import Segment
from penstock.storage.segments.segment_list import Segments
from penstock.storage.segments.sparse_indexes import MAX_RELATIVE_OFFSET
from penstock.storage.segments.transaction_index import AbortedTransaction

log = logging.getLogger(__name__)

_ZEROS_BYTES: Final = 1 << 20
"""Bytes read at a time to find out whether a file continues with zeros only."""
_TORN_BYTES_MAX: Final = 1 << 24
"""Limit for the remains of an interrupted append, because no append writes a larger batch."""


@dataclass(slots=True, kw_only=True)
class LogLoader:
    """The loader of one log's directory; `load` also fills `leader_epochs` and `producer_state`."""

    directory: Path
    name: TopicPartition
    config: LogConfig
    files: FileSystem
    clean: bool
    recovery_point: int
    log_start_offset: int
    now_ms: int
    rng: random.Random
    producer_id_expiration_ms: int
    leader_epochs: LeaderEpochs
    producer_state: ProducerState
    damaged: Callable[[Path, str], None]
    """Called before recovery drops data whose damage cannot result from killing the process."""

    def load(self) -> tuple[Segments, int]:
        """Load the log. Returns its segments, at least one, and the log end offset. Raises OSError."""
        remove_leftovers(self.directory, self.files)
        segments = self._open_segments()
        if self.leader_epochs.is_damaged:
            self._find_epochs(segments)
        unsound = self._first_unsound(segments)
        end_offset = self.log_start_offset
        if unsound is None and segments:
            try:
                end_offset = segments[-1].read_next_offset()
                if end_offset < segments[-1].base_offset:  # the checksum does not cover the offsets
                    raise CorruptBatch(f"the last segment ends at offset {end_offset}, below its base offset")
            except CorruptBatch as error:
                log.error("log damaged despite a clean stop, recovering it log=%s error=%s", self.name, error)
                unsound = segments[-1].base_offset
        if unsound is not None:
            segments, end_offset = self._recover(segments, unsound)
        if end_offset < self.log_start_offset:
            log.warning(
                "log ends below its start, as if its files were lost, so it starts empty there "
                "log=%s end_offset=%d log_start_offset=%d",
                self.name,
                end_offset,
                self.log_start_offset,
            )
            self.damaged(self.directory, f"{self.name} ends below its start offset")
            self._drop(segments)
            segments, end_offset = [], self.log_start_offset
            self.leader_epochs.clear()
            # the producers' latest state is lost; an older state would wrongly refuse their next batches
            self.producer_state.snapshots.remove_above(-1)
            self.producer_state.forget()
            self.producer_state.end_offset = end_offset
        if not segments:
            segments = [self._create_segment(self.log_start_offset)]
        self.log_start_offset = max(self.log_start_offset, segments[0].base_offset)
        self.leader_epochs.truncate_from_end(end_offset)
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        loaded = Segments(segments)
        if unsound is None:
            self._load_producers(loaded, end_offset)
        self.producer_state.snapshots.remove_above(end_offset)
        self.producer_state.snapshots.remove_stray(loaded.base_offsets)
        for segment in loaded:
            segment.release_file()
        assert all(one < other for one, other in pairwise(loaded.base_offsets)), loaded.base_offsets
        assert loaded.first.base_offset <= self.log_start_offset <= end_offset
        assert loaded.active.base_offset <= end_offset
        assert self.producer_state.end_offset == end_offset, "producers must be known up to the end"
        return loaded, end_offset

    # --- finding the segments

    def _open_segments(self) -> list[Segment]:
        base_offsets = {}
        for path in self.directory.iterdir():
            offset = offset_of_file(path.name)
            if offset is None:
                continue
            if path.name.endswith(LOG_SUFFIX):
                base_offsets[offset] = path.stat()
            elif path.name.endswith(INDEX_SUFFIXES) and not path.with_suffix(LOG_SUFFIX).exists():
                log.warning("removing an index without a segment log=%s file=%s", self.name, path)
                self.files.remove_if_exists(path)
        return [
            Segment(
                self.directory,
                offset,
                self.config,
                self.files,
                size=status.st_size,
                created_ms=int(status.st_mtime * 1000),
                rng=self.rng,
            )
            for offset, status in sorted(base_offsets.items())
        ]

    def _create_segment(self, base_offset: int) -> Segment:
        return Segment.create(
            self.directory, base_offset, self.config, self.files, now_ms=self.now_ms, rng=self.rng
        )

    def _first_unsound(self, segments: list[Segment]) -> int | None:
        """The base offset of the first segment to be recovered, or None if all can be trusted."""
        candidates = [segment.base_offset for segment in segments if not _has_indexes(segment)]
        if segments and not self.clean:
            # Begin below the recovery point: if a segment ended there, its indexes were not synced yet.
            floor = [base for base in (s.base_offset for s in segments) if base < self.recovery_point]
            candidates.append(floor[-1] if floor else segments[0].base_offset)
        if self.clean and segments and not candidates and not _index_fits(segments[-1]):
            candidates.append(segments[-1].base_offset)
        if self.clean and candidates:
            log.warning(
                "indexes missing or damaged, rebuilding them log=%s from=%d",
                self.name,
                min(candidates),
            )
        return min(candidates, default=None)

    def _find_epochs(self, segments: list[Segment]) -> None:
        """Read the leader epochs from the headers of the batches."""
        for segment in segments:
            try:
                for _, header in scan_headers(segment.file, 0, segment.size):
                    if header.partition_leader_epoch > self.leader_epochs.latest:
                        self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
            except CorruptBatch as error:
                log.error("segment damaged, epochs may be missing file=%s error=%s", segment.file.path, error)

    # --- after an unclean stop

    def _recover(self, segments: list[Segment], from_offset: int) -> tuple[list[Segment], int]:
        """Recover the segments from `from_offset` on. Returns all that remain, and the log end offset."""
        kept = [segment for segment in segments if segment.base_offset < from_offset]
        pending = segments[len(kept) :]
        self.producer_state.snapshots.remove_stray([segment.base_offset for segment in segments])
        self._load_producers(Segments(kept), from_offset)
        while pending:
            segment = pending.pop(0)
            self.producer_state.end_offset = segment.base_offset
            self.producer_state.take_snapshot()
            kept.append(segment)
            sound_bytes, reason, is_compacted = self._recover_segment(segment)
            is_cut = sound_bytes < segment.size
            is_last = not pending
            has_hole = bool(pending) and pending[0].base_offset != self.producer_state.end_offset
            may_have_hole = is_compacted or (has_hole and self._is_cleaned_up_to(pending[0].base_offset))
            if pending and (is_cut or (has_hole and not may_have_hole)):
                log.warning(
                    "dropping segments that do not follow the last sound batch "
                    "log=%s count=%d from=%d end_offset=%d",
                    self.name,
                    len(pending),
                    pending[0].base_offset,
                    self.producer_state.end_offset,
                )
                self.damaged(self.directory, f"{self.name} has a hole at offset {self._end_offset}")
                self._drop(pending)
                pending = []
                is_last = False
            if is_cut:
                if not (is_last and self._is_torn_append(segment, sound_bytes)):
                    self.damaged(self.directory, f"{self.name} is damaged at offset {self._end_offset}")
                self._cut(segment, sound_bytes, reason)
            segment.finish()
        end_offset = self.producer_state.end_offset
        self.producer_state.take_snapshot()
        return kept, end_offset

    @property
    def _end_offset(self) -> int:
        """The offset at which the recovered part ends."""
        return self.producer_state.end_offset

    def _is_torn_append(self, segment: Segment, sound_bytes: int) -> bool:
        """Whether the bytes after the sound part can result from an append interrupted by a kill.

        They can be the beginning of a batch that was not acknowledged, as an append counts only when all of
        it is written, on leaders and followers. Or they are preallocated space.
        """
        size = segment.size - sound_bytes
        head = segment.file.pread(LOG_OVERHEAD, sound_bytes)
        if not any(head):
            return self._is_zero(segment, sound_bytes)
        if size < LOG_OVERHEAD:
            return True
        base_offset, length = int.from_bytes(head[:8], "big"), int.from_bytes(head[8:], "big", signed=True)
        offsets = range(self._end_offset, segment.base_offset + MAX_RELATIVE_OFFSET + 1)
        if base_offset not in offsets or not size - LOG_OVERHEAD < length or size > _TORN_BYTES_MAX:
            return False
        return not holds_batch(segment.file.pread(size, sound_bytes), offsets)

    def _is_zero(self, segment: Segment, start: int) -> bool:
        try:
            start = os.lseek(segment.file.fd, start, os.SEEK_DATA)
        except OSError as error:
            return error.errno == errno.ENXIO  # no data was ever written there
        for position in range(start, segment.size, _ZEROS_BYTES):
            if any(segment.file.pread(min(_ZEROS_BYTES, segment.size - position), position)):
                return False
        return True

    def _check_written(self, segment: Segment) -> None:
        """Detect lost writes, and drop the page cache after them so that recovery reads what the disk has.

        The kernel still has data in memory that it could not write, but will drop it soon.
        """
        fd = segment.file.fd
        try:
            self.files.raise_lost_writes(fd)
        except OSError as error:
            log.error(
                "file was not written to its disk log=%s file=%s error=%s",
                self.name,
                segment.file.path,
                error,
            )
            self.damaged(self.directory, f"{self.name} was not written to its disk: {error}")
            self.files.drop_clean_cache(fd)

    def _is_cleaned_up_to(self, offset: int) -> bool:
        """Whether compaction may have removed records below `offset`."""
        if self.config.compacts:
            return True
        try:
            cleaned = checkpoints.read_offsets(self.directory.parent / checkpoints.CLEANED_OFFSETS)
        except checkpoints.CheckpointCorrupt:
            return True
        return cleaned.get(self.name, 0) >= offset

    def _recover_segment(self, segment: Segment) -> tuple[int, str, bool]:
        """Verify one segment, rebuild its indexes and replay its producers.

        Returns the byte where its sound part ends, the reason why it ends there, and whether offsets are
        missing within the segment: compaction may then have removed its last offsets too.
        """
        self._check_written(segment)
        segment.reset_indexes()
        sound_bytes, reason, is_compacted = 0, "the rest is not a batch", False
        try:
            for position, header, data in checked_batches(segment.file, segment.size):
                self._check_offset(segment, header)
                is_compacted |= header.base_offset > self.producer_state.end_offset
                segment.rebuild_index_entry(position, header)
                if header.partition_leader_epoch > self.leader_epochs.latest:
                    self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
                self._replay(segment, header, data)
                sound_bytes = position + header.size_bytes
        except CorruptBatch as error:
            reason = str(error)
        return sound_bytes, reason, is_compacted

    def _cut(self, segment: Segment, sound_bytes: int, reason: str) -> None:
        """Cut the file durably: the bytes cut off must not reappear after later appends."""
        log.warning(
            "log cut after its last sound batch log=%s bytes=%d end_offset=%d position=%d file=%s reason=%s",
            self.name,
            segment.size - sound_bytes,
            self.producer_state.end_offset,
            sound_bytes,
            segment.file.path,
            reason,
        )
        segment.truncate_at(sound_bytes)
        segment.sync(finished=False)

    def _check_offset(self, segment: Segment, header: BatchHeader) -> None:
        """Check that offsets increase and fit the segment, as the checksum does not cover them.

        Raises CorruptBatch.
        """
        lowest = max(self.producer_state.end_offset, segment.base_offset)
        if not lowest <= header.last_offset <= segment.base_offset + MAX_RELATIVE_OFFSET:
            raise CorruptBatch(f"a batch that ends at offset {header.last_offset} follows offset {lowest}")

    def _replay(self, segment: Segment, header: BatchHeader, data: memoryview) -> None:
        for completed in self.producer_state.replay(header, transaction_marker(header, data)):
            last_stable_offset = self.producer_state.complete(completed)
            if completed.aborted:
                segment.transaction_index.append(
                    AbortedTransaction(
                        completed.producer_id,
                        completed.first_offset,
                        completed.last_offset,
                        last_stable_offset,
                    )
                )

    def _drop(self, segments: list[Segment]) -> None:
        """Remove segments durably, the last one first, so that a crash meanwhile leaves no hole."""
        for segment in reversed(segments):
            for path in segment.mark_deleted():
                self.files.remove_if_exists(path)
            self.producer_state.snapshots.remove(segment.base_offset)
        if segments:
            self.files.sync_directory(self.directory)

    # --- producers

    def _load_producers(self, segments: Segments, end_offset: int) -> None:
        """Load the producer state at `end_offset` from the newest snapshot and the batch headers after it.

        If a cleanly closed log has no snapshot, none was ever written, so it has no producers (as in Kafka).
        """
        rebuild_producers(
            self.producer_state,
            segments,
            end_offset,
            self.now_ms,
            self.producer_id_expiration_ms,
            skip_without_snapshot=self.clean,
        )


def _has_indexes(segment: Segment) -> bool:
    return all(
        segment_path(segment.directory, segment.base_offset, suffix).exists()
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    )


def _index_fits(segment: Segment) -> bool:
    """Whether the last index entry is plausible: not past the segment's end, not a preallocated zero."""
    last = segment.offset_index.last()
    if segment.offset_index.entries == 0:
        return True
    return segment.base_offset <= last.offset and 0 < last.position < segment.size
