"""Raft as Kafka has it (KIP-595), for one voter: a state machine without clock, disk or network.

The node that runs it feeds in what has happened and carries out the `Effect`s that come back, in order.
`Persist` must be durable before anything after it is begun; what was asked for is reported back with
`persisted`, `flushed` and so on, and may bring further effects.

**The rules that make it safe**

1. *One vote an epoch.* A voter writes down its vote before it counts, so that it cannot vote twice after a
   crash. An election begins with a new epoch and a vote for oneself.
2. *A majority elects.* With one voter its own vote is the majority; with more, a candidate waits for the
   others' answers. The rule is the same.
3. *A leader begins its epoch with a record*, a LeaderChange control batch, and appends nothing else first.
4. *The high watermark is what a majority has on disk*, and it moves only once that covers the leader's own
   LeaderChange (Raft's section 5.4.2): records of earlier epochs are committed by being followed, never by
   being counted. For a single voter "a majority has on disk" means fsynced here. Records above it may be
   gone after a power cut, so nobody is told of them.
5. *The epoch never falls.* It is at least the newest one in the log, whatever the quorum-state file says.
6. *A leader that restarts does not resume its epoch.* It cannot know what of its last writes survived, so it
   resigns and stands again in the next one.

A second voter adds states (voted for another, following) and inputs (votes asked for and given, followers'
fetches) to the tables below; the inputs of this one stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

from penstock.consensus.quorum_state import ElectionState


class Role(Enum):
    UNATTACHED = auto()
    """Knows an epoch, and no leader in it."""
    RESIGNED = auto()
    """Led this epoch before a restart or a stop, and will not again."""
    CANDIDATE = auto()
    """Has begun an epoch and gathers votes."""
    LEADER = auto()


TRANSITIONS: Final[Mapping[Role, frozenset[Role]]] = {
    Role.UNATTACHED: frozenset((Role.CANDIDATE,)),
    Role.RESIGNED: frozenset((Role.CANDIDATE,)),
    Role.CANDIDATE: frozenset((Role.LEADER, Role.RESIGNED)),
    Role.LEADER: frozenset((Role.RESIGNED,)),
}


class Persist(NamedTuple):
    """Write the election state to disk, durably, and report `persisted`."""

    election: ElectionState


class BeginEpoch(NamedTuple):
    """Append a LeaderChange control batch under this epoch and report `appended`."""

    epoch: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


class Commit(NamedTuple):
    """Every record below ``high_watermark`` is committed, now and for ever."""

    high_watermark: int


Effect: TypeAlias = Persist | BeginEpoch | Commit


@dataclass(slots=True)
class Raft:
    """One voter. ``high_watermark`` is 0 until the first commit of this run."""

    node_id: int
    voters: frozenset[int]
    election: ElectionState
    role: Role = Role.UNATTACHED
    high_watermark: int = 0
    _votes: frozenset[int] = frozenset()
    _epoch_start_offset: int | None = None

    @classmethod
    def restore(
        cls, node_id: int, voters: frozenset[int], election: ElectionState | None, last_epoch_in_log: int
    ) -> Raft:
        """The voter as its disk has it: the quorum-state file, if there is one, and the newest epoch."""
        assert node_id in voters, f"node {node_id} is no voter of {sorted(voters)}"
        election = election or ElectionState(epoch=0)
        if election.epoch < last_epoch_in_log:
            election = ElectionState(epoch=last_epoch_in_log)
        raft = cls(node_id, voters, election)
        if election.leader_id == node_id:
            raft.role = Role.RESIGNED
        return raft

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    def campaign(self) -> list[Effect]:
        """Stand for election in the next epoch. The vote for oneself counts once it is on disk."""
        self._become(Role.CANDIDATE)
        self._votes = frozenset()
        self.election = ElectionState(
            epoch=self.epoch + 1, voted_id=self.node_id, voters=tuple(sorted(self.voters))
        )
        return [Persist(self.election)]

    def persisted(self, election: ElectionState) -> list[Effect]:
        """The state of a `Persist` is on disk."""
        if self.role is not Role.CANDIDATE or election != self.election:
            return []
        self._votes |= {self.node_id}
        if len(self._votes) <= len(self.voters) // 2:
            return []
        self._become(Role.LEADER)
        self.election = self.election._replace(leader_id=self.node_id, voted_id=None)
        voters = tuple(sorted(self.voters))
        return [
            Persist(self.election),
            BeginEpoch(self.epoch, voters=voters, granting_voters=tuple(sorted(self._votes))),
        ]

    def appended(self, epoch_start_offset: int) -> None:
        """The LeaderChange batch of this epoch is in the log at ``epoch_start_offset``."""
        assert self.is_leader, "only a leader begins an epoch"
        assert self._epoch_start_offset is None, "an epoch begins once"
        self._epoch_start_offset = epoch_start_offset

    def flushed(self, end_offset: int) -> list[Effect]:
        """This voter's log is on disk up to ``end_offset``."""
        if not self.is_leader or self._epoch_start_offset is None:
            return []
        if end_offset <= max(self._epoch_start_offset, self.high_watermark):
            return []
        self.high_watermark = end_offset
        return [Commit(end_offset)]

    def resign(self) -> None:
        """Lead no more: nothing appended from here on is committed by this voter in this epoch."""
        self._become(Role.RESIGNED)
        self._epoch_start_offset = None

    def _become(self, role: Role) -> None:
        assert role in TRANSITIONS[self.role], f"{self.role.name} does not become {role.name}"
        self.role = role
