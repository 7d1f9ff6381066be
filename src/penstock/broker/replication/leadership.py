"""The leader's view of a partition with several replicas: followers, in-sync replicas, high watermark.

Pure. The in-sync replicas (ISR) change by the controller's word alone: the leader proposes (AlterPartition,
KIP-497), and until it hears the high watermark obeys the **maximal** ISR, all who may be in it. Whoever
carries proposals to the controller comes back with `accepted` or `refused`; a change in the metadata log may
come first, and makes the proposal void.

What is committed has to be where every possible leader of the next epoch has it. So the high watermark is the
smallest log end of the maximal ISR, waits for followers that are about to join, and stands still below
`min.insync.replicas` (KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.broker.replication.follower_progress import UNKNOWN, FollowerProgress
from penstock.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.metadata.image import PartitionRegistration

NOT_APPLIED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller says that the partition is as the leader thought, and stays so."""

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
"""What has become of the partition is in the metadata log; until that comes the proposal stays pending."""


class Brokers(Protocol):
    """What is known of the cluster's brokers."""

    @property
    def own_epoch(self) -> int:
        """The epoch in which this broker registered."""

    def live_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that is registered and not fenced."""

    def is_leaving(self, broker_id: int) -> bool:
        """Whether the broker is in controlled shutdown."""


class IsrProposal(NamedTuple):
    """A change of the ISR as AlterPartition asks for it."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """Of each broker in `isr`, -1 where this leader has not heard from it (KIP-903)."""
    leader_epoch: int
    partition_epoch: int
    joins: int | None
    """Who is to join; None where others are to leave."""


class Leadership:
    """One partition as its leader sees it, from its election on. Times in milliseconds, never going back."""

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
        """As the controller has committed it."""
        self.pending: IsrProposal | None = None
        self.leader_epoch = UNKNOWN
        self.partition_epoch = UNKNOWN
        self.since_ms = float("-inf")
        """When this node heard that this epoch had begun."""
        self.epoch_start_offset = UNKNOWN
        """Where the log ended when this epoch began: who has not come as far may lack committed records."""

    def update(
        self,
        registration: PartitionRegistration,
        log_end_offset: int,
        now_ms: float,
        *,
        is_new_leader: bool,
    ) -> None:
        """Obey the metadata log. What is no news is passed over: a proposal may be pending on top of it.

        Nor is what the controller has answered already, before the log brought it.
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
        """All who are, or may be by now, in the ISR."""
        return self._maximal_isr

    @property
    def is_alone(self) -> bool:
        """Whether no follower can be in the ISR: then an append may commit itself."""
        return len(self._maximal_isr) <= 1

    def effective_min_isr(self, min_insync_replicas: int) -> int:
        """`min.insync.replicas`, but never more than there are replicas."""
        return min(min_insync_replicas, len(self.followers) + 1)

    # --- followers' fetches

    def follower(self, broker_id: int, current_leader_epoch: int) -> FollowerProgress:
        """The follower that fetches. Raises KafkaError for one that has no replica here.

        With the leader's epoch it knows something that this node will hear of: UNKNOWN_LEADER_EPOCH, which
        has it ask again.
        """
        follower = self.followers.get(broker_id)
        if follower is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH
                if current_leader_epoch >= 0
                else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} has no replica in partition epoch {self.partition_epoch}",
            )
        return follower

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> None:
        """Raise KafkaError for a fetch from before the broker's last registration (KIP-903)."""
        if broker_epoch != UNKNOWN:
            known = self._brokers.live_epoch(broker_id)
            if known is not None and known > broker_epoch:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    f"broker {broker_id} fetches with broker epoch {broker_epoch}, it has {known} now",
                )

    def _may_join(self, follower: FollowerProgress) -> bool:
        """Neither fenced nor leaving, and no earlier life of the broker that is registered now."""
        epoch = self._brokers.live_epoch(follower.broker_id)
        return (
            epoch is not None
            and follower.broker_epoch in (epoch, UNKNOWN)
            and not self._brokers.is_leaving(follower.broker_id)
        )

    # --- what is committed

    def high_watermark(self, log_end_offset: int, min_insync_replicas: int, now_ms: float) -> int:
        """How far the high watermark may be now, -1 if it has to stay. It never goes back for this.

        A follower that keeps up is waited for as if it were in the ISR already: else the high watermark
        would run away from it for ever while the leader is alone.
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
        """The smallest log start of this and all live replicas: below it nothing can be read any more."""
        live = self._brokers.live_epoch
        starts = [log_start_offset]
        starts += [f.log_start_offset for f in self.followers.values() if live(f.broker_id) is not None]
        return min(starts)

    # --- the in-sync replicas

    def propose_join(self, follower: FollowerProgress, high_watermark: int) -> IsrProposal | None:
        """What to ask of the controller when this follower has fetched; None where there is nothing to ask.

        It must have reached the high watermark and the beginning of this epoch: what lies between may be
        committed already without this leader knowing.
        """
        if (
            self.pending is not None
            or follower.broker_id in self.isr
            or follower.log_end_offset < max(high_watermark, self.epoch_start_offset)
            or not self._may_join(follower)
        ):
            return None
        proposal = self._propose((*self.isr, follower.broker_id), joins=follower.broker_id)
        # It may be in the ISR before this leader hears so.
        self._maximal_isr = frozenset(proposal.isr)
        return proposal

    def propose_leave(self, log_end_offset: int, now_ms: float) -> IsrProposal | None:
        """What to ask of the controller at intervals: those that have lagged too long shall leave."""
        if self.pending is not None:
            return None
        lagging = self.lagging(log_end_offset, now_ms)
        if not lagging:
            return None
        # They count until the controller has put them out: it might not.
        return self._propose(tuple(broker_id for broker_id in self.isr if broker_id not in lagging))

    def lagging(self, log_end_offset: int, now_ms: float) -> set[int]:
        """Who of the ISR has not been caught up for `replica.lag.time.max.ms`."""
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
            # One that this leader has not heard from was put into the ISR by the controller, which notices by
            # the partition epoch if it has taken it out since.
            epochs.append(UNKNOWN if epoch is None else epoch)
        self.pending = IsrProposal(isr, tuple(epochs), self.leader_epoch, self.partition_epoch, joins)
        return self.pending

    def accepted(
        self, proposal: IsrProposal, isr: Iterable[int], leader_epoch: int, partition_epoch: int
    ) -> bool:
        """The controller's answer; whether it is news. The high watermark may have to move then."""
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
        """The controller's refusal; whether to send the proposal again."""
        if self.pending is not proposal or error in AWAITS_METADATA:
            return False
        if error in NOT_APPLIED:
            self._commit(self.isr)
            return False
        return True
