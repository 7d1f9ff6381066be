"""The roles of a member, the state of each, and the allowed transitions (KIP-595, KIP-996).

An observer has no role of its own: it is unattached or a follower, and never stands for election.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeAlias

from penstock.consensus.leader import Leader
from penstock.consensus.voters import Endpoints, ReplicaKey, VoterSet


class Ballot:
    """The votes of one election by voter id; a voter's own vote is included from the start."""

    def __init__(self, voters: VoterSet, local: ReplicaKey) -> None:
        self._voters = {voter.id: voter for voter in voters.keys}
        self._votes = {local.id: True} if voters.is_voter(local) else {}

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Record a vote; it does not count if the sender is not, or no longer, a voter."""
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
    """The role of a member that knows an epoch, but of its leader at most the id; it may have voted."""

    epoch: int
    leader_id: int | None = None
    voted: ReplicaKey | None = None
    high_watermark: int | None = None
    election_deadline_ms: float = inf
    """Time at which a voter stands for election."""
    leader_endpoints: Endpoints = field(default_factory=dict)


@dataclass(slots=True)
class Prospective:
    """The role of a member that asks for pre-votes, before it disrupts others with a new epoch (KIP-996)."""

    epoch: int
    leader_id: int | None
    leader_endpoints: Endpoints
    voted: ReplicaKey | None
    high_watermark: int | None
    ballot: Ballot
    election_deadline_ms: float


@dataclass(slots=True)
class Candidate:
    """The role of a member that has begun an epoch with a vote for itself, and asks for more votes."""

    epoch: int
    voted: ReplicaKey
    high_watermark: int | None
    ballot: Ballot
    election_deadline_ms: float
    leader_id: int | None = None
    leader_endpoints: Endpoints = field(default_factory=dict)


@dataclass(slots=True)
class Follower:
    """The role of a member that fetches from the leader of its epoch."""

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    voted: ReplicaKey | None
    high_watermark: int | None
    fetch_deadline_ms: float
    """Time at which a voter stands for election if the leader has not responded by then."""
    update_voter_deadline_ms: float
    """Time of the next check whether the leader has the current data of this voter."""
    has_fetched: bool = False
    """Whether a fetch succeeded in this epoch: the leader is then alive, and pre-votes are denied."""
    has_updated_leader: bool = False
    """Whether this voter has sent its data to this leader, which it does once with kraft.version 0."""
    fetching_snapshot: bool = False
    leader_high_watermark: int | None = None
    """The high watermark of the leader's last response; this replica's log may end below it."""


@dataclass(slots=True)
class Resigned:
    """The role of a former leader of this epoch; after a restart it cannot know which writes survived."""

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    unacknowledged: set[int]
    """Voters that have not acknowledged the resignation yet."""
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
"""Allowed transitions. `Raft` checks the epochs: within an epoch a leader may only resign, a candidate may
only become leader, follower or prospective again, and a member that has resigned does not lead again. A sole
voter that has resigned becomes prospective at once."""
