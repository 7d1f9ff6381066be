"""The roles of a member, what each knows, and which may follow which (KIP-595, KIP-996).

An observer is no role of its own: it is unattached or follows, and never stands for election.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeAlias

from penstock.consensus.leader import Leader
from penstock.consensus.voters import Endpoints, ReplicaKey, VoterSet


class Ballot:
    """Votes asked of voters, by id; the node's own is there from the start, if it has one."""

    def __init__(self, voters: VoterSet, local: ReplicaKey) -> None:
        self._voters = {voter.id: voter for voter in voters.keys}
        self._votes = {local.id: True} if voters.is_voter(local) else {}

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Note a vote; of who is no voter (any more) it does not count."""
        if voter_id in self._voters:
            self._votes[voter_id] = granted

    @property
    def unrecorded(self) -> list[ReplicaKey]:
        return [key for voter_id, key in self._voters.items() if voter_id not in self._votes]

    @property
    def granting(self) -> tuple[int, ...]:
        return tuple(sorted(voter_id for voter_id, granted in self._votes.items() if granted))

    @property
    def is_won(self) -> bool:
        return len(self.granting) >= self._majority

    @property
    def is_lost(self) -> bool:
        return len(self.granting) + len(self.unrecorded) < self._majority

    @property
    def _majority(self) -> int:
        return len(self._voters) // 2 + 1


@dataclass(slots=True)
class Unattached:
    """Knows an epoch, and of its leader at most the id; may have voted in it."""

    epoch: int
    leader_id: int | None = None
    voted: ReplicaKey | None = None
    high_watermark: int | None = None
    election_deadline_ms: float = inf
    """When a voter stands for election."""
    leader_endpoints: Endpoints = field(default_factory=dict)


@dataclass(slots=True)
class Prospective:
    """Asks whether it would be elected, before it disturbs anyone with a new epoch (KIP-996)."""

    epoch: int
    leader_id: int | None
    leader_endpoints: Endpoints
    voted: ReplicaKey | None
    high_watermark: int | None
    ballot: Ballot
    election_deadline_ms: float


@dataclass(slots=True)
class Candidate:
    """Has begun an epoch with a vote for itself, and asks for more."""

    epoch: int
    voted: ReplicaKey
    high_watermark: int | None
    ballot: Ballot
    election_deadline_ms: float
    leader_id: int | None = None
    leader_endpoints: Endpoints = field(default_factory=dict)


@dataclass(slots=True)
class Follower:
    """Fetches from the leader of its epoch."""

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    voted: ReplicaKey | None
    high_watermark: int | None
    fetch_deadline_ms: float
    """When a voter that has not heard of the leader stands for election."""
    update_voter_deadline_ms: float
    """When it next looks whether the leader knows it as it is."""
    has_fetched: bool = False
    """At least once in this epoch: then the leader is alive, and nobody gets a pre-vote."""
    has_updated_leader: bool = False
    """With kraft.version 0 each new leader is told of this voter once."""
    fetching_snapshot: bool = False
    leader_high_watermark: int | None = None
    """As the leader told it last; this replica's log may end below."""


@dataclass(slots=True)
class Resigned:
    """Led this epoch, and won't any more: after a restart it can't know what of it survived."""

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    unacknowledged: set[int]
    """Voters that have not heard of it yet."""
    successors: tuple[ReplicaKey, ...]
    election_deadline_ms: float
    high_watermark: int | None = None
    voted: ReplicaKey | None = None


Role: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned

TRANSITIONS: Final[Mapping[type, frozenset[type]]] = {
    Unattached: frozenset((Unattached, Prospective, Follower)),
    Prospective: frozenset((Unattached, Candidate, Follower)),
    Candidate: frozenset((Unattached, Prospective, Follower, Leader)),
    Follower: frozenset((Unattached, Prospective, Follower)),
    Leader: frozenset((Unattached, Follower, Resigned)),
    Resigned: frozenset((Unattached, Follower, Prospective)),
}
"""Within an epoch a leader only resigns, a candidate only becomes leader, follower or prospective again, and
who resigned does not come back: `Raft` checks the epochs. A sole voter that has resigned is prospective at
once."""
