"""What a replica has beside its log where its partition has several: followers or a leader, and who waits.

It joins the pure parts to the replica: offsets move here, and whoever waits for that hears of it. A partition
with one replica has none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.commit_waiters import CommitWaiters
from penstock.broker.purgatory import WaitList
from penstock.broker.replication.leadership import Brokers, IsrProposal, Leadership
from penstock.broker.replication.readable import Uncommitted
from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.fetch_session import FetchTarget
    from penstock.broker.replica import Replica
    from penstock.broker.replication.session_news import SessionNews
    from penstock.metadata.image import PartitionRegistration
    from penstock.protocol.batch import BatchHeader, Buffer


class LeaderContext(Protocol):
    """What leading takes from the node."""

    @property
    def node_id(self) -> int: ...
    @property
    def brokers(self) -> Brokers: ...
    @property
    def lag_time_max_ms(self) -> int: ...
    def now_ms(self) -> float:
        """A clock that never goes back."""

    def alter(self, partition: ReplicatedPartition, proposal: IsrProposal) -> None:
        """Carry a proposal to the controller; its answer comes to `accepted` or `refused`."""


class ReplicatedPartition:
    """Belongs to the event loop, as the replica does."""

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

    def __init__(self, replica: Replica, context: LeaderContext) -> None:
        self._context = context
        self.replica = replica
        self.leading: Leadership | None = None
        self.log_end_waiters = WaitList()
        """Followers without a session, who read to the log's end."""
        self.watchers: dict[FetchTarget, SessionNews] = {}
        """Sessions of followers that have to hear of news here, by what each asks for."""
        self.low_watermark_waiters = CommitWaiters()
        """DeleteRecords, until all live replicas start where it said."""
        self._uncommitted = Uncommitted(replica.appended_bytes)
        self._stable_bytes = replica.appended_bytes
        self._opened_at_bytes = dict.fromkeys(replica.log.producer_state.open_offsets, replica.appended_bytes)
        """By first offset of each transaction that is open, or whose marker is not committed, how many bytes
        had been appended before it."""

    # --- leading

    def lead(self, registration: PartitionRegistration) -> None:
        """Lead the partition, or go on leading it, as the metadata log says."""
        context, replica = self._context, self.replica
        is_new_leader = self.leading is None
        if self.leading is None:
            self.leading = Leadership(context.node_id, context.brokers, context.lag_time_max_ms)
        self.leading.update(
            registration, replica.log.log_end_offset, context.now_ms(), is_new_leader=is_new_leader
        )
        self._isr_changed()

    def follow(self) -> None:
        """Another node leads, or none."""
        self.leading = None
        self.wake_followers()
        self.low_watermark_waiters.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def appended(self, first_offset: int, size_bytes: int) -> None:
        """The leader has appended a batch."""
        replica = self.replica
        self._uncommitted.appended(replica.log.log_end_offset, replica.appended_bytes)
        if replica.log.producer_state.is_opened_at(first_offset):
            self._opened_at_bytes[first_offset] = replica.appended_bytes - size_bytes
        if self.log_end_waiters.waiting:
            self.log_end_waiters.grown(size_bytes)
        for target, news in self.watchers.items():
            news.appended(target, self, size_bytes)
        if self.leading is not None and self.leading.is_alone:
            self.advance()

    def wake_followers(self) -> None:
        """Something else than an append has happened that followers must hear at once."""
        self.log_end_waiters.changed()
        for target, news in self.watchers.items():
            news.changed(target)

    def _tell_followers(self) -> None:
        """Have followers hear of news with what they are answered next."""
        for target, news in self.watchers.items():
            news.fresh[target] = None

    def fetched(
        self, broker_id: int, fetch_offset: int, log_start_offset: int, leader_end_offset: int, epoch: int
    ) -> None:
        """A follower fetches: it has all below `fetch_offset`. `epoch` is its broker's.

        Raises KafkaError where its fetch is from before its last registration.
        """
        leading = self.leading
        assert leading is not None, "who follows fetches from the leader"
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
        """Where the last of all live replicas starts; this one's start where it does not lead."""
        log_start_offset = self.replica.log.log_start_offset
        return log_start_offset if self.leading is None else self.leading.low_watermark(log_start_offset)

    def is_surely_leader(self, silence_max_ms: float) -> bool:
        """Whether every replica that could have been elected has followed this one a moment ago.

        A node that stood still, or is cut off, leads on in its own eyes when others have elected a successor.
        """
        leading = self.leading
        if leading is None:
            return False
        followed = dict.fromkeys(leading.isr, leading.since_ms)
        followed.pop(self._context.node_id, None)
        for news in self.watchers.values():
            if news.broker_id in followed:
                followed[news.broker_id] = max(followed[news.broker_id], news.followed_ms)
        since_ms = self._context.now_ms() - silence_max_ms
        return all(followed_ms >= since_ms for followed_ms in followed.values())

    def brokers_changed(self) -> None:
        """A broker was fenced or came back: who waits for it need not, or has to."""
        self.advance()
        if len(self.low_watermark_waiters):
            self.low_watermark_waiters.passed(self.low_watermark)

    def shrink_if_lagging(self) -> None:
        """Propose to put out of the ISR who has lagged too long. To be called at intervals."""
        if self.leading is not None:
            self.advance()  # who was waited for outside of the ISR may have lagged too long as well
            proposal = self.leading.propose_leave(self.replica.log.log_end_offset, self._context.now_ms())
            if proposal is not None:
                self._context.alter(self, proposal)

    def accepted(
        self, proposal: IsrProposal, isr: list[int], leader_epoch: int, partition_epoch: int
    ) -> bool:
        """The controller's answer to a proposal; whether it was news."""
        leading = self.leading
        if leading is None or not leading.accepted(proposal, isr, leader_epoch, partition_epoch):
            return False
        self._isr_changed()
        return True

    def refused(self, proposal: IsrProposal, error: ErrorCode) -> bool:
        """The controller's refusal of a proposal; whether to send it again."""
        return self.leading is not None and self.leading.refused(proposal, error)

    def _isr_changed(self) -> None:
        assert self.leading is not None
        self.replica.isr_size = len(self.leading.isr)
        self._tell_followers()
        self.advance()

    def advance(self) -> None:
        """Move the high watermark as far as the followers let it."""
        replica, leading = self.replica, self.leading
        if leading is not None:
            offset = leading.high_watermark(
                replica.log.log_end_offset, replica.config.min_insync_replicas, self._context.now_ms()
            )
            if offset > replica.high_watermark:
                self.commit(offset)

    def commit(self, high_watermark: int) -> None:
        """Move the high watermark up to there, and tell all who wait for that."""
        replica = self.replica
        replica.high_watermark = high_watermark
        replica.log.producer_state.on_high_watermark(high_watermark)
        self._tell_followers()
        grown_bytes = self._uncommitted.committed(high_watermark)
        if replica.waiters.waiting:
            replica.waiters.grown(max(grown_bytes, 1))  # what was in the log at its start has no size here
        self._stable_moved()
        if len(replica.commit_waiters):
            replica.commit_waiters.passed(high_watermark)

    def _stable_moved(self) -> None:
        """The last stable offset may have followed the high watermark."""
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
        """Append what the leader sent, as it is. Raises LogError."""
        replica = self.replica
        before_bytes, size_bytes = replica.appended_bytes, len(records)
        replica.log.append_as_follower(records, headers)
        replica.appended_bytes = before_bytes + size_bytes
        self._uncommitted.appended(replica.log.log_end_offset, replica.appended_bytes)
        for first_offset in replica.log.producer_state.open_offsets:
            self._opened_at_bytes.setdefault(first_offset, before_bytes)
        replica.note_unsynced()

    def follow_offsets(self, leader_high_watermark: int, leader_log_start_offset: int) -> None:
        """Take on the leader's high watermark and log start, as far as the log reaches.

        The high watermark does not go back for a leader that is still to learn its own. Raises LogError.
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
        """Drop what the leader does not have. Blocks for some syncs. Raises LogError."""
        replica = self.replica
        if offset >= replica.log.log_end_offset:
            replica.log.truncate_to(offset)
            return
        replica.log.truncate_to(offset)
        self._truncated()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Begin anew at the leader's log start, above all that is here. Blocks. Raises LogError."""
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
        """The high watermark lies within the log, whatever happened to its ends."""
        replica = self.replica
        log = replica.log
        replica.high_watermark = max(log.log_start_offset, min(replica.high_watermark, log.log_end_offset))
        log.producer_state.on_high_watermark(replica.high_watermark)
