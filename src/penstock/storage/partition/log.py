"""The log of one partition.

**Threads.** One thread, the broker's event loop, owns a log. Only this thread may append, call `roll`,
`truncate_to`, `truncate_fully_and_start_at`, `delete_records_before`, `delete_old_segments`,
`replace_segments` and `update_config`, and use the producer state. `end_offset_for_epoch` and the methods of
the log's `LogReader` (`read`, `offset_for_timestamp`, `max_timestamp_offset`, `aborted_transactions`) may run
in any thread at the same time. `check`, `flush` and `remove_deleted_files` block, so they must run in worker
threads. `open` and `close` require that no other thread uses the log.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from penstock.protocol.batch import (
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    assign_offsets,
)
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import REAL_FILES, FileSystem
from penstock.storage.errors import (
    CleaningAborted,
    InconsistentTopicId,
    MessageTooLarge,
    OffsetOutOfRange,
    RecordListTooLarge,
    StorageFailed,
)
from penstock.storage.names import TopicPartition
from penstock.storage.partition import follower_append, partition_metadata, retention
from penstock.storage.partition.deleted_files import DeletedFiles
from penstock.storage.partition.ended_transactions import note_append
from penstock.storage.partition.leader_epochs import EpochEntry, LeaderEpochs
from penstock.storage.partition.log_flusher import CheckpointNotWritten, LogFlusher
from penstock.storage.partition.producer_replay import rebuild_producers
from penstock.storage.partition.recovery import LogLoader
from penstock.storage.producers.producer_entry import ProducerEntry
from penstock.storage.producers.producer_state import ProducerState
from penstock.storage.producers.staged_append import Origin, StagedAppend
from penstock.storage.producers.verification import NOT_REQUIRED, Verification
from penstock.storage.reading.log_reader import LogReader
from penstock.storage.segments.cleaned_segment import CleanedSegment
from penstock.storage.segments.segment import Segment
from penstock.storage.segments.segment_list import Segments

log = logging.getLogger(__name__)

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000


class AppendInfo(NamedTuple):
    """The offsets and time of an append; for a duplicate, those of the original append."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


class LogHooks(NamedTuple):
    """The callbacks of one log. They run on the log's thread; a flush calls `io_error` in a worker too."""

    wants_flush: Callable[[Log], None] = lambda log: None
    """A segment was rolled; the manager should flush the log soon, in a worker."""
    io_error: Callable[[Log, OSError], None] = lambda log, error: None
    """A write or sync failed; `log.failure` is None if the log still accepts appends."""
    damaged: Callable[[Path, str], None] = lambda directory, reason: None
    """Recovery is about to drop records that the directory's log may have acknowledged. In any thread."""
    truncated: Callable[[Log, int], None] = lambda log, offset: None
    """Records from this offset on will be dropped: no clean may restore them, no recovery may trust them."""


_COMPLAINT_INTERVAL_MS: Final = 10_000
"""Minimum time between log lines about failed writes, as producers may retry every few milliseconds."""

# A NamedTuple's own constructor takes three times as long, and every append creates one.
_new_tuple = tuple.__new__


class Log:
    """The log of one partition: its segments with their indexes, and its producer state; see `open`."""

    def __init__(self, loader: LogLoader, clock: Callable[[], int], hooks: LogHooks, *, is_new: bool) -> None:
        segments, end_offset = loader.load()
        self.directory = loader.directory
        self.name = loader.name
        self.config = loader.config
        self.log_start_offset = loader.log_start_offset
        self.log_end_offset = end_offset
        self.topic_id = partition_metadata.topic_id_or_none(loader.directory)
        self.leader_epochs = loader.leader_epochs
        self.producer_state = loader.producer_state
        self.failure: str | None = None  # the reason why appends are refused
        self.closed = False  # whether `close` completed
        self.deleted = False
        self._rng = loader.rng
        self.producer_id_expiration_ms = loader.producer_id_expiration_ms
        self._clock = clock
        self._files = loader.files
        self._hooks = hooks
        self._flusher = LogFlusher(
            loader.directory,
            loader.files,
            clock,
            recovery_point=end_offset if loader.clean else min(loader.recovery_point, end_offset),
            parent_changed=is_new or not loader.clean,
        )
        self._deleted_files = DeletedFiles(loader.files)
        self._complained_ms: int | None = None
        self._reader = LogReader(loader.name, loader.log_start_offset, segments, end_offset)
        # Bound methods instead of wrappers, whose calls would slow down fetches of many partitions.
        self.read = self._reader.read
        self.check = self._reader.check
        self.offset_for_timestamp = self._reader.offset_for_timestamp
        self.max_timestamp_offset = self._reader.max_timestamp_offset
        self.aborted_transactions = self._reader.aborted_transactions
        self._install(segments)

    @classmethod
    def open(
        cls,
        directory: Path,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int,
        clock: Callable[[], int],
        log_start_offset: int = 0,
        files: FileSystem = REAL_FILES,
        hooks: LogHooks | None = None,
        rng: random.Random | None = None,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> Log:
        """Open the log in `directory`; the directory is created if it does not exist.

        `clean` means that the log was closed by `close` or by Kafka's clean shutdown; otherwise everything
        from `recovery_point` on is verified. `clock` returns milliseconds. Raises OSError, and ValueError if
        a checkpoint or partition.metadata is malformed.
        """
        is_new = not directory.exists()
        files.mkdir(directory, exist_ok=True)
        name = TopicPartition(topic, partition)
        loader = LogLoader(
            directory=directory,
            name=name,
            config=config,
            files=files,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=clock(),
            rng=rng or random.Random(),
            producer_id_expiration_ms=producer_id_expiration_ms,
            leader_epochs=LeaderEpochs(directory, files),
            producer_state=ProducerState(directory, name, files),
            damaged=(hooks or LogHooks()).damaged,
        )
        return cls(loader, clock, hooks or LogHooks(), is_new=is_new)

    def _install(self, segments: Segments) -> None:
        """Install `segments` as the log's segments; the last of them becomes the active one."""
        (active := segments.active).prepare_for_appends()
        self._reader.segments = segments
        self._reader.tail = (self.log_end_offset, active, active.size)

    # --- appending

    def append(
        self,
        records: bytes | bytearray | memoryview,
        headers: Sequence[BatchHeader],
        leader_epoch: int,
        *,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        verification: Verification | None = NOT_REQUIRED,
    ) -> AppendInfo:
        """Assign offsets to the batches in `records`, from the end offset on, and write them with one call.

        `headers` are those of `records`, as `batch.validate` returns them. A writable buffer is modified in
        place. `transaction_version` is that of the markers among the batches; `verification` is for the first
        batch of a transaction, see `ProducerState.begin_verification`.

        Raises: LogError if nothing was appended; this is StorageFailed if the disk failed. The log is then as
        before, or, if it cannot be restored, refuses all later appends (`failure`).
        """
        if self.failure is not None:
            raise StorageFailed(f"{self.name}: {self.failure}")
        first_offset, segment, _ = self._reader.tail
        size_bytes = len(records)
        count, max_timestamp, idempotent = self._survey(headers, size_bytes)
        next_offset = first_offset + count
        staged: dict[int, StagedAppend] = {}
        continued: ProducerEntry | None = None
        if idempotent and len(headers) == 1 and origin is Origin.CLIENT:
            continued = self.producer_state.continued_by(headers[0])
        if idempotent and continued is None:
            duplicate = self.producer_state.duplicate_of(headers) if origin is Origin.CLIENT else None
            if duplicate is not None:
                return AppendInfo(duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, True)
            staged = self.producer_state.stage(
                records, headers, first_offset, origin, transaction_version, verification
            )
        try:
            rolls = segment.should_roll(self.config, size_bytes, max_timestamp, next_offset - 1, self._clock)
        except OSError as error:
            raise StorageFailed(f"{self.name}: reading {segment.file.path} failed: {error}") from error
        if rolls:
            segment = self._roll(first_offset)
        if type(records) is bytes:
            records = bytearray(records)
        assign_offsets(records, headers, first_offset, leader_epoch)  # type: ignore[arg-type]
        try:
            segment.append(records, headers, first_offset)
        except OSError as error:
            raise self._append_failed(segment, error) from error
        assert next_offset > first_offset == self.log_end_offset, "an append begins at the log end offset"
        self._reader.tail = (next_offset, segment, segment.size)
        self.log_end_offset = next_offset
        if leader_epoch != self.leader_epochs.latest and leader_epoch >= 0:
            self.leader_epochs.assign(leader_epoch, first_offset)
        if continued is not None:
            continued.append(headers[0], first_offset)
        elif staged:
            try:
                note_append(self.producer_state, staged.values(), segment)
            except OSError as error:
                raise self._fail("its index of aborted transactions is incomplete", error) from error
        self.producer_state.end_offset = next_offset
        header = headers[0]
        append_time_ms = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_MASK else NO_TIMESTAMP
        return _new_tuple(AppendInfo, (first_offset, next_offset - 1, append_time_ms, False))

    def append_as_follower(
        self, records: bytes | bytearray | memoryview, headers: Sequence[BatchHeader]
    ) -> None:
        """Append batches with the offsets and epochs that their leader assigned; no byte is changed.

        `headers` are those of `records`, with verified checksums. There may be gaps between the batches where
        the leader has compacted its log. Batches that do not fit into one segment go into several, so some
        may be appended even if others fail. Raises UnexpectedOffset if a batch begins below the end offset,
        StorageFailed if a write fails.
        """
        if self.failure is not None:
            raise StorageFailed(f"{self.name}: {self.failure}")
        for run in follower_append.runs(headers, self.log_end_offset, self.config.segment_bytes, self.name):
            with memoryview(records)[run.position : run.position + run.size_bytes] as view:
                self._append_run(view, run)

    def _append_run(self, records: memoryview, run: follower_append.Run) -> None:
        segment = self.segments.active
        first_offset, next_offset = run.first_offset, run.next_offset
        staged: dict[int, StagedAppend] = {}
        if any(header.producer_id >= 0 for header in run.headers):
            staged = self.producer_state.stage(records, run.headers, first_offset, Origin.REPLICATION)
        try:
            rolls = segment.should_roll(
                self.config, run.size_bytes, run.max_timestamp, next_offset - 1, self._clock
            )
        except OSError as error:
            raise StorageFailed(f"{self.name}: reading {segment.file.path} failed: {error}") from error
        if rolls:
            segment = self._roll(first_offset)
        try:
            segment.append(records, run.headers, first_offset)
        except OSError as error:
            raise self._append_failed(segment, error) from error
        self._reader.tail = (next_offset, segment, segment.size)
        self.log_end_offset = next_offset
        for header in run.headers:
            if header.partition_leader_epoch != self.leader_epochs.latest:
                self._note_epoch(header)
        if staged:
            try:
                note_append(self.producer_state, staged.values(), segment)
            except OSError as error:
                raise self._fail("its index of aborted transactions is incomplete", error) from error
        self.producer_state.end_offset = next_offset

    def _note_epoch(self, header: BatchHeader) -> None:
        """Record the leader epoch of this batch, the first batch of that epoch in this log."""
        if header.partition_leader_epoch >= 0:
            self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        elif self.leader_epochs.entries:
            # A batch of an old format has no epoch, so the epochs below it would be an incomplete history.
            self.leader_epochs.clear()

    def _survey(self, headers: Sequence[BatchHeader], size_bytes: int) -> tuple[int, int, bool]:
        """Check sizes, and return (records, largest timestamp, whether any producer is idempotent).

        Raises MessageTooLarge, RecordListTooLarge.
        """
        count, max_timestamp, idempotent = 0, NO_TIMESTAMP, False
        for header in headers:
            if header.batch_length + LOG_OVERHEAD > self.config.max_message_bytes:
                raise MessageTooLarge(
                    f"{self.name}: a batch has {header.size_bytes} bytes, but max.message.bytes is "
                    f"{self.config.max_message_bytes}"
                )
            count += header.last_offset_delta + 1
            if header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
            if header.producer_id >= 0:
                idempotent = True
        if size_bytes > self.config.segment_bytes:
            raise RecordListTooLarge(
                f"{self.name}: {size_bytes} bytes exceed segment.bytes, which is {self.config.segment_bytes}"
            )
        return count, max_timestamp, idempotent

    def _append_failed(self, segment: Segment, error: OSError) -> StorageFailed:
        """Remove what a failed write left in the file. Returns the error to raise."""
        self._complain("cannot write log=%s file=%s error=%s", self.name, segment.file.path, error)
        try:
            segment.undo_write()
        except OSError as second:
            return self._fail(f"a failed write could not be undone ({second})", error)
        self._hooks.io_error(self, error)
        return StorageFailed(f"{self.name}: writing to {segment.file.path} failed: {error}")

    def _complain(self, message: str, *values: object) -> None:
        now_ms = self._clock()
        if self._complained_ms is None or abs(now_ms - self._complained_ms) >= _COMPLAINT_INTERVAL_MS:
            self._complained_ms = now_ms
            log.error(message, *values)

    def _fail(self, reason: str, error: OSError) -> StorageFailed:
        """Refuse appends until the directory is reopened; reads still work. Returns the error to raise."""
        self.failure = f"the log in {self.directory} accepts no appends, because {reason}: {error}"
        log.error("log failed log=%s reason=%s", self.name, self.failure)
        self._hooks.io_error(self, error)
        return StorageFailed(f"{self.name}: {self.failure}")

    def roll(self) -> None:
        """Start a new segment at the end offset, unless the active one is empty. Raises StorageFailed."""
        self._roll(self.log_end_offset)

    def _roll(self, base_offset: int) -> Segment:
        old = self.segments.active
        if old.base_offset == base_offset:
            return old
        # a follower's segment may begin above the old end, where the leader has compacted its log
        assert base_offset >= self.log_end_offset, f"{self} would overlap a segment from {base_offset} on"
        try:
            old.finish()
            self.producer_state.end_offset = base_offset
            self.producer_state.take_snapshot()
            segment = self._create_segment(base_offset)
        except OSError as error:
            self._complain("cannot create a segment log=%s offset=%d error=%s", self.name, base_offset, error)
            try:
                Segment.remove_files(self.directory, base_offset, self._files)
            except OSError as second:
                raise self._fail(f"a failed roll could not be undone ({second})", error) from error
            self._hooks.io_error(self, error)
            raise StorageFailed(
                f"{self.name}: cannot create a segment at offset {base_offset}: {error}"
            ) from error
        self._install(self.segments.with_roll(segment))
        self._flusher.directory_changed()
        self._hooks.wants_flush(self)
        return segment

    def _create_segment(self, base_offset: int) -> Segment:
        return Segment.create(
            self.directory, base_offset, self.config, self._files, now_ms=self._clock(), rng=self._rng
        )

    # --- offsets and sizes

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """The largest epoch at or below `epoch`, and its end offset; (-1, -1) if unknown (KIP-101)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which every transaction is decided; a `read_committed` reader must stop there."""
        unstable = self.producer_state.first_unstable_offset(high_watermark)
        if unstable is None:
            return high_watermark
        return min(max(unstable, self.log_start_offset), high_watermark)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def segments(self) -> Segments:
        return self._reader.segments

    # --- truncation

    def truncate_to(self, offset: int) -> None:
        """Drop all records at or above `offset`, durably. Blocks for some syncs. Raises StorageFailed."""
        if offset >= self.log_end_offset:
            # An epoch may begin at the end offset because this replica led it without writing; another
            # leader wrote there instead.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        dropped = [s for s in self.segments if s.base_offset > offset]
        kept = self.segments.without(dropped)
        with self._truncating(offset):
            # This must be durable before new appends, and leave no hole: a crash must not restore a part.
            self._drop(dropped[::-1])
            self._files.sync_directory(self.directory)
            kept.active.truncate_to(offset, self._clock())
            kept.active.sync(finished=False)
            self._restart_at(offset, kept)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and continue at `offset`, as after a snapshot. Blocks. Raises StorageFailed."""
        with self._truncating(offset):
            self._drop(list(self.segments)[::-1])
            self._files.sync_directory(self.directory)
            segment = self._create_segment(offset)
            self.leader_epochs.clear()
            self.producer_state.snapshots.remove_above(-1)
            self.log_start_offset = self._reader.start_offset = offset
            self._restart_at(offset, Segments([segment]))

    @contextmanager
    def _truncating(self, offset: int) -> Iterator[None]:
        """Hold off flushes and keep the recovery point at or below `offset`; a failure ends appends."""
        log.info("truncating a log log=%s to=%d", self.name, offset)
        with self._flusher.lock:
            self._flusher.lower_recovery_point(offset)
            try:
                self._hooks.truncated(self, offset)
                yield
            except OSError as error:
                raise self._fail(f"truncating it to offset {offset} failed", error) from error

    def _restart_at(self, offset: int, segments: Segments) -> None:
        """Set the log end offset to `offset` and update everything that depends on it."""
        self.log_end_offset = offset
        self.log_start_offset = self._reader.start_offset = min(self.log_start_offset, offset)
        self._flusher.directory_changed()
        self._install(segments)
        self.leader_epochs.truncate_from_end(offset)
        rebuild_producers(
            self.producer_state,
            segments,
            offset,
            self._clock(),
            self.producer_id_expiration_ms,
        )
        assert segments.active.base_offset <= offset, f"{segments.active} begins beyond the end, {offset}"
        assert self.recovery_point <= offset, "records would count as durable that do not exist"
        epochs = self.leader_epochs.entries
        assert not epochs or epochs[-1].start_offset < offset, f"{epochs[-1]} begins beyond {offset}"
        assert all(first < offset for first in self.producer_state.open_offsets), "a lost transaction is open"

    def delete_records_before(self, offset: int) -> int:
        """Raise the log start offset to `offset` (DeleteRecords). Returns the log start offset.

        Retention removes the segments below it later. The caller checks the high watermark. Raises
        OffsetOutOfRange if `offset` is above the log end offset.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.name}: offset {offset} is above the log end offset {self.log_end_offset}"
            )
        if offset > self.log_start_offset:
            self._start_at(offset)
            log.info("log start offset moved log=%s log_start_offset=%d", self.name, offset)
        return self.log_start_offset

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = self._reader.start_offset = offset
        self.leader_epochs.truncate_from_start(offset)

    # --- retention

    def delete_old_segments(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Delete the segments that retention no longer keeps. Returns their number. Raises StorageFailed.

        Their files are renamed at once, and `remove_deleted_files` removes them later. If all segments are to
        be deleted, a new one is rolled first.
        """
        if self.failure is not None:
            return 0
        deletable = retention.deletable_segments(
            self.name,
            self.segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self.log_end_offset if high_watermark is None else high_watermark,
            now_ms=now_ms,
        )
        if not deletable:
            return 0
        if len(deletable) == len(self.segments):
            self._roll(self.log_end_offset)
        remaining = self.segments.without(deletable)
        assert len(remaining) == len(self.segments) - len(deletable) > 0
        assert high_watermark is None or remaining.first.base_offset <= high_watermark, "uncommitted records"
        self._start_at(max(self.log_start_offset, remaining.first.base_offset))
        self._reader.segments = remaining
        try:
            self._drop(deletable)
        except OSError as error:
            raise self._fail("deleting old segments failed", error) from error
        return len(deletable)

    def replace_segments(self, replaced: Sequence[Segment], cleaned: CleanedSegment) -> None:
        """Replace segments by the compacted segment made from them; existing slices stay readable.

        Raises CleaningAborted if they are no longer segments of this log, StorageFailed if the disk fails.
        """
        if self.failure is not None or not set(replaced) <= set(self.segments):
            raise CleaningAborted(
                f"{self.name}: the segments that segment {cleaned.base_offset} replaces are gone"
            )
        segments = self.segments
        assert segments.active not in replaced, "appends go to this segment"
        following = segments.from_offset(replaced[-1].base_offset)[1]
        assert cleaned.base_offset <= cleaned.marks.largest_timestamp_offset < following.base_offset
        try:
            self._drop(replaced, snapshots_of=replaced[1:])  # the new segment keeps the first base offset
            cleaned.put_in_place()
        except OSError as error:
            raise self._fail("putting a compacted segment in place failed", error) from error
        self._reader.segments = segments.with_replaced(replaced, cleaned.to_segment(self._rng))
        self._hooks.wants_flush(self)

    def _drop(self, segments: Sequence[Segment], snapshots_of: Sequence[Segment] | None = None) -> None:
        """Rename the files of `segments` and schedule them for `remove_deleted_files`. Raises OSError."""
        paths = [path for segment in segments for path in segment.mark_deleted()]
        for segment in segments if snapshots_of is None else snapshots_of:
            paths += self.producer_state.snapshots.mark_deleted(segment.base_offset)
        if paths:
            self._deleted_files.add(paths, self._clock() + self.config.file_delete_delay_ms)
            self._flusher.directory_changed()

    def remove_deleted_files(self, now_ms: int) -> None:
        """Remove files whose `file.delete.delay.ms` has passed. Blocks; runs in a worker. Raises OSError."""
        self._deleted_files.remove_due(now_ms)

    def remove_expired_producers(self, now_ms: int) -> int:
        """Remove producers that have been idle for `producer.id.expiration.ms`. Returns their number."""
        return self.producer_state.remove_expired(now_ms, self.producer_id_expiration_ms)

    # --- durability

    def flush(self) -> None:
        """Make everything appended before the call durable, and advance the recovery point.

        Blocks, so it runs in a worker. Raises StorageFailed. After a failed sync the log accepts no more
        appends, because the kernel may have dropped what it could not write.
        """
        with self._flusher.lock:
            if self.deleted:
                return
            try:
                self._flusher.flush(self)
            except OSError as error:
                if self.deleted:
                    return
                if isinstance(error, CheckpointNotWritten):
                    self._hooks.io_error(self, error)
                    raise StorageFailed(
                        f"{self.name}: its leader epochs could not be written: {error}"
                    ) from error
                raise self._fail("flushing it failed", error) from error

    @property
    def recovery_point(self) -> int:
        """The offset below which all records are durable."""
        return self._flusher.recovery_point

    @property
    def last_flush_ms(self) -> int:
        return self._flusher.last_flush_ms

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Assign the topic's id, or compare it with the log's existing one.

        The id is written at once, and the next flush makes it durable. Kafka treats a log without a topic id
        as a stray, so the id must be written before any record. Raises InconsistentTopicId, OSError.
        """
        if self.topic_id is None:
            self._flusher.file_written(
                partition_metadata.write_topic_id(self._files, self.directory, topic_id)
            )
            self.topic_id = topic_id
        elif self.topic_id != topic_id:
            raise InconsistentTopicId(
                f"{self.name}: {self.directory} holds topic id {self.topic_id.hex()}, not {topic_id.hex()}"
            )

    def update_config(self, config: LogConfig) -> None:
        """Apply new topic configs from the next append on."""
        self.config = config

    def rename_for_deletion(self, directory: Path) -> None:
        """Rename the directory of a deleted log. Appends are refused; existing slices stay readable.

        `deleted` is set first, so that a concurrent flush does not treat missing files as failures. Raises
        OSError.
        """
        self.deleted = True
        self.failure = "the topic is deleted"
        self._files.rename(self.directory, directory)
        self.directory = directory

    def fail(self, reason: str) -> None:
        """Refuse appends and flushes permanently."""
        self.failure, self.deleted = reason, True

    def close(self) -> None:
        """Close the log cleanly: complete the indexes, take a producer snapshot and flush.

        Raises StorageFailed.
        """
        if self.failure is not None:
            return
        self.failure = "the log is closed"
        try:
            self.segments.active.finish()
            self.segments.active.sync(finished=True)
            self.producer_state.take_snapshot()
            self._flusher.directory_changed()
        except OSError as error:
            raise self._fail("closing it failed", error) from error
        self.flush()
        self.closed = True

    def __repr__(self) -> str:
        return f"Log({self.name}, {self.log_start_offset} to {self.log_end_offset})"
