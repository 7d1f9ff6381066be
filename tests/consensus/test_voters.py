"""Sets of voters and their offsets in the log."""

from penstock.consensus.history import ControlHistory
from penstock.consensus.voters import Address, ReplicaKey, Voter, VoterSet

A, B = bytes([1]) * 16, bytes([2]) * 16
HERE = {"CONTROLLER": Address("here", 9093)}
ONE, TWO = Voter(ReplicaKey(1, A), HERE, 0, 1), Voter(ReplicaKey(2, B), HERE, 0, 1)


def test_a_voter_is_a_node_with_its_directory() -> None:
    voters = VoterSet([ONE, TWO])
    assert voters.is_voter(ReplicaKey(1, A))
    assert not voters.is_voter(ReplicaKey(1, B)), "the node lost its disk"
    assert not voters.is_voter(ReplicaKey(1))
    assert voters.removed(ReplicaKey(1, B)) is None
    assert voters.removed(ReplicaKey(1, A)) == VoterSet([TWO])
    assert VoterSet([TWO]).removed(ReplicaKey(2, B)) is None, "the last one stays"


def test_a_static_voter_has_no_directory() -> None:
    voters = VoterSet([Voter(ReplicaKey(1), HERE)])
    assert voters.is_only_voter(ReplicaKey(1, A))
    assert voters.is_only_voter(ReplicaKey(1, B))
    assert voters.updated(ONE) == VoterSet([ONE])


def test_changes() -> None:
    voters = VoterSet([ONE])
    assert voters.added(TWO) == VoterSet([TWO, ONE])
    assert voters.added(Voter(ReplicaKey(1, B))) is None
    moved = Voter(ReplicaKey(1, A), {"CONTROLLER": Address("there", 9093)}, 0, 1)
    assert voters.needs_update(moved)
    assert not voters.needs_update(ONE)
    assert not voters.needs_update(Voter(ReplicaKey(1, B), HERE)), "another voter, not this one elsewhere"
    assert voters.updated(moved) == VoterSet([moved])
    assert voters.updated(Voter(ReplicaKey(1, B))) is None
    assert voters.updated(Voter(ReplicaKey(1, B)), any_directory=True) is not None
    assert VoterSet([ONE, TWO]).supports(1)
    assert not VoterSet([ONE, Voter(ReplicaKey(2))]).supports(1)


def test_a_record_says_all_of_it() -> None:
    voters = VoterSet([ONE, TWO])
    assert VoterSet.from_record(voters.to_record()) == voters


def test_history() -> None:
    static, first, second = VoterSet([ONE]), VoterSet([ONE, TWO]), VoterSet([TWO])
    history = ControlHistory(static)
    assert (history.voters, history.voters_offset, history.kraft_version) == (static, None, 0)
    history.add_kraft_version(4, 1)
    history.add_voters(5, first)
    history.add_voters(9, second)
    assert history.voters == second
    assert history.former_voters == first
    assert [history.voters_at(offset) for offset in (4, 5, 8, 9)] == [None, first, first, second]
    assert [history.kraft_version_at(offset) for offset in (3, 4)] == [0, 1]
    history.truncate_to(9)
    assert (history.voters, history.voters_offset, history.former_voters) == (first, 5, static)
    history.truncate_to(4)
    assert (history.voters, history.kraft_version) == (static, 0)


def test_what_a_snapshot_covers_is_forgotten_but_for_what_is_in_force() -> None:
    first, second = VoterSet([ONE]), VoterSet([ONE, TWO])
    history = ControlHistory(VoterSet())
    history.add_voters(5, first)
    history.add_voters(9, second)
    history.forget_before(9)
    history.truncate_to(9)
    assert history.voters == first, "what came at the snapshot's end is not in it, and could still go"
    history.add_voters(9, second)
    history.forget_before(10)
    assert history.voters_at(8) is None
    assert history.voters == second
