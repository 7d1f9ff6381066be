"""The log of one partition.

**What may run where.** One thread, the broker's event loop, owns a log: `append`, `roll`, `truncate_to`,
`truncate_fully_and_start_at`, `delete_records_before`, `delete_old_segments`, `replace_segments`,
`update_config` and the producer state are its own. `read`, `offset_for_timestamp`, `max_timestamp_offset`,
`end_offset_for_epoch` and `aborted_transactions` may run in any thread beside it. `check`, `flush` and
`remove_deleted_files`, which block, belong into worker threads. `open` and `close` run while nobody else
uses the log.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from penstock.protocol.batch import (
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    CorruptBatch,
    MalformedRecords,
    assign_offsets,
)
from penstock.storage import partition_metadata, retention, timestamps
from penstock.storage.compaction.cleaned_segment import CleanedSegment
from penstock.storage.compaction.errors import CleaningAborted
from penstock.storage.config import LogConfig
from penstock.storage.errors import (
    CorruptLog,
    InconsistentTopicId,
    MessageTooLarge,
    OffsetOutOfRange,
    RecordListTooLarge,
    StorageFailed,
)
from penstock.storage.files import REAL_FILES, FileSystem
from penstock.storage.leader_epochs import EpochEntry, LeaderEpochs
from penstock.storage.log_hooks import LogHooks
from penstock.storage.names import TopicPartition
from penstock.storage.producer_state import Origin, ProducerState, StagedAppend
from penstock.storage.recovery import LogLoader, rebuild_producers
from penstock.storage.segment import Segment
from penstock.storage.segment_file import FileSlice
from penstock.storage.segments import Segments
from penstock.storage.slice_check import sound_end
from penstock.storage.timestamps import TimestampAndOffset
from penstock.storage.transaction_index import AbortedTransaction
from penstock.storage.transactions import aborted_transactions, note_append
from penstock.storage.verification import NOT_REQUIRED, Verification

logger = logging.getLogger(__name__)

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
DAMAGES_TOLD_MAX: Final = 100


class AppendInfo(NamedTuple):
    """Where an append went. A duplicate tells where its first try went, and when."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


# A NamedTuple's own constructor costs three times as much, and every append makes one.
_new_tuple = tuple.__new__


class Log:
    """Append-only batches of one partition in segments, with their indexes and producers; see `open`."""

    def __init__(
        self,
        loader: LogLoader,
        clock: Callable[[], int],
        hooks: LogHooks,
    ) -> None:
        segments, end_offset = loader.load()
        self.directory = loader.directory
        self.name = loader.name
        self.config = loader.config
        self.log_start_offset = loader.log_start_offset
        self.log_end_offset = end_offset
        self.recovery_point = end_offset if loader.clean else min(loader.recovery_point, end_offset)
        self.leader_epochs = loader.leader_epochs
        self.producer_state = loader.producer_state
        self.topic_id = partition_metadata.topic_id_or_none(loader.directory)
        self._topic_id_unsynced = False
        self.failure: str | None = None  # why appends are refused
        self.closed = False  # by `close`, cleanly
        self.deleted = False
        self.last_flush_ms = clock()
        self._rng = loader.rng
        self.producer_id_expiration_ms = loader.producer_id_expiration_ms
        self._clock = clock
        self._files = loader.files
        self._hooks = hooks
        self._flush_lock = threading.Lock()
        self._directory_changed = True
        self._parent_changed = False  # the directory itself is new, or was to a process that was killed
        self._damages_told: set[str] = set()
        self._deleted_files: list[tuple[int, list[Path]]] = []
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
        )
        log = cls(loader, clock, hooks or LogHooks())
        log._parent_changed = is_new or not clean
        return log

    def _install(self, segments: Segments) -> None:
        """Make `segments` the log's, and the last of them the one that is appended to."""
        (active := segments.active).prepare_for_appends()
        self._segments = segments
        # end offset, active segment, its size: replaced in one go, for readers in other threads
        self._tail = (self.log_end_offset, active, active.size)

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
        first_offset, segment, _ = self._tail
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
        self._tail = (next_offset, segment, segment.size)
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
        logger.error("%s: writing to %s failed: %s", self.name, segment.file.path, error)
        try:
            segment.undo_write()
        except OSError as second:
            return self._fail(f"a failed write could not be taken back ({second})", error)
        self._hooks.io_error(self, error)
        return StorageFailed(f"{self.name}: writing to {segment.file.path} failed: {error}")

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
        old = self._segments.active
        if old.base_offset == base_offset:
            return old
        try:
            old.finish()
            self.producer_state.end_offset = base_offset
            self.producer_state.take_snapshot()
            segment = self._create_segment(base_offset)
        except OSError as error:
            logger.error("%s: no new segment at offset %d: %s", self.name, base_offset, error)
            try:
                Segment.remove_files(self.directory, base_offset, self._files)
            except OSError as second:
                raise self._fail(f"a failed roll could not be taken back ({second})", error) from error
            self._hooks.io_error(self, error)
            raise StorageFailed(f"{self.name}: no new segment at offset {base_offset}: {error}") from error
        self._install(self._segments.with_roll(segment))
        self._directory_changed = True
        self._hooks.wants_flush(self)
        return segment

    def _create_segment(self, base_offset: int) -> Segment:
        return Segment.create(
            self.directory, base_offset, self.config, self._files, now_ms=self._clock(), rng=self._rng
        )

    # --- reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        min_one_batch: bool = True,
        up_to_offset: int | None = None,
        wait: bool = True,
    ) -> FileSlice | None:
        """Whole batches from the one that holds `offset` on, below `up_to_offset`, of one segment.

        At most `max_bytes`, but the first batch whole with `min_one_batch`. None where there is nothing to
        read yet. The first batch may begin below `offset`: readers skip its first records. Raises
        OffsetOutOfRange outside [log start, log end], CorruptLog, StorageFailed; without `wait`
        BlockingIOError where finding the place would have to wait for the disk.
        """
        end_offset, active, end_position = self._tail
        if not self.log_start_offset <= offset <= end_offset:
            raise OffsetOutOfRange(
                f"{self.name}: offset {offset} is outside of the log, {self.log_start_offset} to {end_offset}"
            )
        if up_to_offset is None or up_to_offset > end_offset:
            up_to_offset = end_offset
        if offset >= up_to_offset:
            return None
        segments = self._segments
        candidates = (active,) if offset >= active.base_offset else segments.from_offset(offset)
        try:
            for segment in candidates:
                limit = end_position if segment is active else segment.size
                if up_to_offset < end_offset:
                    position = segment.position_of(up_to_offset, limit, wait=wait)
                    limit = limit if position is None else position
                position = segment.position_of(offset, limit, wait=wait)
                if position is not None:
                    found = segment.slice(position, limit, max_bytes, min_one_batch=min_one_batch, wait=wait)
                    found.segments = segments
                    if segment is not active and limit == segment.size:
                        found.is_old = True
                    return found if found.size else None
                if segment is active:
                    break
        except CorruptBatch as error:
            raise self._corrupt(f"{self.name}, offset {offset}, {segment.file.path}: {error}") from error
        except BlockingIOError:
            raise
        except OSError as error:
            raise StorageFailed(f"{self.name}: reading {segment.file.path} failed: {error}") from error
        return None

    def check(self, found: FileSlice, offset: int) -> None:
        """Read a slice for `offset` that isn't ready to be sent, check it, and cut it before any damage.

        Blocks: for a worker. Raises CorruptLog where its first batch is damaged, StorageFailed.
        """
        try:
            sound_to, damage = sound_end(found)
        except OSError as error:
            raise StorageFailed(f"{self.name}: reading {found.file.path} failed: {error}") from error
        if damage is not None and sound_to < found.position + found.size:
            corrupt = self._corrupt(f"{self.name}, read for offset {offset}, {found.file.path}: {damage}")
            if sound_to <= found.position:
                raise corrupt from damage
        found.cut_to_sound(sound_to)

    def _corrupt(self, damage: str) -> CorruptLog:
        """The error to raise; logged once, however often clients ask."""
        if damage not in self._damages_told and len(self._damages_told) < DAMAGES_TOLD_MAX:
            self._damages_told.add(damage)
            logger.error("corrupt log: %s", damage)
        return CorruptLog(damage)

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record at or after `timestamp` (milliseconds), None where there is none.

        Decodes one batch. Raises CorruptLog, StorageFailed.
        """
        start = self.log_start_offset
        return self._by_time(
            lambda: timestamps.first_at_or_after(self._segments.from_offset(start), timestamp, start)
        )

    def max_timestamp_offset(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp, None where no record has one (KIP-734)."""
        return self._by_time(
            lambda: timestamps.latest_timestamp(self._segments.from_offset(self.log_start_offset))
        )

    def _by_time(self, find: Callable[[], TimestampAndOffset | None]) -> TimestampAndOffset | None:
        segments = self._segments
        try:
            return find()
        except FileNotFoundError as error:
            if self._segments is not segments:
                return self._by_time(find)  # retention took a segment out meanwhile
            raise StorageFailed(f"{self.name}: reading by time failed: {error}") from error
        except (CorruptBatch, MalformedRecords) as error:
            raise self._corrupt(f"{self.name}: {error}") from error
        except OSError as error:
            raise StorageFailed(f"{self.name}: reading by time failed: {error}") from error

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """(largest epoch at or below `epoch`, its end offset), (-1, -1) where unknown (KIP-101)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is decided: where a `read_committed` reader must stop."""
        unstable = self.producer_state.first_unstable_offset(high_watermark)
        if unstable is None:
            return high_watermark
        return min(max(unstable, self.log_start_offset), high_watermark)

    def aborted_transactions(
        self, start_offset: int, up_to_offset: int, found: FileSlice | None = None
    ) -> list[AbortedTransaction]:
        """The aborted transactions that have records in [start, up to), or in what was `found` there.

        Raises CorruptLog, StorageFailed.
        """
        try:
            return aborted_transactions(self._segments, start_offset, up_to_offset, found)
        except ValueError as error:
            raise self._corrupt(f"{self.name}: {error}") from error
        except OSError as error:
            raise StorageFailed(f"{self.name}: reading aborted transactions failed: {error}") from error

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Segments:
        return self._segments

    # --- cutting

    def truncate_to(self, offset: int) -> None:
        """Drop all records at or above `offset`, for good. Blocks for some syncs. Raises StorageFailed."""
        if offset >= self.log_end_offset:
            return
        if offset < self._segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        dropped = [s for s in self._segments if s.base_offset > offset]
        kept = self._segments.without(dropped)
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
            self._drop(list(self._segments)[::-1])
            self._files.sync_directory(self.directory)
            segment = self._create_segment(offset)
            self.leader_epochs.clear()
            self.producer_state.remove_snapshots_above(-1)
            self.log_start_offset = offset
            self._restart_at(offset, Segments([segment]))

    @contextmanager
    def _truncating(self, offset: int) -> Iterator[None]:
        """No flush meanwhile, and no recovery point above `offset`; what fails ends appends."""
        logger.info("%s: truncating to offset %d", self.name, offset)
        with self._flush_lock:
            self.recovery_point = min(self.recovery_point, offset)
            try:
                self._hooks.truncated(self, offset)
                yield
            except OSError as error:
                raise self._fail(f"truncating it to offset {offset} failed", error) from error

    def _restart_at(self, offset: int, segments: Segments) -> None:
        """Let the log end at `offset`, with all that follows from its end."""
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._directory_changed = True
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
        self.log_start_offset = offset
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
            self._segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self.log_end_offset if high_watermark is None else high_watermark,
            now_ms=now_ms,
        )
        if not deletable:
            return 0
        if len(deletable) == len(self._segments):
            self._roll(self.log_end_offset)
        remaining = self._segments.without(deletable)
        self._start_at(max(self.log_start_offset, remaining.first.base_offset))
        self._segments = remaining
        try:
            self._drop(deletable)
        except OSError as error:
            raise self._fail("deleting old segments failed", error) from error
        return len(deletable)

    def replace_segments(self, replaced: Sequence[Segment], cleaned: CleanedSegment) -> None:
        """Take in a compacted segment in place of those it was made from; slices given out stay readable.

        Raises CleaningAborted where they aren't the log's any more, StorageFailed.
        """
        if self.failure is not None or not set(replaced) <= set(self._segments):
            raise CleaningAborted(f"{self.name}: the segments of {cleaned.base_offset} are gone")
        try:
            self._drop(replaced, snapshots_of=replaced[1:])  # the first one's base offset stays one
            cleaned.put_in_place()
        except OSError as error:
            raise self._fail("putting a compacted segment in place failed", error) from error
        self._segments = self._segments.with_replaced(replaced, cleaned.to_segment(self._rng))
        self._hooks.wants_flush(self)

    def _drop(self, segments: Sequence[Segment], snapshots_of: Sequence[Segment] | None = None) -> None:
        """Rename the files of `segments` and hand them over to `remove_deleted_files`. Raises OSError."""
        paths = [path for segment in segments for path in segment.mark_deleted()]
        for segment in segments if snapshots_of is None else snapshots_of:
            paths += self.producer_state.mark_snapshot_deleted(segment.base_offset)
        if paths:
            self._deleted_files.append((self._clock() + self.config.file_delete_delay_ms, paths))
            self._directory_changed = True

    def remove_deleted_files(self, now_ms: int) -> None:
        """Remove the files whose `file.delete.delay.ms` is over. Blocks: for a worker. Raises OSError."""
        while self._deleted_files and self._deleted_files[0][0] <= now_ms:
            for path in self._deleted_files[0][1]:
                self._files.remove_if_exists(path)
            del self._deleted_files[0]

    def remove_expired_producers(self, now_ms: int) -> int:
        """Forget producers that have been idle for `producer.id.expiration.ms`. Returns how many."""
        return self.producer_state.remove_expired(now_ms, self.producer_id_expiration_ms)

    # --- durability

    def flush(self) -> None:
        """Make everything appended before the call durable, and move the recovery point up to it.

        Blocks: for a worker. Raises StorageFailed; the log then takes no more appends, as the kernel may
        have dropped what it could not write.
        """
        with self._flush_lock:
            if self.deleted:
                return
            end_offset = self.log_end_offset
            segments = self._segments
            try:
                # From one below: a segment that was active when it was flushed last has indexes to sync.
                for segment in segments.from_offset(self.recovery_point - 1):
                    segment.sync(finished=segment is not segments.active)
                self.producer_state.sync_snapshots()
                if self.deleted:
                    return  # its old directory's name may be another log's by now
                self.leader_epochs.flush()
                if self._topic_id_unsynced:
                    self._files.sync_path(self.directory / partition_metadata.FILE_NAME)
                    self._topic_id_unsynced = False
                if self._directory_changed:
                    self._directory_changed = False
                    self._files.sync_directory(self.directory)
                if self._parent_changed:
                    self._files.sync_directory(self.directory.parent)
                    self._parent_changed = False
            except OSError as error:
                if self.deleted:
                    return
                raise self._fail("flushing it failed", error) from error
            self.recovery_point = min(max(self.recovery_point, end_offset), self.log_end_offset)
            self.last_flush_ms = self._clock()

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Take on the topic's id, or check it against the one there.

        It is written down at once, and made durable with the next flush: Kafka takes a log that does not say
        whose it is for a stray, so no record may come before it. Raises InconsistentTopicId, OSError.
        """
        if self.topic_id is None:
            partition_metadata.write_topic_id(self._files, self.directory, topic_id)
            self.topic_id = topic_id
            self._topic_id_unsynced = self._directory_changed = True
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
            self._segments.active.finish()
            self._segments.active.sync(finished=True)
            self.producer_state.take_snapshot()
            self._directory_changed = True
        except OSError as error:
            raise self._fail("closing it failed", error) from error
        self.flush()
        self.closed = True

    def __repr__(self) -> str:
        return f"Log({self.name}, {self.log_start_offset} to {self.log_end_offset})"
