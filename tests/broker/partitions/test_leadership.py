"""The leader's state: in-sync replicas, committed records, and proposals to the controller."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.broker.partitions.leadership import Leadership
from penstock.metadata.image import PartitionRegistration
from penstock.protocol.errors import ErrorCode, KafkaError

LAG_MS = 1000
MIN_ISR = 1


@dataclass
class Brokers:
    own_epoch: int = 101
    epochs: dict[int, int] = field(default_factory=lambda: {1: 101, 2: 102, 3: 103})
    leaving: set[int] = field(default_factory=set)

    def live_epoch(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)

    def is_leaving(self, broker_id: int) -> bool:
        return broker_id in self.leaving


def registration(
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    leader_epoch: int = 5,
    partition_epoch: int = 10,
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=replicas, isr=isr, leader=1, leader_epoch=leader_epoch, partition_epoch=partition_epoch
    )


class Leader:
    """A leadership whose log end, high watermark and clock the test controls."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), end_offset: int = 0, min_isr: int = MIN_ISR) -> None:
        self.brokers = Brokers()
        self.view = Leadership(1, self.brokers, LAG_MS)
        self.end_offset = end_offset
        self.high_watermark = 0
        self.min_isr = min_isr
        self.now_ms = 10_000.0
        self.obey(registration(isr), is_new_leader=True)

    def obey(self, wanted: PartitionRegistration, *, is_new_leader: bool = False) -> None:
        self.view.update(wanted, self.end_offset, self.now_ms, is_new_leader=is_new_leader)
        self.advance()

    def fetch(self, broker_id: int, offset: int, epoch: int | None = None) -> None:
        epoch = self.brokers.epochs[broker_id] if epoch is None else epoch
        self.view.check_broker_epoch(broker_id, epoch)
        self.view.followers[broker_id].fetched(offset, 0, self.end_offset, epoch, self.now_ms)
        self.advance()

    def advance(self) -> None:
        offset = self.view.high_watermark(self.end_offset, self.min_isr, self.now_ms)
        self.high_watermark = max(self.high_watermark, offset)

    def join(self, broker_id: int) -> object:
        return self.view.propose_join(self.view.followers[broker_id], self.high_watermark)

    def leave(self) -> object:
        return self.view.propose_leave(self.end_offset, self.now_ms)


def test_the_high_watermark_is_what_all_in_sync_replicas_have() -> None:
    leader = Leader(end_offset=10)
    leader.fetch(2, 10)
    assert leader.high_watermark == 0, "3 has not been heard of"
    leader.fetch(3, 4)
    assert leader.high_watermark == 4
    leader.fetch(3, 10)
    assert leader.high_watermark == 10


def test_who_lags_too_long_is_put_out_of_the_isr_and_counts_until_that_is_so() -> None:
    leader = Leader(end_offset=10)
    leader.fetch(2, 10)
    leader.fetch(3, 4)
    leader.now_ms += LAG_MS
    assert leader.leave() is None, "it had its time from the election on"
    leader.now_ms += 1
    proposal = leader.leave()
    assert proposal is not None
    assert (proposal.isr, proposal.broker_epochs) == ((1, 2), (101, 102))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 10)
    leader.advance()
    assert leader.high_watermark == 4, "the controller may refuse"
    assert leader.leave() is None, "one proposal at a time"
    assert leader.view.accepted(proposal, [1, 2], 5, 11)
    leader.advance()
    assert leader.high_watermark == 10
    assert leader.view.isr == (1, 2)


def test_a_follower_that_is_always_a_little_behind_keeps_up() -> None:
    leader = Leader(end_offset=0)
    for _ in range(30):
        leader.end_offset += 10
        leader.now_ms += LAG_MS / 2
        for follower in (2, 3):
            leader.fetch(follower, leader.end_offset - 10)
    assert leader.leave() is None
    leader.now_ms += 2 * LAG_MS
    proposal = leader.leave()
    assert proposal is not None
    assert proposal.isr == (1,)


def test_an_idle_follower_at_the_end_is_in_sync_however_long_ago_it_fetched() -> None:
    leader = Leader(end_offset=10)
    leader.fetch(2, 10)
    leader.fetch(3, 10)
    leader.now_ms += 100 * LAG_MS
    assert leader.leave() is None


def test_a_follower_joins_once_it_has_all_that_may_be_committed() -> None:
    leader = Leader(isr=(1,), end_offset=10)
    assert leader.high_watermark == 10
    leader.end_offset = 12
    leader.fetch(2, 9)
    assert leader.join(2) is None, "below the high watermark"
    leader.fetch(2, 12)
    proposal = leader.join(2)
    assert proposal is not None
    assert (proposal.isr, proposal.broker_epochs, proposal.joins) == ((1, 2), (101, 102), 2)


def test_it_has_to_reach_the_beginning_of_the_leaders_epoch() -> None:
    """Records between the high watermark and that offset may already be committed."""
    leader = Leader(isr=(1, 3), end_offset=10)
    leader.fetch(3, 0)
    leader.fetch(2, 9)
    assert leader.high_watermark == 0
    assert leader.join(2) is None
    leader.fetch(2, 10)
    assert leader.join(2) is not None


def test_who_may_have_joined_counts_before_the_controller_answers() -> None:
    leader = Leader(isr=(1,), end_offset=10)
    leader.fetch(2, 10)
    assert leader.join(2) is not None
    leader.end_offset = 20
    leader.now_ms += 10 * LAG_MS
    leader.advance()
    assert leader.high_watermark == 10
    assert leader.view.isr == (1,)
    assert leader.view.maximal_isr == {1, 2}


def test_who_is_about_to_join_is_waited_for() -> None:
    """Otherwise the high watermark would advance past that replica while the leader is alone in the ISR."""
    leader = Leader(isr=(1,), end_offset=10)
    leader.fetch(2, 5)
    leader.end_offset = 15
    leader.fetch(2, 10)
    leader.end_offset = 20
    leader.now_ms += LAG_MS / 2
    leader.advance()
    assert leader.high_watermark == 10, "it was caught up a moment ago"
    leader.now_ms += LAG_MS
    leader.advance()
    assert leader.high_watermark == 20


@pytest.mark.parametrize("hindrance", ["fenced", "leaving", "an earlier life"])
def test_who_may_not_join_is_not_asked_for(hindrance: str) -> None:
    leader = Leader(isr=(1,), end_offset=10)
    leader.fetch(2, 10)
    if hindrance == "fenced":
        del leader.brokers.epochs[2]
    elif hindrance == "leaving":
        leader.brokers.leaving.add(2)
    else:
        leader.brokers.epochs[2] = 202
    assert leader.join(2) is None


def test_a_fetch_from_before_the_brokers_registration_is_refused() -> None:
    """KIP-903: the broker may have lost records since that fetch."""
    leader = Leader(end_offset=10)
    leader.brokers.epochs[2] = 202
    with pytest.raises(KafkaError) as refused:
        leader.fetch(2, 10, epoch=102)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.fetch(2, 10, epoch=-1)  # of a version without the field


def test_the_high_watermark_stands_still_below_min_insync_replicas() -> None:
    leader = Leader(isr=(1, 2, 3), end_offset=10, min_isr=2)
    leader.fetch(2, 5)
    leader.fetch(3, 5)
    leader.obey(registration((1,), partition_epoch=11))
    assert leader.high_watermark == 5
    leader.now_ms += 2 * LAG_MS  # replica 3 has exceeded its lag
    leader.fetch(2, 10)
    proposal = leader.join(2)
    assert proposal is not None
    assert leader.view.accepted(proposal, [1, 2], 5, 12)
    leader.advance()
    assert leader.high_watermark == 10


def test_min_insync_replicas_is_at_most_the_number_of_replicas() -> None:
    leader = Leader(min_isr=5)
    assert leader.view.effective_min_isr(5) == 3


def test_a_change_in_the_metadata_log_makes_a_proposal_void() -> None:
    leader = Leader(isr=(1, 2), end_offset=10)
    leader.fetch(2, 10)
    leader.fetch(3, 10)
    proposal = leader.join(3)
    assert proposal is not None
    leader.obey(registration((1,), partition_epoch=11))
    assert not leader.view.accepted(proposal, [1, 2, 3], 5, 11)
    assert leader.view.isr == (1,)
    assert not leader.view.refused(proposal, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_registration_that_is_no_news_leaves_a_proposal_pending() -> None:
    """A change may arrive with an earlier one and then again; a replica that may have joined still counts."""
    leader = Leader(isr=(1,), end_offset=10)
    leader.fetch(2, 10)
    proposal = leader.join(2)
    leader.obey(registration((1,)))
    assert leader.view.pending is proposal
    assert leader.view.maximal_isr == {1, 2}


def test_an_answer_that_comes_before_the_metadata_log_is_not_undone_by_it() -> None:
    leader = Leader(isr=(1,), end_offset=10)
    leader.fetch(2, 10)
    proposal = leader.join(2)
    assert proposal is not None
    assert leader.view.accepted(proposal, [1, 2], 5, 12)
    leader.obey(registration((1,), partition_epoch=11))
    assert leader.view.isr == (1, 2)


@pytest.mark.parametrize(
    ("error", "again", "maximal"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False, {1}),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False, {1}),
        (ErrorCode.INVALID_UPDATE_VERSION, False, {1, 2}),
        (ErrorCode.FENCED_LEADER_EPOCH, False, {1, 2}),
        (ErrorCode.NEW_LEADER_ELECTED, False, {1, 2}),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True, {1, 2}),
    ],
)
def test_a_refusal_is_undone_only_where_nothing_can_have_changed(
    error: ErrorCode, again: bool, maximal: set[int]
) -> None:
    leader = Leader(isr=(1,), end_offset=10)
    leader.fetch(2, 10)
    proposal = leader.join(2)
    assert proposal is not None
    assert leader.view.refused(proposal, error) is again
    assert leader.view.maximal_isr == maximal
    assert (leader.view.pending is None) is (maximal == {1})


def test_a_leader_that_is_elected_again_gives_those_in_sync_their_time() -> None:
    leader = Leader(isr=(1, 2), end_offset=10)
    leader.fetch(2, 10)
    leader.fetch(3, 10)
    leader.end_offset = 20
    leader.now_ms += 100 * LAG_MS
    leader.obey(registration((1, 2), leader_epoch=6, partition_epoch=11))
    assert leader.leave() is None
    assert leader.view.epoch_start_offset == 20
    assert leader.join(3) is None, "it has not fetched in this epoch"


def test_a_broker_that_has_no_replica_is_asked_to_wait_for_the_metadata() -> None:
    leader = Leader()
    for leader_epoch, code in ((5, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        with pytest.raises(KafkaError) as refused:
            leader.view.follower(9, leader_epoch)
        assert refused.value.code is code


def test_the_low_watermark_is_that_of_live_replicas() -> None:
    leader = Leader(end_offset=10)
    leader.fetch(2, 10)
    leader.view.followers[3].fetched(10, 4, 10, 103, leader.now_ms)
    assert leader.view.low_watermark(6) == 0
    del leader.brokers.epochs[2]
    assert leader.view.low_watermark(6) == 4
    del leader.brokers.epochs[3]
    assert leader.view.low_watermark(6) == 6
