"""A leader's state of the replicas that fetch from it."""

from penstock.consensus.leader import OBSERVER_SESSION_MS, Leader
from penstock.consensus.voters import Address, ReplicaKey, Voter, VoterSet

LOCAL = ReplicaKey(1, b"1" * 16)


def leader() -> Leader:
    endpoints = {"CONTROLLER": Address("one", 9093)}
    voters = VoterSet([Voter(LOCAL, endpoints), Voter(ReplicaKey(2, b"2" * 16), endpoints)])
    return Leader(LOCAL, endpoints, 5, 10, voters, (1,), 2000, 0)


def test_observers_that_fetch_no_more_are_forgotten_when_others_come() -> None:
    """Each newly formatted node has another directory id."""
    leading = leader()
    for number in range(1000):
        now_ms = number * OBSERVER_SESSION_MS // 10
        leading.fetched(ReplicaKey(7, number.to_bytes(16, "big")), 10, 10, now_ms)
        leading.fetched(ReplicaKey(2, b"2" * 16), 10, 10, now_ms)
        assert len(leading.observers) <= 10
    newest = ReplicaKey(7, (999).to_bytes(16, "big"))
    assert newest in leading.observers
    assert leading.voters.keys() == {1, 2}
