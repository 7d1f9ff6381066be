"""Raft as Kafka has it (KIP-595, KIP-853, KIP-996): a state machine without clock, disk or network.

The node that runs it feeds in what has happened, one thing at a time: `receive` (a request),
`receive_response`, `appended`, `flushed`, `poll` (time). Each may leave `effects`, to be carried out in
order before the next thing is fed in, and after each comes a `poll`, which sends what there is to send and
says when it wants the next.

**The rules that make it safe**

1. *One vote an epoch.* A vote is durable before it is given: the effect `Persist` comes before the `Reply`,
   and a candidate's vote for itself before its requests. The epoch never falls; it is at least the log's.
2. *A majority elects*, and only whose log is at least as up to date as the voter's own. Before it begins an
   epoch a voter asks whether it would be elected (KIP-996), so that one that was cut off disturbs nobody.
3. *A leader begins its epoch with a record*, a LeaderChange control batch, and appends nothing else first.
4. *The high watermark is what a majority has on disk* once that covers the leader's first record (`leader`).
5. *A follower's log is a prefix of the leader's*: each Fetch names the epoch of the follower's last record,
   and where the leader's differs the follower truncates; never below its high watermark.
6. *A leader that restarts does not resume its epoch.* It cannot know what of its last writes survived, so it
   has resigned.
7. *A leader that no majority fetches from resigns* (check quorum), and so does one that is voted out.
8. *One change of voters at a time*, by one voter, in force as soon as it is in the log (KIP-853).
"""

from __future__ import annotations

import logging
import random
from math import inf
from typing import Final

from penstock.consensus import membership, polling, replication, voting
from penstock.consensus.connections import Connections
from penstock.consensus.effects import BeginEpoch, Effect, Node, Persist, Reply, Send
from penstock.consensus.errors import InconsistentQuorum
from penstock.consensus.history import BOOTSTRAP_OFFSET
from penstock.consensus.leader import Leader
from penstock.consensus.log import OffsetAndEpoch, RaftLog
from penstock.consensus.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    ChangeResponse,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    Request,
    Response,
    SupportedVersionsRequest,
    SupportedVersionsResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
    View,
    VoteRequest,
    VoteResponse,
)
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
from penstock.protocol.errors import ErrorCode
from penstock.protocol.uuids import ZERO_UUID

log = logging.getLogger(__name__)

FIRST_BOOTSTRAP_ID: Final = -2


class Raft:
    """One member of the quorum, voter or observer."""

    def __init__(
        self, settings: RaftSettings, raft_log: RaftLog, rng: random.Random, election: ElectionState | None
    ) -> None:
        """``election`` is what the quorum-state file holds, None where there is none. `start` comes next."""
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
        """Until when a shutdown waits for another leader."""
        self._rng = rng
        self._correlation_id = 0
        self._unreachable: set[int] = set()
        """Members whose last answer did not come."""
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

    # What it is

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
        """Records below it are committed, now and for ever; None while this member doesn't know."""
        return self.role.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self.log.history.voters

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.settings.local)

    @property
    def may_be_elected(self) -> bool:
        """A voter; or one that was until a record that may not be committed: then the others may lack it, and
        need this member's log (Ongaro's thesis, 4.2.2). Kafka's voters stop there, and can get stuck."""
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
        """Nobody needs this member any more: it votes not, or alone, or another leads, or all are gone."""
        local = self.settings.local
        if not self.is_voter or self.voters.is_only_voter(local):
            return True
        if self.shutdown_deadline_ms is not None and self._unreachable >= {*self.voters.ids} - {local.id}:
            return True  # nobody is there who could be elected
        return self.leader_id not in (None, local.id)

    def take_effects(self) -> list[Effect]:
        """What is to be done, once."""
        effects, self.effects = self.effects, []
        return effects

    # What happens

    def start(self, now_ms: int) -> None:
        """Take up the role that the election state and the log's end leave to it."""
        election, local = self._election, self.settings.local
        if election.epoch < self.log.last_epoch:
            log.warning("quorum-state epoch=%d is behind the log's %d", election.epoch, self.log.last_epoch)
            self.role = Unattached(self.log.last_epoch, election_deadline_ms=self._election_deadline(now_ms))
        elif election.leader_id == local.id:
            self.role = Resigned(
                election.epoch,
                local.id,
                self.settings.endpoints,
                set(self.voters.ids) - {local.id},
                (),
                self._election_deadline(now_ms),
            )
        elif election.voted_key == local and self.may_be_elected:
            self.role = Candidate(
                election.epoch,
                local,
                None,
                Ballot(self.voters, local),
                self._election_deadline(now_ms),
            )
        else:
            self._start_unattached_or_following(election, now_ms)
        self._persist()
        if self.voters.is_only_voter(local):
            if isinstance(self.role, Candidate):
                self._win_if_elected(now_ms)
            else:
                self.become_prospective(now_ms)

    def _start_unattached_or_following(self, election: ElectionState, now_ms: int) -> None:
        voted = election.voted_key
        endpoints = {} if election.leader_id is None else self.voters.endpoints(election.leader_id)
        if election.leader_id is not None and self.settings.listener_name in endpoints:
            self.role = self._following(election.epoch, election.leader_id, endpoints, voted, None, now_ms)
        else:
            self.role = Unattached(
                election.epoch,
                election.leader_id,
                voted,
                election_deadline_ms=self._election_deadline(now_ms),
            )

    def receive(self, token: int, request: Request, now_ms: int) -> None:
        """A request of another member, or of an operator. `Reply` bears the token, at once or later."""
        response: Response | None
        match request:
            case VoteRequest():
                response = voting.vote(self, request, now_ms)
            case BeginQuorumEpochRequest():
                response = voting.begin_quorum_epoch(self, request, now_ms)
            case EndQuorumEpochRequest():
                response = voting.end_quorum_epoch(self, request, now_ms)
            case FetchRequest():
                response = replication.fetch(self, token, request, now_ms)
            case FetchSnapshotRequest():
                response = replication.fetch_snapshot(self, request, now_ms)
            case AddVoterRequest():
                response = membership.add_voter(self, token, request, now_ms)
            case RemoveVoterRequest():
                response = membership.remove_voter(self, token, request, now_ms)
            case UpdateVoterRequest():
                response = membership.update_voter(self, request, now_ms)
            case SupportedVersionsRequest():
                raise AssertionError("ApiVersions is answered by the node, not by its quorum")
        if response is not None:
            self.effects.append(Reply(token, response))

    def receive_response(
        self, node: Node, correlation_id: int, response: Response | None, now_ms: int
    ) -> None:
        """The response to a `Send`; None if there was none."""
        if not self.connections.is_expected(node.id, correlation_id):
            return
        if response is None:
            self._unreachable.add(node.id)
        else:
            self._unreachable.discard(node.id)
        try:
            handled = self._handle_response(node, response, now_ms)
        except InconsistentQuorum as error:
            log.error("quorum response passed over node=%d error=%s", node.id, error)
            handled = False
        if handled:
            self.connections.succeeded(node.id, correlation_id)
        else:
            self.connections.failed(node.id, correlation_id, now_ms)

    def _handle_response(self, node: Node, response: Response | None, now_ms: int) -> bool:
        """Whether it went well; else the node gets a pause."""
        match response:
            case VoteResponse():
                return voting.voted(self, node, response, now_ms)
            case EpochResponse():
                return voting.epoch_acknowledged(self, node, response, now_ms)
            case FetchResponse():
                return replication.fetched(self, node, response, now_ms)
            case FetchSnapshotResponse():
                return replication.snapshot_fetched(self, node, response, now_ms)
            case SupportedVersionsResponse():
                return membership.versions_told(self, node, response, now_ms)
            case UpdateVoterResponse():
                return membership.voter_updated(self, node, response, now_ms)
            case ChangeResponse():
                return membership.change_answered(self, node, response, now_ms)
            case None:
                membership.versions_untold(self, node)
                return False

    def begin_epoch(self, now_ms: int) -> None:
        """The election is durable (`BeginEpoch`): append the first batch of the epoch, unless it is over."""
        if isinstance(self.role, Leader) and not self.role.has_begun:
            kraft_version, voters = membership.first_voters(self)
            self.log.begin_epoch(
                self.epoch,
                self.settings.local.id,
                tuple(self.role.voters),
                self.role.granting,
                kraft_version,
                voters,
            )
            self.role.has_begun = True
            self.appended(now_ms)

    def appended(self, now_ms: int) -> None:
        """This leader's log has grown: followers that wait get what is new. `flushed` follows."""
        if isinstance(self.role, Leader):
            self.role.follow_voters(self.voters)
            replication.complete_fetches(self, now_ms, below=self.log.end_offset)

    def flushed(self, end_offset: int, now_ms: int) -> None:
        """This member's log is durable up to an offset."""
        leader = self.role
        if isinstance(leader, Leader) and leader.has_begun:
            leader.follow_voters(self.voters)
            if leader.flushed(end_offset):
                self.high_watermark_moved(now_ms)

    def snapshot_installed(self) -> None:
        """The log begins at the snapshot that was received (`InstallSnapshot`); all of it was committed."""
        if isinstance(self.role, Follower):
            self.role.high_watermark = max(self.role.high_watermark or 0, self.log.end_offset)

    def resign(self, epoch: int) -> None:
        """Lead no more, if it is this epoch that this member leads."""
        if isinstance(self.role, Leader) and self.epoch == epoch:
            self.role.resign_requested = True

    def shut_down(self, deadline_ms: float) -> None:
        """Lead no more, and stand for no election; `is_shut_down` tells when another leads."""
        self.shutdown_deadline_ms = deadline_ms

    def poll(self, now_ms: int) -> float:
        """Do what time demands, send what there is to send; when, in ms, to call again if nothing happens."""
        return polling.poll(self, now_ms)

    # Transitions

    def become_unattached(self, epoch: int, leader_id: int | None, now_ms: int) -> None:
        """Leave whatever it was: there is a newer epoch, or a pre-vote was lost."""
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
        """Give this epoch's vote, and the candidate time to win."""
        assert isinstance(self.role, Unattached | Prospective)
        self.role.voted = candidate
        self.role.election_deadline_ms = self._election_deadline(now_ms)
        if isinstance(self.role, Prospective):
            self.role.ballot = Ballot(self.voters, self.settings.local)
        self._persist()

    def become_follower(self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int) -> None:
        """Follow a leader; who cannot be reached is only taken note of."""
        role = self.role
        if leader_id == self.settings.local.id:
            raise InconsistentQuorum(
                f"this node, {leader_id}, is said to lead epoch {epoch}, which it does not"
            )
        if self.settings.listener_name not in endpoints:
            log.warning(
                "leader %d of epoch %d has no endpoint %s", leader_id, epoch, self.settings.listener_name
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
        """Ask whether it would be elected; a sole voter knows."""
        assert self.may_be_elected, f"{self.settings.local} is none of {self.voters}"
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
        """Begin the next epoch with a vote for itself."""
        assert self.may_be_elected, f"{self.settings.local} is none of {self.voters}"
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
        """A vote came in: go on if that was enough."""
        if isinstance(self.role, Prospective) and self.role.ballot.is_won:
            self.become_candidate(now_ms)
        else:
            self._win_if_elected(now_ms)

    def _win_if_elected(self, now_ms: int) -> None:
        role = self.role
        if not isinstance(role, Candidate) or not role.ballot.is_won:
            return
        # It does not keep its high watermark: only once its own first record is committed does it know one
        # that is nowhere behind what earlier leaders have told.
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
        """Back to where it was: following, if it knows whom."""
        role = self.role
        assert isinstance(role, Prospective)
        if role.leader_id is not None and self.settings.listener_name in role.leader_endpoints:
            self.become_follower(role.epoch, role.leader_id, role.leader_endpoints, now_ms)
        else:
            self.become_unattached(role.epoch, role.leader_id, now_ms)

    def become_resigned(self, now_ms: int) -> None:
        """Stop leading and say so to the other voters."""
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
        """Change the role; who waited for the former leader is sent away."""
        former = self.role
        assert type(role) in TRANSITIONS[type(former)], f"{former} does not become {role}"
        assert role.epoch >= former.epoch, f"epoch {role.epoch} after {former.epoch}"
        self.role = role
        if isinstance(former, Leader):
            replication.send_away(self, former)
            membership.abandon(self, former, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log.debug("quorum role=%s epoch=%d leader=%s", type(role).__name__, role.epoch, role.leader_id)

    def _persist(self) -> None:
        """Make the election durable before anything that follows; one write for what comes in one go."""
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

    # What the parts share

    def view(self, error: ErrorCode = ErrorCode.NONE) -> View:
        """What a response tells of this member."""
        return View(error, self.leader_id, self.epoch, self.role.leader_endpoints)

    def is_foreign(self, cluster_id: str | None) -> bool:
        """The sender belongs to another cluster; who names none is believed."""
        return cluster_id is not None and cluster_id != self.settings.cluster_id

    def refuse_leader_request(self, epoch: int) -> ErrorCode | None:
        """Why a request to the leader of ``epoch`` cannot be answered here."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not isinstance(self.role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.shutdown_deadline_ms is not None:
            return ErrorCode.BROKER_NOT_AVAILABLE
        return None

    def hear_of_leader(self, leader_id: int | None, epoch: int, endpoints: Endpoints, now_ms: int) -> None:
        """Another member names an epoch, and maybe its leader. Raises InconsistentQuorum."""
        self._check_leader(leader_id, epoch)
        if leader_id is not None and self.settings.listener_name not in endpoints:
            endpoints = self.voters.endpoints(leader_id)
        if epoch > self.epoch:
            if leader_id is None:
                self.become_unattached(epoch, None, now_ms)
            else:
                self.become_follower(epoch, leader_id, endpoints, now_ms)
        elif (
            epoch == self.epoch
            and leader_id is not None
            and leader_id != self.settings.local.id
            and (self.leader_id is None or len(endpoints) > len(self.role.leader_endpoints))
        ):
            self.become_follower(epoch, leader_id, endpoints, now_ms)

    def _check_leader(self, leader_id: int | None, epoch: int) -> None:
        if leader_id is None or epoch != self.epoch:
            return
        if leader_id == self.settings.local.id:
            if not isinstance(self.role, Leader | Resigned):
                raise InconsistentQuorum(f"this node is said to lead epoch {epoch}, in which it does not")
        elif self.leader_id not in (None, leader_id):
            raise InconsistentQuorum(f"epoch {epoch} is said to be led by {leader_id} and {self.leader_id}")

    def common_response(self, view: View, now_ms: int, own_errors: tuple[ErrorCode, ...] = ()) -> bool | None:
        """What all responses have in common: whether it went well when all is said, None when there is more.

        Kafka's rules: an old epoch is no news, a newer one is followed, a leader of this one is learned.
        ``own_errors`` are for the caller to judge. Raises InconsistentQuorum.
        """
        if view.top_level:
            log.warning("quorum request refused error=%s", view.error.name)
            return False
        if view.epoch < self.epoch or view.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            return True
        if view.epoch > self.epoch or view.error in (
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ):
            before = self.role
            self.hear_of_leader(view.leader_id, view.epoch, view.endpoints, now_ms)
            # A member that knows no more than this one is left alone for a moment, which Kafka does not do.
            return self.role is not before
        if view.leader_id is not None and self.leader_id is None:
            self.hear_of_leader(view.leader_id, view.epoch, view.endpoints, now_ms)
            return None if view.error is ErrorCode.NONE and isinstance(self.role, Follower) else True
        if view.error is ErrorCode.INVALID_VOTER_KEY:
            log.info("asked a node that is another voter than the one in the voter set")
            return True
        if view.error is ErrorCode.NONE or view.error in own_errors:
            return None
        log.debug("quorum request failed error=%s", view.error.name)
        return False

    def high_watermark_moved(self, now_ms: int) -> None:
        """As the leader: who waits for it hears of it, and changes of voters may be done."""
        membership.high_watermark_moved(self)
        replication.complete_fetches(self, now_ms, below=None)

    def send(self, node: Node, request: Request, now_ms: int) -> None:
        """Send a request to a node that is ready."""
        self._correlation_id += 1
        self.connections.sent(node.id, self._correlation_id, now_ms)
        self.effects.append(Send(node, self._correlation_id, request))

    def _election_deadline(self, now_ms: int) -> float:
        timeout_ms = self.settings.election_timeout_ms
        return now_ms + timeout_ms + (self._rng.randrange(timeout_ms) if timeout_ms else 0)
