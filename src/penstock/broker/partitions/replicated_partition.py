"""A replica's state beside its log if its partition has several replicas: followers or leader, and waiters.

The module connects the pure parts to the replica. It moves offsets and wakes the requests that wait for that.
A partition with one replica has none of this state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.partitions.commit_waiters import CommitWaiters
from penstock.broker.partitions.leadership import Brokers, IsrProposal, Leadership
from penstock.broker.partitions.purgatory import WaitList
from penstock.broker.partitions.readable import Uncommitted
from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.partitions.fetch_target import FetchTarget
    from penstock.metadata.image import PartitionRegistration
    from penstock.protocol.batch import BatchHeader, Buffer
    from penstock.storage.config import LogConfig
    from penstock.storage.partition.log import Log


class LeaderContext(Protocol):
    """The parts of the node that a leader needs."""

    @property
    def node_id(self) -> int: ...
    @property
    def brokers(self) -> Brokers: ...
    @property
    def lag_time_max_ms(self) -> int: ...
    def now_ms(self) -> float:
        """The time of a monotonic clock."""

    def alter(self, partition: ReplicatedPartition, proposal: IsrProposal) -> None:
        """Send a proposal to the controller; `accepted` or `refused` takes its answer."""


class LocalReplica(Protocol):
    """The replica on this node that the state belongs to, which `Replica` implements."""

    topic: str
    topic_id: bytes
    partition: int
    log: Log
    config: LogConfig
    appended_bytes: int
    high_watermark: int
    isr_size: int
    leader_epoch: int
    leader_id: int
    waiters: WaitList
    """Fetches that wait for the high watermark to move."""
    stable_waiters: WaitList
    """Fetches that wait for the last stable offset to move."""
    commit_waiters: CommitWaiters

    def note_unsynced(self) -> None:
        """Take note that the log has records that are not synced."""

    def wake_all(self) -> None:
        """Wake all requests that wait for this replica."""


class Watcher(Protocol):
    """The session of a follower that watches this partition."""

    broker_id: int
    followed_ms: float
    """When the latest answer was sent that the follower has followed up with another fetch."""
    fresh: dict[FetchTarget, None]
    """The partitions to read for the next answer."""

    def appended(self, target: FetchTarget, partition: ReplicatedPartition, size_bytes: int) -> None:
        """Report that the leader has appended `size_bytes` bytes."""

    def changed(self, target: FetchTarget) -> None:
        """Report a change that the follower must learn of at once."""


class ReplicatedPartition:
    """The replication state of one replica. It belongs to the event loop, as the replica does."""

    __slots__ = (
        "_context",
        "_opened_at_bytes",
        "_stable_bytes",
        "_uncommitted",
        "leading",
        "log_end_waiters",
        "low_watermark_waiters",
        "replica",
        "watchers",
    )

    def __init__(self, replica: LocalReplica, context: LeaderContext) -> None:
        self._context = context
        self.replica = replica
        self.leading: Leadership | None = None
        self.log_end_waiters = WaitList()
        """Followers without a session, which read to the log's end."""
        self.watchers: dict[FetchTarget, Watcher] = {}
        """Followers' sessions to notify of changes here, by the target that each one fetches."""
        self.low_watermark_waiters = CommitWaiters()
        """DeleteRecords requests that wait until all live replicas start at their offset."""
        self._uncommitted = Uncommitted(replica.appended_bytes)
        self._stable_bytes = replica.appended_bytes
        self._opened_at_bytes = dict.fromkeys(replica.log.producer_state.open_offsets, replica.appended_bytes)
        """The bytes appended before each transaction that is open or whose marker is not committed, by the
        transaction's first offset."""

    # --- leading

    def lead(self, registration: PartitionRegistration) -> None:
        """Start or continue to lead the partition, as the metadata log says."""
        context, replica = self._context, self.replica
        is_new_leader = self.leading is None
        if self.leading is None:
            self.leading = Leadership(context.node_id, context.brokers, context.lag_time_max_ms)
        self.leading.update(
            registration, replica.log.log_end_offset, context.now_ms(), is_new_leader=is_new_leader
        )
        self._isr_changed()

    def follow(self) -> None:
        """Stop leading: another node leads, or none."""
        self.leading = None
        self.wake_followers()
        self.low_watermark_waiters.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def appended(self, first_offset: int, size_bytes: int) -> None:
        """Take note that the leader has appended a batch."""
        replica = self.replica
        self._uncommitted.appended(replica.log.log_end_offset, replica.appended_bytes)
        if replica.log.producer_state.is_opened_at(first_offset):
            self._opened_at_bytes[first_offset] = replica.appended_bytes - size_bytes
        if self.log_end_waiters.waiting:
            self.log_end_waiters.grown(size_bytes)
        for target, changes in self.watchers.items():
            changes.appended(target, self, size_bytes)
        if self.leading is not None and self.leading.is_alone:
            self.advance()

    def wake_followers(self) -> None:
        """Notify followers at once of a change other than an append."""
        self.log_end_waiters.changed()
        for target, changes in self.watchers.items():
            changes.changed(target)

    def _notify_followers(self) -> None:
        """Have the next answer to each follower include this partition."""
        for target, changes in self.watchers.items():
            changes.fresh[target] = None

    def fetched(
        self, broker_id: int, fetch_offset: int, log_start_offset: int, leader_end_offset: int, epoch: int
    ) -> None:
        """Take note of a follower's fetch: it has all records below `fetch_offset`.

        `epoch` is the epoch of its broker. Raises KafkaError if the fetch is from before the broker's last
        registration.
        """
        leading = self.leading
        assert leading is not None, "followers fetch from the leader"
        leading.check_broker_epoch(broker_id, epoch)
        follower = leading.followers[broker_id]
        before = (follower.log_end_offset, follower.log_start_offset)
        follower.fetched(fetch_offset, log_start_offset, leader_end_offset, epoch, self._context.now_ms())
        if broker_id not in leading.isr:
            proposal = leading.propose_join(follower, self.replica.high_watermark)
            if proposal is not None:
                self._context.alter(self, proposal)
        if fetch_offset != before[0]:
            self.advance()
        if log_start_offset != before[1] and len(self.low_watermark_waiters):
            self.low_watermark_waiters.passed(self.low_watermark)

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of all live replicas; on a follower, this replica's own."""
        log_start_offset = self.replica.log.log_start_offset
        return log_start_offset if self.leading is None else self.leading.low_watermark(log_start_offset)

    def is_surely_leader(self, silence_max_ms: float) -> bool:
        """Whether every replica that could have been elected has followed this leader recently.

        A node that stood still or is cut off still considers itself the leader when others have elected a
        successor.
        """
        leading = self.leading
        if leading is None:
            return False
        followed = dict.fromkeys(leading.isr, leading.since_ms)
        followed.pop(self._context.node_id, None)
        for changes in self.watchers.values():
            if changes.broker_id in followed:
                followed[changes.broker_id] = max(followed[changes.broker_id], changes.followed_ms)
        since_ms = self._context.now_ms() - silence_max_ms
        return all(followed_ms >= since_ms for followed_ms in followed.values())

    def brokers_changed(self) -> None:
        """Recompute the watermarks, since fenced brokers do not hold them back but unfenced ones do."""
        self.advance()
        if len(self.low_watermark_waiters):
            self.low_watermark_waiters.passed(self.low_watermark)

    def shrink_if_lagging(self) -> None:
        """Propose to remove followers from the ISR that have lagged too long. To be called at intervals."""
        if self.leading is not None:
            self.advance()  # it also considers followers outside the ISR that may lag too long by now
            proposal = self.leading.propose_leave(self.replica.log.log_end_offset, self._context.now_ms())
            if proposal is not None:
                self._context.alter(self, proposal)

    def accepted(
        self, proposal: IsrProposal, isr: list[int], leader_epoch: int, partition_epoch: int
    ) -> bool:
        """Take the controller's answer to a proposal and return whether it was new."""
        leading = self.leading
        if leading is None or not leading.accepted(proposal, isr, leader_epoch, partition_epoch):
            return False
        self._isr_changed()
        return True

    def refused(self, proposal: IsrProposal, error: ErrorCode) -> bool:
        """Take the controller's refusal of a proposal and return whether to send it again."""
        return self.leading is not None and self.leading.refused(proposal, error)

    def _isr_changed(self) -> None:
        assert self.leading is not None
        self.replica.isr_size = len(self.leading.isr)
        self._notify_followers()
        self.advance()

    def advance(self) -> None:
        """Move the high watermark as far as the followers allow."""
        replica, leading = self.replica, self.leading
        if leading is not None:
            offset = leading.high_watermark(
                replica.log.log_end_offset, replica.config.min_insync_replicas, self._context.now_ms()
            )
            if offset > replica.high_watermark:
                self.commit(offset)

    def commit(self, high_watermark: int) -> None:
        """Move the high watermark to the offset and wake all requests that wait for that."""
        replica = self.replica
        replica.high_watermark = high_watermark
        replica.log.producer_state.on_high_watermark(high_watermark)
        self._notify_followers()
        grown_bytes = self._uncommitted.committed(high_watermark)
        if replica.waiters.waiting:
            replica.waiters.grown(max(grown_bytes, 1))  # the log's content at its opening counts as 0 bytes
        self._stable_moved()
        if len(replica.commit_waiters):
            replica.commit_waiters.passed(high_watermark)

    def _stable_moved(self) -> None:
        """Move the last stable offset if it follows the high watermark."""
        replica, opened = self.replica, self._opened_at_bytes
        stable_bytes = committed_bytes = self._uncommitted.committed_bytes
        unstable = replica.log.producer_state.first_unstable_offset(replica.high_watermark)
        if unstable is None:
            opened.clear()
        else:
            while opened and (oldest := next(iter(opened))) < unstable:
                del opened[oldest]
            stable_bytes = min(opened.get(unstable, committed_bytes), committed_bytes)
        grown_bytes = stable_bytes - self._stable_bytes
        self._stable_bytes = max(self._stable_bytes, stable_bytes)
        if replica.stable_waiters.waiting and (grown_bytes > 0 or unstable is None):
            replica.stable_waiters.grown(max(grown_bytes, 1))

    # --- following

    def append_as_follower(self, records: Buffer, headers: list[BatchHeader]) -> None:
        """Append the leader's batches unchanged. Raises LogError."""
        replica = self.replica
        before_bytes, size_bytes = replica.appended_bytes, len(records)
        replica.log.append_as_follower(records, headers)
        replica.appended_bytes = before_bytes + size_bytes
        self._uncommitted.appended(replica.log.log_end_offset, replica.appended_bytes)
        for first_offset in replica.log.producer_state.open_offsets:
            self._opened_at_bytes.setdefault(first_offset, before_bytes)
        replica.note_unsynced()

    def follow_offsets(self, leader_high_watermark: int, leader_log_start_offset: int) -> None:
        """Adopt the leader's high watermark and log start offset, as far as the log reaches.

        The high watermark does not move back for a new leader that does not know its own yet. Raises
        LogError.
        """
        replica = self.replica
        log = replica.log
        high_watermark = min(leader_high_watermark, log.log_end_offset)
        if high_watermark > replica.high_watermark:
            self.commit(high_watermark)
        if leader_log_start_offset > log.log_start_offset:
            log.delete_records_before(min(leader_log_start_offset, log.log_end_offset))
            self._keep_in_log()
            replica.wake_all()

    def truncate_to(self, offset: int) -> None:
        """Discard the records that the leader does not have. Blocks for some syncs. Raises LogError."""
        replica = self.replica
        if offset >= replica.log.log_end_offset:
            replica.log.truncate_to(offset)
            return
        replica.log.truncate_to(offset)
        self._truncated()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Discard all records and restart the log at the leader's log start. Blocks. Raises LogError."""
        self.replica.log.truncate_fully_and_start_at(offset)
        self._truncated()

    def _truncated(self) -> None:
        replica = self.replica
        self._uncommitted.truncated(replica.log.log_end_offset)
        still_open = set(replica.log.producer_state.open_offsets)
        self._opened_at_bytes = {
            offset: before for offset, before in self._opened_at_bytes.items() if offset in still_open
        }
        self._keep_in_log()
        replica.wake_all()

    def _keep_in_log(self) -> None:
        """Clamp the high watermark to the log's bounds after they have moved."""
        replica = self.replica
        log = replica.log
        replica.high_watermark = max(log.log_start_offset, min(replica.high_watermark, log.log_end_offset))
        log.producer_state.on_high_watermark(replica.high_watermark)
