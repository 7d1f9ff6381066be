"""Implements a quorum member's role and the transitions between roles.

A transition makes the election durable before anything that depends on it: the effect `Persist` comes first.
"""

from __future__ import annotations

import logging
import random
from abc import ABC, abstractmethod
from math import inf
from typing import Final

from penstock.consensus.connections import Connections
from penstock.consensus.effects import BeginEpoch, Effect, Node, Persist
from penstock.consensus.errors import InconsistentQuorum
from penstock.consensus.history import BOOTSTRAP_OFFSET
from penstock.consensus.leader import Leader
from penstock.consensus.log import OffsetAndEpoch, RaftLog
from penstock.consensus.quorum_state import ElectionState
from penstock.consensus.roles import (
    TRANSITIONS,
    Ballot,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from penstock.consensus.settings import RaftSettings
from penstock.consensus.voters import Endpoints, ReplicaKey, VoterSet
from penstock.protocol.uuids import ZERO_UUID

log = logging.getLogger(__name__)

FIRST_BOOTSTRAP_ID: Final = -2


class Member(ABC):
    """The state of one member and its role transitions. `consensus.raft.Raft` adds the handling of events."""

    def __init__(
        self, settings: RaftSettings, raft_log: RaftLog, rng: random.Random, election: ElectionState | None
    ) -> None:
        """Make a member; the caller then calls `start`.

        ``election`` is the content of the quorum-state file, or None if there is no file.
        """
        self.settings = settings
        self.log = raft_log
        self.effects: list[Effect] = []
        self.connections = Connections(
            self._bootstrap_nodes(),
            rng,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
        )
        self.shutdown_deadline_ms: float | None = None
        """Time until which a shutdown waits for another leader; None without a shutdown."""
        self._rng = rng
        self._unreachable: set[int] = set()
        """Nodes that did not respond to the last request."""
        self._persisted = election
        self._election = election or ElectionState(epoch=0)
        self.role: Role = Unattached(self._election.epoch)

    def _bootstrap_nodes(self) -> list[Node]:
        servers = self.settings.bootstrap_servers
        if servers:
            own = set(self.settings.endpoints.values())
            nodes = [Node(FIRST_BOOTSTRAP_ID - i, address) for i, address in enumerate(servers)]
            return [node for node in nodes if node.address not in own]
        listener = self.settings.listener_name
        return [
            Node(voter.key.id, voter.endpoints[listener])
            for voter in self.log.history.static_voters
            if listener in voter.endpoints and voter.key.id != self.settings.local.id
        ]

    # State

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def leader_id(self) -> int | None:
        return self.role.leader_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def high_watermark(self) -> int | None:
        """The offset below which all records are committed; None while this member does not know it."""
        return self.role.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self.log.history.voters

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.settings.local)

    @property
    def may_be_elected(self) -> bool:
        """Whether this member may be elected: a voter, or one that an uncommitted record has removed.

        The other voters may lack that record and need this member's log (Ongaro's thesis, 4.2.2). Kafka does
        not allow this, so its quorum can get stuck.
        """
        if self.is_voter:
            return True
        history = self.log.history
        offset, committed = history.voters_offset, self.high_watermark
        if offset is None or offset == BOOTSTRAP_OFFSET or (committed is not None and offset < committed):
            return False
        return history.former_voters.is_voter(self.settings.local)

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.log.end_offset, self.log.last_epoch)

    @property
    def is_shut_down(self) -> bool:
        """Whether the member may stop: the quorum no longer needs it.

        That is so if it is not a voter, is the only voter, another member leads, or no other is reachable.
        """
        local = self.settings.local
        if not self.is_voter or self.voters.is_only_voter(local):
            return True
        if self.shutdown_deadline_ms is not None and self._unreachable >= {*self.voters.ids} - {local.id}:
            return True  # there is no member that could be elected
        return self.leader_id not in (None, local.id)

    def take_effects(self) -> list[Effect]:
        """Return the pending effects and clear them."""
        effects, self.effects = self.effects, []
        return effects

    # Transitions

    def become_unattached(self, epoch: int, leader_id: int | None, now_ms: int) -> None:
        """Become unattached, because there is a newer epoch or a pre-vote was lost."""
        role = self.role
        assert epoch > role.epoch or isinstance(role, Prospective), f"unattached in {epoch} from {role}"
        deadline_ms = self._election_deadline(now_ms)
        if not self.may_be_elected:
            deadline_ms = inf
        elif isinstance(role, Candidate | Unattached | Resigned) or (
            isinstance(role, Prospective) and not role.ballot.is_lost
        ):
            deadline_ms = role.election_deadline_ms
        voted = role.voted if epoch == role.epoch else None
        self._become(Unattached(epoch, leader_id, voted, role.high_watermark, deadline_ms))
        self.connections.reset_all()
        self._persist()

    def vote_for(self, candidate: ReplicaKey, now_ms: int) -> None:
        """Vote for a candidate in this epoch, and restart the election timeout so that it has time to win."""
        assert isinstance(self.role, Unattached | Prospective)
        self.role.voted = candidate
        self.role.election_deadline_ms = self._election_deadline(now_ms)
        if isinstance(self.role, Prospective):
            self.role.ballot = Ballot(self.voters, self.settings.local)
        self._persist()

    def become_follower(self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int) -> None:
        """Follow a leader. If its endpoint is unknown, only note the epoch and leader id if they are new.

        Raises InconsistentQuorum if the leader is this node.
        """
        role = self.role
        if leader_id == self.settings.local.id:
            raise InconsistentQuorum(
                f"another member claims that this node, {leader_id}, leads epoch {epoch}"
            )
        if self.settings.listener_name not in endpoints:
            log.warning(
                "quorum leader has no endpoint for this listener leader=%d epoch=%d listener=%s",
                leader_id,
                epoch,
                self.settings.listener_name,
            )
            if epoch > role.epoch:
                self.become_unattached(epoch, leader_id, now_ms)
            return
        voted = role.voted if epoch == role.epoch else None
        self._become(self._following(epoch, leader_id, endpoints, voted, role.high_watermark, now_ms))
        self.connections.reset_all()
        self._persist()

    def _following(
        self,
        epoch: int,
        leader_id: int,
        endpoints: Endpoints,
        voted: ReplicaKey | None,
        high_watermark: int | None,
        now_ms: int,
    ) -> Follower:
        timeout_ms = self.settings.fetch_timeout_ms
        return Follower(
            epoch, leader_id, endpoints, voted, high_watermark, now_ms + timeout_ms, now_ms + timeout_ms
        )

    def become_prospective(self, now_ms: int) -> None:
        """Begin to ask for pre-votes; a sole voter becomes a candidate at once."""
        assert self.may_be_elected, f"{self.settings.local} is not one of {self.voters}"
        role = self.role
        ballot = Ballot(self.voters, self.settings.local)
        self._become(
            Prospective(
                role.epoch,
                role.leader_id,
                role.leader_endpoints,
                role.voted,
                role.high_watermark,
                ballot,
                self._election_deadline(now_ms),
            )
        )
        if ballot.is_won:
            self.become_candidate(now_ms)
        else:
            self.connections.reset_all()

    def become_candidate(self, now_ms: int) -> None:
        """Begin the next epoch with a vote for this member."""
        assert self.may_be_elected, f"{self.settings.local} is not one of {self.voters}"
        ballot = Ballot(self.voters, self.settings.local)
        self._become(
            Candidate(
                self.epoch + 1,
                self.settings.local,
                self.high_watermark,
                ballot,
                self._election_deadline(now_ms),
            )
        )
        self.connections.reset_all()
        self._persist()
        self._win_if_elected(now_ms)

    def nominee_gained(self, now_ms: int) -> None:
        """Handle a granted vote: take the next step of the election if the ballot is won."""
        if isinstance(self.role, Prospective) and self.role.ballot.is_won:
            self.become_candidate(now_ms)
        else:
            self._win_if_elected(now_ms)

    def _win_if_elected(self, now_ms: int) -> None:
        role = self.role
        if not isinstance(role, Candidate) or not role.ballot.is_won:
            return
        # The new leader drops its high watermark: only when its own first record is committed does it know
        # one that is not below those that earlier leaders reported.
        leader = Leader(
            self.settings.local,
            self.settings.endpoints,
            role.epoch,
            self.log.end_offset,
            self.voters,
            role.ballot.granting,
            self.settings.fetch_timeout_ms,
            now_ms,
        )
        if self.log.history.kraft_version == 0:
            leader.volatile_voters = self.voters.updated(self.settings.as_voter, any_directory=True)
        self._become(leader)
        self.connections.reset_all()
        self._persist()
        self.effects.append(BeginEpoch(leader.epoch))

    def lose_pre_vote(self, now_ms: int) -> None:
        """Return to following the leader if it is known and reachable, otherwise become unattached."""
        role = self.role
        assert isinstance(role, Prospective)
        if role.leader_id is not None and self.settings.listener_name in role.leader_endpoints:
            self.become_follower(role.epoch, role.leader_id, role.leader_endpoints, now_ms)
        else:
            self.become_unattached(role.epoch, role.leader_id, now_ms)

    def become_resigned(self, now_ms: int) -> None:
        """Stop leading; the member then notifies the other voters."""
        leader = self.role
        assert isinstance(leader, Leader)
        local = self.settings.local
        self._become(
            Resigned(
                leader.epoch,
                local.id,
                self.settings.endpoints,
                set(self.voters.ids) - {local.id},
                leader.successors(),
                self._election_deadline(now_ms),
            )
        )
        self.connections.reset_all()

    def _become(self, role: Role) -> None:
        """Change the role; a former leader rejects the requests that wait for it."""
        former = self.role
        assert type(role) in TRANSITIONS[type(former)], f"{former} does not become {role}"
        assert role.epoch >= former.epoch, f"epoch {role.epoch} after {former.epoch}"
        self.role = role
        if isinstance(former, Leader):
            self._stopped_leading(former)
        log.debug("quorum role=%s epoch=%d leader=%s", type(role).__name__, role.epoch, role.leader_id)

    @abstractmethod
    def _stopped_leading(self, former: Leader) -> None:
        """Reject the requests that wait for the former leader."""

    def _persist(self) -> None:
        """Request that the election is made durable before later effects; adjacent writes are merged."""
        role = self.role
        voted = role.voted
        election = ElectionState(
            role.epoch,
            role.leader_id,
            None if voted is None else voted.id,
            ZERO_UUID if voted is None else voted.directory_id,
            self.voters.ids,
        )
        if election == self._persisted:
            return
        self._persisted = election
        if self.effects and isinstance(self.effects[-1], Persist):
            self.effects.pop()
        self.effects.append(Persist(election))

    def _election_deadline(self, now_ms: int) -> float:
        timeout_ms = self.settings.election_timeout_ms
        return now_ms + timeout_ms + (self._rng.randrange(timeout_ms) if timeout_ms else 0)
