"""This node's copy of one partition, as its leader or a follower.

A replica joins a log on disk with its state in the cluster: the leader, its epoch and the high watermark. If
the partition has a single replica, a record is committed once it is appended, so the high watermark moves
with the log end offset, and the replica wakes the requests that wait for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from penstock.broker.partitions.commit_waiters import CommitWaiters, OnCommit
from penstock.broker.partitions.produce_checks import BatchChecks
from penstock.broker.partitions.purgatory import WaitList
from penstock.broker.partitions.replicated_partition import ReplicatedPartition
from penstock.metadata.image.topics import NO_LEADER
from penstock.protocol.batch import TRANSACTIONAL_MASK, check_batches, set_log_append_time
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import encode_end_txn_marker
from penstock.storage.producers.staged_append import Origin

if TYPE_CHECKING:
    from penstock.broker.partitions.replicated_partition import LeaderContext
    from penstock.broker.partitions.topic_settings import TopicSettings
    from penstock.metadata.image import PartitionRegistration
    from penstock.protocol.batch import BatchHeader
    from penstock.storage.partition.log import AppendInfo, Log
    from penstock.storage.producers.snapshot_format import SnapshotEntry
    from penstock.storage.producers.verification import Verification

LOG_APPEND_TIME = "LogAppendTime"
NO_EPOCH = -1
NEVER = 2**63 - 1


class Replica:
    """This node's copy of one partition."""

    __slots__ = (
        "_clock_ms",
        "_opened_at_bytes",
        "_unsynced",
        "appended_bytes",
        "batch_checks",
        "commit_waiters",
        "compression_levels",
        "config",
        "high_watermark",
        "is_leader",
        "isr_size",
        "leader_epoch",
        "leader_id",
        "log",
        "partition",
        "produce_responses",
        "replica_count",
        "replicated",
        "schema_rules",
        "stable_waiters",
        "stamps_append_time",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        log: Log,
        settings: TopicSettings,
        clock_ms: Callable[[], int],
        unsynced: dict[Log, None] | None = None,
        high_watermark: int | None = None,
    ) -> None:
        """Create the replica.

        `high_watermark` is the value from before the start, needed if the log's end may be uncommitted.
        """
        self._clock_ms = clock_ms
        self._unsynced = unsynced
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.log = log
        self.configure(settings)
        self.leader_epoch = NO_EPOCH
        self.leader_id = NO_LEADER
        self.is_leader = False
        self.isr_size = 1
        self.replica_count = 1
        self.high_watermark = log.log_end_offset
        if high_watermark is not None:
            self.high_watermark = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        log.producer_state.on_high_watermark(self.high_watermark)
        self.waiters = WaitList()
        self.stable_waiters = WaitList()
        """The fetches of `read_committed` clients; only bytes below the last stable offset count for them."""
        self.commit_waiters = CommitWaiters()
        """Its `passed` must be called last, whenever the high watermark of a leader has moved."""
        self.appended_bytes = 0
        self._opened_at_bytes = dict.fromkeys(log.producer_state.open_offsets, 0)
        """`appended_bytes` when each transaction began, by its first offset; the first of them is open."""
        self.replicated: ReplicatedPartition | None = None
        """It moves the high watermark if the partition has several replicas; None if it has one."""
        self.produce_responses: dict[int, tuple[bytes, bytes]] = {}
        """The bytes around the offsets of a successful produce response, by version; see `api.produce`."""

    def configure(self, settings: TopicSettings) -> None:
        """Apply these topic settings from now on."""
        self.config = settings.log
        self.compression_levels = settings.compression_levels
        self.schema_rules = settings.schema_rules
        self.batch_checks = BatchChecks(settings, self._clock_ms)
        self.stamps_append_time = settings.log.message_timestamp_type == LOG_APPEND_TIME
        self.log.update_config(settings.log)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which `read_committed` clients may read, before the first open transaction."""
        return self.log.last_stable_offset(self.high_watermark)

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Check that this node leads the partition in the client's leader epoch (KIP-320).

        Raises KafkaError if not.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def append(
        self,
        records: memoryview | bytearray,
        headers: list[BatchHeader],
        *,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        verification: Verification | None = None,
    ) -> AppendInfo:
        """Append as leader, and write the offsets into `records`, which must be writable. Raises KafkaError.

        `verification` allows the first batch of a transaction; see `begin_verification`.
        """
        if self.stamps_append_time:
            now_ms = self._clock_ms()
            headers = _stamp(records, headers, now_ms)
        info = self.log.append(
            records,
            headers,
            self.leader_epoch,
            origin=origin,
            transaction_version=transaction_version,
            verification=verification,
        )
        if not info.duplicate:
            size_bytes = len(records)
            self.appended_bytes += size_bytes
            if self._unsynced is not None:
                self._unsynced[self.log] = None
            if self.replicated is not None:
                self.replicated.appended(info.first_offset, size_bytes)
                return info
            self.high_watermark = self.log.log_end_offset
            if self.waiters.waiting:
                self.waiters.grown(size_bytes)
            if self._opened_at_bytes or headers[0].attributes & TRANSACTIONAL_MASK:
                self._follow_transactions(info.first_offset, size_bytes)
            elif self.stable_waiters.waiting:
                self.stable_waiters.grown(size_bytes)
        return info

    def _follow_transactions(self, first_offset: int, size_bytes: int) -> None:
        """Update the open transactions after an append, and wake fetches if the last stable offset moved."""
        state = self.log.producer_state
        state.on_high_watermark(self.high_watermark)
        opened = self._opened_at_bytes
        bytes_before = self.appended_bytes - size_bytes
        stable_before = next(iter(opened.values()), bytes_before)
        if state.is_opened_at(first_offset):
            opened[first_offset] = bytes_before
        undecided = state.first_undecided_offset
        while opened and (oldest := next(iter(opened))) != undecided:
            del opened[oldest]
        grown_bytes = next(iter(opened.values()), self.appended_bytes) - stable_before
        if grown_bytes:
            self.stable_waiters.grown(grown_bytes)

    def lead_or_follow(
        self, registration: PartitionRegistration, node_id: int, context: LeaderContext
    ) -> bool:
        """Become leader or follower as the metadata log says; return whether role or leader epoch changed."""
        is_leader = registration.leader == node_id
        changed = registration.leader_epoch != self.leader_epoch or is_leader != self.is_leader
        self.leader_epoch = registration.leader_epoch
        self.leader_id = registration.leader
        self.is_leader = is_leader
        self.isr_size = len(registration.isr)
        self.replica_count = len(registration.replicas)
        if changed and is_leader:
            self.log.leader_epochs.assign(registration.leader_epoch, self.log.log_end_offset)
        if self.replica_count > 1:
            if self.replicated is None:
                self.replicated = ReplicatedPartition(self, context)
            if is_leader:
                self.replicated.lead(registration)
            else:
                self.replicated.follow()
        elif self.replicated is not None:
            self._become_only_replica(self.replicated)
        if changed:
            self.wake_all()
        return changed

    def _become_only_replica(self, replicated: ReplicatedPartition) -> None:
        """Stop replicating, as all other replicas were removed: the leader's whole log is committed."""
        replicated.follow()
        if self.is_leader:
            replicated.commit(self.log.log_end_offset)
        self.replicated = None
        self._opened_at_bytes = dict.fromkeys(self.log.producer_state.open_offsets, self.appended_bytes)

    def note_unsynced(self) -> None:
        """Register the log for the next group commit, if acknowledgements wait for fsync."""
        if self._unsynced is not None:
            self._unsynced[self.log] = None

    def wake_all(self) -> None:
        """Wake all fetches for an event other than an append; a follower also fails its commit waiters."""
        self.waiters.changed()
        self.stable_waiters.changed()
        if self.replicated is not None:
            self.replicated.wake_followers()
        if not self.is_leader:
            self.commit_waiters.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def when_committed(self, end_offset: int, then: OnCommit) -> None:
        """Call `then` once everything below `end_offset` is committed, at once if it already is.

        If this node stops leading first, `then` is called with NOT_LEADER_OR_FOLLOWER. There is no timeout;
        the caller sets its own.
        """
        if not self.is_leader:
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self.high_watermark >= end_offset:
            then(ErrorCode.NONE)
        else:
            self.commit_waiters.wait(end_offset, then)

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int,
    ) -> AppendInfo:
        """End the producer's transaction here, if one is open. Raises KafkaError.

        The marker is written even if no transaction is open: the coordinator may repeat it after a crash.
        """
        self.check_leader()
        self.check_enough_replicas()
        marker = encode_end_txn_marker(
            committed=committed,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._clock_ms(),
        )
        batch = bytearray(marker)
        return self.append(
            batch, check_batches(batch), origin=Origin.COORDINATOR, transaction_version=transaction_version
        )

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool
    ) -> Verification | None:
        """Begin the verification that this batch of a transaction needs before its append, if any.

        Raises KafkaError INVALID_PRODUCER_EPOCH.
        """
        return self.log.producer_state.begin_verification(
            producer_id, epoch, sequence, supports_epoch_bump, self._clock_ms()
        )

    def active_producers(self) -> Iterator[SnapshotEntry]:
        """The state of each producer that the log currently knows."""
        return (entry.to_snapshot() for entry in list(self.log.producer_state.producers.values()))

    @property
    def flushes_by_count(self) -> bool:
        """Whether an acknowledgement may have to wait for a flush because of `flush.messages`."""
        return self.config.flush_messages != NEVER

    def flush_if_due(self, flush: Callable[[Log], Awaitable[object]]) -> Awaitable[object] | None:
        """Start the fsync that `flush.messages` or `penstock.acks.fsync` requires; None if none is due."""
        unflushed = self.log.log_end_offset - self.log.recovery_point
        if not unflushed or (self._unsynced is None and unflushed < self.config.flush_messages):
            return None
        return flush(self.log)

    def check_enough_replicas(self) -> None:
        """Check `min.insync.replicas` for acks=all, capped at the partition's number of replicas.

        Raises KafkaError NOT_ENOUGH_REPLICAS.
        """
        if self.isr_size < min(self.config.min_insync_replicas, self.replica_count):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def check_enough_replicas_after_append(self) -> ErrorCode:
        """Check `min.insync.replicas` again once the records of an acks=all request are committed.

        Returns NONE if there are enough replicas.
        """
        leading = None if self.replicated is None else self.replicated.leading
        if leading is None or len(leading.maximal_isr) >= leading.effective_min_isr(
            self.config.min_insync_replicas
        ):
            return ErrorCode.NONE
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def epoch_of(self, offset: int) -> int:
        """The leader epoch in which the record at `offset` was written; -1 if unknown."""
        return self.log.leader_epochs.epoch_for(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch` and its end offset; (-1, -1) if unknown."""
        return self.log.end_offset_for_epoch(epoch)


def _stamp(records: memoryview | bytearray, headers: list[BatchHeader], now_ms: int) -> list[BatchHeader]:
    """Write the append time into each header, for LogAppendTime; the records stay unchanged."""
    stamped = []
    position = 0
    for header in headers:
        stamped.append(set_log_append_time(records, header, now_ms, position))
        position += header.size_bytes
    return stamped
