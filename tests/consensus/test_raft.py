"""The quorum of one: elections, epochs, and what may be called committed."""

import pytest

from penstock.consensus.quorum_state import ElectionState, QuorumStateError
from penstock.consensus.raft import BeginEpoch, Commit, Persist, Raft, Role


def elected(last_epoch: int = 0, election: ElectionState | None = None) -> Raft:
    """A leader whose epoch began at offset 10."""
    raft = Raft.restore(1, frozenset((1,)), election, last_epoch)
    (vote,) = raft.campaign()
    assert isinstance(vote, Persist)
    raft.persisted(vote.election)
    raft.appended(10)
    return raft


def test_the_first_election() -> None:
    raft = Raft.restore(1, frozenset((1,)), None, 0)
    assert raft.role is Role.UNATTACHED
    vote = ElectionState(epoch=1, voted_id=1, voters=(1,))
    assert raft.campaign() == [Persist(vote)]
    assert not raft.is_leader, "the vote is not on disk yet"
    leads = ElectionState(epoch=1, leader_id=1, voters=(1,))
    assert raft.persisted(vote) == [Persist(leads), BeginEpoch(1, voters=(1,), granting_voters=(1,))]
    assert raft.is_leader
    assert raft.persisted(leads) == []


def test_one_vote_of_three_elects_nobody() -> None:
    raft = Raft.restore(1, frozenset((1, 2, 3)), None, 0)
    (vote,) = raft.campaign()
    assert isinstance(vote, Persist)
    assert raft.persisted(vote.election) == []
    assert raft.role is Role.CANDIDATE


def test_a_leader_that_restarts_begins_a_new_epoch() -> None:
    raft = Raft.restore(1, frozenset((1,)), ElectionState(epoch=4, leader_id=1), 4)
    assert raft.role is Role.RESIGNED
    (vote,) = raft.campaign()
    assert isinstance(vote, Persist)
    assert vote.election.epoch == 5


def test_the_epoch_is_never_below_that_of_the_log() -> None:
    assert elected(last_epoch=7, election=ElectionState(epoch=3, voted_id=1)).epoch == 8


def test_nothing_is_committed_before_the_epochs_first_record() -> None:
    raft = elected()
    assert raft.flushed(10) == []
    assert raft.flushed(11) == [Commit(11)]
    assert raft.high_watermark == 11


def test_the_high_watermark_moves_with_flushes_and_never_back() -> None:
    raft = elected()
    assert raft.flushed(20) == [Commit(20)]
    assert raft.flushed(20) == []
    assert raft.flushed(15) == []
    assert raft.high_watermark == 20


def test_who_resigned_commits_nothing() -> None:
    raft = elected()
    raft.resign()
    assert raft.flushed(30) == []
    with pytest.raises(AssertionError, match="RESIGNED does not become RESIGNED"):
        raft.resign()


def test_an_old_vote_does_not_count() -> None:
    raft = Raft.restore(1, frozenset((1,)), None, 0)
    (first,) = raft.campaign()
    assert isinstance(first, Persist)
    with pytest.raises(AssertionError, match="CANDIDATE does not become CANDIDATE"):
        raft.campaign()
    assert raft.persisted(first.election._replace(epoch=0)) == []
    assert raft.role is Role.CANDIDATE


STATIC = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)
DYNAMIC = (
    '{"leaderId":-1,"leaderEpoch":3,"votedId":1,"votedDirectoryId":"AQEBAQEBAQEBAQEBAQEBAQ","data_version":1}'
)


@pytest.mark.parametrize(
    ("text", "version", "state"),
    [
        (STATIC, 0, ElectionState(epoch=3, leader_id=1, voters=(1,))),
        (DYNAMIC, 1, ElectionState(epoch=3, voted_id=1, voted_directory_id=bytes([1]) * 16)),
    ],
)
def test_the_quorum_state_file(text: str, version: int, state: ElectionState) -> None:
    assert ElectionState.from_json(text) == state
    assert state.to_json(version) == text


@pytest.mark.parametrize("text", ["", "{}", "[]", STATIC.replace('data_version":0', 'data_version":2')])
def test_a_file_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(QuorumStateError):
        ElectionState.from_json(text)
