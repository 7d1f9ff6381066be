"""The log of one partition.

**What may run where.** One thread, the broker's event loop, owns a log: the appends, `roll`, `truncate_to`,
`truncate_fully_and_start_at`, `delete_records_before`, `delete_old_segments`, `replace_segments`,
`update_config` and the producer state are its own. `end_offset_for_epoch` and the methods of its `LogReader`
(`read`, `offset_for_timestamp`, `max_timestamp_offset`, `aborted_transactions`) may run in any thread beside
it. `check`, `flush` and `remove_deleted_files`, which block, belong into worker threads. `open` and `close`
run while nobody else uses the log.
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
from penstock.storage import follower_append, partition_metadata, retention
from penstock.storage.compaction.cleaned_segment import CleanedSegment
from penstock.storage.compaction.errors import CleaningAborted
from penstock.storage.config import LogConfig
from penstock.storage.deleted_files import DeletedFiles
from penstock.storage.errors import (
    InconsistentTopicId,
    MessageTooLarge,
    OffsetOutOfRange,
    RecordListTooLarge,
    StorageFailed,
)
from penstock.storage.files import REAL_FILES, FileSystem
from penstock.storage.leader_epochs import EpochEntry, LeaderEpochs
from penstock.storage.log_flusher import CheckpointNotWritten, LogFlusher
from penstock.storage.log_hooks import LogHooks
from penstock.storage.log_reader import LogReader
from penstock.storage.names import TopicPartition
from penstock.storage.producer_state import ProducerState
from penstock.storage.recovery import LogLoader, rebuild_producers
from penstock.storage.segment import Segment
from penstock.storage.segments import Segments
from penstock.storage.staged_append import Origin, StagedAppend
from penstock.storage.transactions import note_append
from penstock.storage.verification import NOT_REQUIRED, Verification

logger = logging.getLogger(__name__)

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000


class AppendInfo(NamedTuple):
    """Where an append went. A duplicate tells where its first try went, and when."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


_COMPLAINT_INTERVAL_MS: Final = 10_000
"""Between two log lines about writes that fail: whoever writes may try again every few milliseconds."""

# A NamedTuple's own constructor costs three times as much, and every append makes one.
_new_tuple = tuple.__new__


class Log:
    """Append-only batches of one partition in segments, with their indexes and producers; see `open`."""

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
        self.failure: str | None = None  # why appends are refused
        self.closed = False  # by `close`, cleanly
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
        # Its methods, not calls to them: a fetch of many partitions would notice those.
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
        """Open the log in `directory`, which is created where it does not exist.

        `clean` says that it was closed by `close` (or by Kafka's clean shutdown); else everything from
        `recovery_point` on is verified. `clock` gives milliseconds. Raises OSError, and ValueError for a
        checkpoint or partition.metadata that is no such file.
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
        """Make `segments` the log's, and the last of them the one that is appended to."""
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
        """Number the batches in `records` from the end offset on and write them with one call.

        `headers` are those of `records`, as `batch.validate` gives them. A writable buffer is numbered in
        place. `transaction_version` is that of the markers among them; `verification` is for the first batch
        of a transaction, see `ProducerState.begin_verification`. Raises a LogError where nothing was
        appended, StorageFailed for the disk's part; then the log is as it was, or, where not even that can be
        had, refuses appends from then on (`failure`).
        """
        if self.failure is not None:
            raise StorageFailed(f"{self.name}: {self.failure}")
        first_offset, segment, _ = self._reader.tail
        size_bytes = len(records)
        count, max_timestamp, idempotent = self._survey(headers, size_bytes)
        next_offset = first_offset + count
        staged: dict[int, StagedAppend] = {}
        if idempotent:
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
        self._reader.tail = (next_offset, segment, segment.size)
        self.log_end_offset = next_offset
        if leader_epoch != self.leader_epochs.latest and leader_epoch >= 0:
            self.leader_epochs.assign(leader_epoch, first_offset)
        if staged:
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
        """Append batches as their leader has numbered them, in offsets and epochs; no byte is changed.

        `headers` are those of `records`, checksums checked. There may be gaps between them, where the leader
        has compacted. What does not fit into one segment goes into several, so that some may be appended when
        others fail. Raises UnexpectedOffset below the end offset, StorageFailed.
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
        """The epoch in which a leader wrote this batch, the first one of it here."""
        if header.partition_leader_epoch >= 0:
            self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        elif self.leader_epochs.entries:
            # A batch of an old format bears none: what lies below must not be taken for all there was.
            self.leader_epochs.clear()

    def _survey(self, headers: Sequence[BatchHeader], size_bytes: int) -> tuple[int, int, bool]:
        """(records, largest timestamp, is any producer idempotent); sizes that are refused raise."""
        count, max_timestamp, idempotent = 0, NO_TIMESTAMP, False
        for header in headers:
            if header.batch_length + LOG_OVERHEAD > self.config.max_message_bytes:
                raise MessageTooLarge(
                    f"{self.name}: a batch of {header.size_bytes} bytes, max.message.bytes is "
                    f"{self.config.max_message_bytes}"
                )
            count += header.last_offset_delta + 1
            if header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
            if header.producer_id >= 0:
                idempotent = True
        if size_bytes > self.config.segment_bytes:
            raise RecordListTooLarge(
                f"{self.name}: {size_bytes} bytes at once, segment.bytes is {self.config.segment_bytes}"
            )
        return count, max_timestamp, idempotent

    def _append_failed(self, segment: Segment, error: OSError) -> StorageFailed:
        """Take back what a failed write left in the file; the error to raise."""
        self._complain(f"{self.name}: writing to {segment.file.path} failed: {error}")
        try:
            segment.undo_write()
        except OSError as second:
            return self._fail(f"a failed write could not be taken back ({second})", error)
        self._hooks.io_error(self, error)
        return StorageFailed(f"{self.name}: writing to {segment.file.path} failed: {error}")

    def _complain(self, line: str) -> None:
        now_ms = self._clock()
        if self._complained_ms is None or abs(now_ms - self._complained_ms) >= _COMPLAINT_INTERVAL_MS:
            self._complained_ms = now_ms
            logger.error("%s", line)

    def _fail(self, reason: str, error: OSError) -> StorageFailed:
        """Refuse appends from now on, until the directory is opened anew; reads go on."""
        self.failure = f"the log in {self.directory} takes no appends, since {reason}: {error}"
        logger.error("%s: %s", self.name, self.failure)
        self._hooks.io_error(self, error)
        return StorageFailed(f"{self.name}: {self.failure}")

    def roll(self) -> None:
        """Begin a new segment at the end offset, unless the active one is empty. Raises StorageFailed."""
        self._roll(self.log_end_offset)

    def _roll(self, base_offset: int) -> Segment:
        old = self.segments.active
        if old.base_offset == base_offset:
            return old
        try:
            old.finish()
            self.producer_state.end_offset = base_offset
            self.producer_state.take_snapshot()
            segment = self._create_segment(base_offset)
        except OSError as error:
            self._complain(f"{self.name}: no new segment at offset {base_offset}: {error}")
            try:
                Segment.remove_files(self.directory, base_offset, self._files)
            except OSError as second:
                raise self._fail(f"a failed roll could not be taken back ({second})", error) from error
            self._hooks.io_error(self, error)
            raise StorageFailed(f"{self.name}: no new segment at offset {base_offset}: {error}") from error
        self._install(self.segments.with_roll(segment))
        self._flusher.directory_changed()
        self._hooks.wants_flush(self)
        return segment

    def _create_segment(self, base_offset: int) -> Segment:
        return Segment.create(
            self.directory, base_offset, self.config, self._files, now_ms=self._clock(), rng=self._rng
        )

    # --- what there is

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """(largest epoch at or below `epoch`, its end offset), (-1, -1) where unknown (KIP-101)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is decided: where a `read_committed` reader must stop."""
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

    # --- cutting

    def truncate_to(self, offset: int) -> None:
        """Drop all records at or above `offset`, for good. Blocks for some syncs. Raises StorageFailed."""
        if offset >= self.log_end_offset:
            # An epoch may have begun at the end, that its leader here never wrote in: another one did.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        dropped = [s for s in self.segments if s.base_offset > offset]
        kept = self.segments.without(dropped)
        with self._truncating(offset):
            # Durable before anything follows, and never with a hole: a crash must not bring back a part.
            self._drop(dropped[::-1])
            self._files.sync_directory(self.directory)
            kept.active.truncate_to(offset, self._clock())
            kept.active.sync(finished=False)
            self._restart_at(offset, kept)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and go on at `offset`, as after a snapshot. Blocks. Raises StorageFailed."""
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
        """No flush meanwhile, and no recovery point above `offset`; what fails ends appends."""
        logger.info("%s: truncating to offset %d", self.name, offset)
        with self._flusher.lock:
            self._flusher.lower_recovery_point(offset)
            try:
                self._hooks.truncated(self, offset)
                yield
            except OSError as error:
                raise self._fail(f"truncating it to offset {offset} failed", error) from error

    def _restart_at(self, offset: int, segments: Segments) -> None:
        """Let the log end at `offset`, with all that follows from its end."""
        self.log_end_offset = offset
        self.log_start_offset = self._reader.start_offset = min(self.log_start_offset, offset)
        self._flusher.directory_changed()
        self._install(segments)
        self.leader_epochs.truncate_from_end(offset)
        rebuild_producers(
            self.producer_state,
            segments,
            self.log_start_offset,
            offset,
            self._clock(),
            self.producer_id_expiration_ms,
        )

    def delete_records_before(self, offset: int) -> int:
        """Move the log start offset up (DeleteRecords). Returns it; segments below it go with retention.

        Raises OffsetOutOfRange above the log end offset; the high watermark is the caller's to check.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.name}: offset {offset} is above the log end offset {self.log_end_offset}"
            )
        if offset > self.log_start_offset:
            self._start_at(offset)
            logger.info("%s: log start offset is now %d", self.name, offset)
        return self.log_start_offset

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = self._reader.start_offset = offset
        self.leader_epochs.truncate_from_start(offset)

    # --- retention

    def delete_old_segments(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Take the segments that retention allows out of the log. Returns how many. Raises StorageFailed.

        Their files are renamed at once and removed by `remove_deleted_files` later. Where all are to go, a
        new one is rolled first.
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
        self._start_at(max(self.log_start_offset, remaining.first.base_offset))
        self._reader.segments = remaining
        try:
            self._drop(deletable)
        except OSError as error:
            raise self._fail("deleting old segments failed", error) from error
        return len(deletable)

    def replace_segments(self, replaced: Sequence[Segment], cleaned: CleanedSegment) -> None:
        """Take in a compacted segment in place of those it was made from; slices given out stay readable.

        Raises CleaningAborted where they aren't the log's any more, StorageFailed.
        """
        if self.failure is not None or not set(replaced) <= set(self.segments):
            raise CleaningAborted(f"{self.name}: the segments of {cleaned.base_offset} are gone")
        try:
            self._drop(replaced, snapshots_of=replaced[1:])  # the first one's base offset stays one
            cleaned.put_in_place()
        except OSError as error:
            raise self._fail("putting a compacted segment in place failed", error) from error
        self._reader.segments = self.segments.with_replaced(replaced, cleaned.to_segment(self._rng))
        self._hooks.wants_flush(self)

    def _drop(self, segments: Sequence[Segment], snapshots_of: Sequence[Segment] | None = None) -> None:
        """Rename the files of `segments` and hand them over to `remove_deleted_files`. Raises OSError."""
        paths = [path for segment in segments for path in segment.mark_deleted()]
        for segment in segments if snapshots_of is None else snapshots_of:
            paths += self.producer_state.snapshots.mark_deleted(segment.base_offset)
        if paths:
            self._deleted_files.add(paths, self._clock() + self.config.file_delete_delay_ms)
            self._flusher.directory_changed()

    def remove_deleted_files(self, now_ms: int) -> None:
        """Remove the files whose `file.delete.delay.ms` is over. Blocks: for a worker. Raises OSError."""
        self._deleted_files.remove_due(now_ms)

    def remove_expired_producers(self, now_ms: int) -> int:
        """Forget producers that have been idle for `producer.id.expiration.ms`. Returns how many."""
        return self.producer_state.remove_expired(now_ms, self.producer_id_expiration_ms)

    # --- durability

    def flush(self) -> None:
        """Make everything appended before the call durable, and move the recovery point up to it.

        Blocks: for a worker. Raises StorageFailed; after a sync in vain the log takes no more appends, as the
        kernel may have dropped what it could not write.
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
                    raise StorageFailed(f"{self.name}: its leader epochs are not written: {error}") from error
                raise self._fail("flushing it failed", error) from error

    @property
    def recovery_point(self) -> int:
        """What lies below it is durable."""
        return self._flusher.recovery_point

    @property
    def last_flush_ms(self) -> int:
        return self._flusher.last_flush_ms

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Take on the topic's id, or check it against the one there.

        It is written down at once, and made durable with the next flush: Kafka takes a log that does not say
        whose it is for a stray, so no record may come before it. Raises InconsistentTopicId, OSError.
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
        """Obey new topic configs from the next append on."""
        self.config = config

    def rename_for_deletion(self, directory: Path) -> None:
        """The topic is deleted: no more appends; slices given out stay readable. Raises OSError.

        Flushes under way are told first: files they do not find are no failures then.
        """
        self.deleted = True
        self.failure = "the topic is deleted"
        self._files.rename(self.directory, directory)
        self.directory = directory

    def fail(self, reason: str) -> None:
        """Refuse appends and flushes for good."""
        self.failure, self.deleted = reason, True

    def close(self) -> None:
        """Complete the indexes, take a producer snapshot and flush: a clean stop. Raises StorageFailed."""
        if self.failure is not None:
            return
        self.failure = "it is closed"
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
