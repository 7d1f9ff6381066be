"""The leader's view of a partition with several replicas: followers, in-sync replicas, high watermark.

Pure. Only the controller changes the in-sync replicas (ISR). The leader proposes a change (AlterPartition,
KIP-497). Until the controller answers, the high watermark obeys the **maximal** ISR: every replica that may
be in the ISR by then. `accepted` or `refused` takes the controller's answer. A change in the metadata log
may arrive first; it makes the proposal void.

Each possible leader of the next epoch must have every committed record. So the high watermark is the smallest
log end of the maximal ISR, waits for followers that are about to join, and stands still while the ISR is
smaller than `min.insync.replicas` (KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.broker.partitions.follower_progress import UNKNOWN, FollowerProgress
from penstock.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.metadata.image import PartitionRegistration

NOT_APPLIED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller did not apply the proposal: the partition's state stays as the leader assumed."""

AWAITS_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The partition has changed; the proposal stays pending until the metadata log brings the change."""


class Brokers(Protocol):
    """The cluster's brokers as this node knows them."""

    @property
    def own_epoch(self) -> int:
        """The epoch in which this broker registered."""

    def live_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that is registered and not fenced."""

    def is_leaving(self, broker_id: int) -> bool:
        """Whether the broker is in controlled shutdown."""


class IsrProposal(NamedTuple):
    """A change of the ISR as the leader requests it with AlterPartition."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """The epoch of each broker in `isr`, -1 if the broker has not fetched from this leader (KIP-903)."""
    leader_epoch: int
    partition_epoch: int
    joins: int | None
    """The broker that is to join; None where brokers are to leave."""


class Leadership:
    """One partition as its leader sees it, from its election on.

    Times are in milliseconds of a monotonic clock.
    """

    __slots__ = (
        "_brokers",
        "_lag_time_max_ms",
        "_maximal_isr",
        "_node_id",
        "epoch_start_offset",
        "followers",
        "isr",
        "leader_epoch",
        "partition_epoch",
        "pending",
        "since_ms",
    )

    def __init__(self, node_id: int, brokers: Brokers, lag_time_max_ms: int) -> None:
        self._node_id = node_id
        self._brokers = brokers
        self._lag_time_max_ms = lag_time_max_ms
        self._maximal_isr: frozenset[int] = frozenset()
        self.followers: dict[int, FollowerProgress] = {}
        self.isr: tuple[int, ...] = ()
        """The ISR as the controller has committed it."""
        self.pending: IsrProposal | None = None
        self.leader_epoch = UNKNOWN
        self.partition_epoch = UNKNOWN
        self.since_ms = float("-inf")
        """When this node learned of the current leader epoch."""
        self.epoch_start_offset = UNKNOWN
        """Where the log ended when this epoch began: a follower below it may lack committed records."""

    def update(
        self,
        registration: PartitionRegistration,
        log_end_offset: int,
        now_ms: float,
        *,
        is_new_leader: bool,
    ) -> None:
        """Apply the partition's state in the metadata log, unless it is not newer than the known state.

        The known state may include an answer of the controller that the log repeats later, and a proposal may
        be pending on top of it.
        """
        known = (self.partition_epoch, self.leader_epoch)
        if (registration.partition_epoch, registration.leader_epoch) <= known:
            return
        others = [replica for replica in registration.replicas if replica != self._node_id]
        self.followers = {
            broker_id: self.followers.get(broker_id) or FollowerProgress(broker_id) for broker_id in others
        }
        self._commit(registration.isr)
        self.partition_epoch = registration.partition_epoch
        if registration.leader_epoch > self.leader_epoch:
            self.leader_epoch = registration.leader_epoch
            self.epoch_start_offset = log_end_offset
            self.since_ms = now_ms
            for follower in self.followers.values():
                follower.reset(
                    log_end_offset,
                    now_ms,
                    is_new_leader=is_new_leader,
                    in_isr=follower.broker_id in registration.isr,
                )

    def _commit(self, isr: Iterable[int]) -> None:
        self.isr = tuple(isr)
        self._maximal_isr = frozenset(self.isr)
        self.pending = None

    @property
    def maximal_isr(self) -> frozenset[int]:
        """All replicas that are in the ISR, or may be by now."""
        return self._maximal_isr

    @property
    def is_alone(self) -> bool:
        """Whether no follower can be in the ISR, so that an append commits itself."""
        return len(self._maximal_isr) <= 1

    def effective_min_isr(self, min_insync_replicas: int) -> int:
        """`min.insync.replicas`, but at most the number of replicas."""
        return min(min_insync_replicas, len(self.followers) + 1)

    # --- followers' fetches

    def follower(self, broker_id: int, current_leader_epoch: int) -> FollowerProgress:
        """The follower that fetches. Raises KafkaError if the broker has no replica here."""
        follower = self.followers.get(broker_id)
        if follower is None:
            raise no_replica(broker_id, current_leader_epoch)
        return follower

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> None:
        """Raise KafkaError for a fetch from before the broker's last registration (KIP-903)."""
        if broker_epoch != UNKNOWN:
            known = self._brokers.live_epoch(broker_id)
            if known is not None and known > broker_epoch:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    f"broker {broker_id} fetches with broker epoch {broker_epoch}, "
                    f"but its current one is {known}",
                )

    def _may_join(self, follower: FollowerProgress) -> bool:
        """Whether the broker is neither fenced nor leaving, and fetched since its last registration."""
        epoch = self._brokers.live_epoch(follower.broker_id)
        return (
            epoch is not None
            and follower.broker_epoch in (epoch, UNKNOWN)
            and not self._brokers.is_leaving(follower.broker_id)
        )

    # --- the watermarks

    def high_watermark(self, log_end_offset: int, min_insync_replicas: int, now_ms: float) -> int:
        """The highest possible high watermark, or -1 if it must not move. It never moves back.

        A follower that keeps up counts as if it were in the ISR already. Otherwise a leader that is alone in
        the ISR would advance the high watermark past it forever, and the follower could never join.
        """
        if len(self.isr) < self.effective_min_isr(min_insync_replicas):
            return UNKNOWN
        lowest = log_end_offset
        for broker_id, follower in self.followers.items():
            if follower.log_end_offset < lowest and (
                broker_id in self._maximal_isr
                or (
                    follower.is_caught_up(log_end_offset, now_ms, self._lag_time_max_ms)
                    and self._may_join(follower)
                )
            ):
                lowest = follower.log_end_offset
        return lowest

    def low_watermark(self, log_start_offset: int) -> int:
        """The smallest log start offset of this and all live replicas; no record below it is readable."""
        live = self._brokers.live_epoch
        starts = [log_start_offset]
        starts += [f.log_start_offset for f in self.followers.values() if live(f.broker_id) is not None]
        return min(starts)

    # --- the in-sync replicas

    def propose_join(self, follower: FollowerProgress, high_watermark: int) -> IsrProposal | None:
        """The proposal that this follower joins the ISR, after it has fetched; None if it may not join now.

        The follower must have reached the high watermark and the start of this epoch: records in between may
        be committed without this leader's knowledge.
        """
        if (
            self.pending is not None
            or follower.broker_id in self.isr
            or follower.log_end_offset < max(high_watermark, self.epoch_start_offset)
            or not self._may_join(follower)
        ):
            return None
        proposal = self._propose((*self.isr, follower.broker_id), joins=follower.broker_id)
        # The follower may be in the ISR before this leader gets the controller's answer.
        self._maximal_isr = frozenset(proposal.isr)
        return proposal

    def propose_leave(self, log_end_offset: int, now_ms: float) -> IsrProposal | None:
        """The proposal that lagging followers leave the ISR; None if there is none. Called at intervals."""
        if self.pending is not None:
            return None
        lagging = self.lagging(log_end_offset, now_ms)
        if not lagging:
            return None
        # They count until the controller has removed them, since it may refuse.
        return self._propose(tuple(broker_id for broker_id in self.isr if broker_id not in lagging))

    def lagging(self, log_end_offset: int, now_ms: float) -> set[int]:
        """The members of the ISR that have not been caught up for `replica.lag.time.max.ms`."""
        return {
            broker_id
            for broker_id in self.isr
            if broker_id != self._node_id
            and not (
                (follower := self.followers.get(broker_id)) is not None
                and follower.is_caught_up(log_end_offset, now_ms, self._lag_time_max_ms)
            )
        }

    def _propose(self, isr: tuple[int, ...], joins: int | None = None) -> IsrProposal:
        epochs = []
        for broker_id in isr:
            follower = self.followers.get(broker_id)
            epoch = self._brokers.own_epoch if follower is None else follower.broker_epoch
            # The controller itself put a replica that has not fetched from this leader into the ISR. If it
            # has removed the replica since, it notices that by the partition epoch.
            epochs.append(UNKNOWN if epoch is None else epoch)
        self.pending = IsrProposal(isr, tuple(epochs), self.leader_epoch, self.partition_epoch, joins)
        return self.pending

    def accepted(
        self, proposal: IsrProposal, isr: Iterable[int], leader_epoch: int, partition_epoch: int
    ) -> bool:
        """Take the controller's answer and return whether it is new; the high watermark may have to move."""
        if (
            self.pending is not proposal
            or leader_epoch != self.leader_epoch
            or partition_epoch < self.partition_epoch
        ):
            return False
        self._commit(isr)
        self.partition_epoch = partition_epoch
        return True

    def refused(self, proposal: IsrProposal, error: ErrorCode) -> bool:
        """Take the controller's refusal and return whether to send the proposal again."""
        if self.pending is not proposal or error in AWAITS_METADATA:
            return False
        if error in NOT_APPLIED:
            self._commit(self.isr)
            return False
        return True


def no_replica(broker_id: int, current_leader_epoch: int) -> KafkaError:
    """The error for a fetch from a broker that has no replica of the partition, as far as this node knows.

    A follower that names a leader epoch may know a change that has not reached this node yet. It gets
    UNKNOWN_LEADER_EPOCH, so that it retries.
    """
    is_ahead = current_leader_epoch >= 0
    code = ErrorCode.UNKNOWN_LEADER_EPOCH if is_ahead else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return KafkaError(code, f"broker {broker_id} has no replica")
