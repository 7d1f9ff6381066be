"""Implements Kafka's Raft (KIP-595, KIP-853, KIP-996) as a state machine without clock, disk or network.

The node that runs it passes in events one at a time: `receive` (a request), `receive_response`, `appended`,
`flushed`, `poll` (time). Each call may add `effects`, which the node carries out in order before the next
event. After each event the node calls `poll`, which sends pending requests and returns the time of the next
call.

**The rules that make it safe**

1. *One vote per epoch.* A vote is durable before it is given: the effect `Persist` precedes the `Reply`, and
   a candidate's vote for itself precedes its requests. The epoch never decreases; it is at least the log's.
2. *A majority elects the leader.* A voter votes only for a candidate whose log is at least as up to date as
   its own. Before a voter begins an epoch, it asks whether it would be elected (KIP-996), so that a voter
   that was disconnected does not disrupt the quorum.
3. *A leader begins its epoch with a record*, a LeaderChange control batch, and appends nothing before it.
4. *The high watermark is the offset that a majority has on disk*, once it covers the leader's first record
   (`leader`).
5. *A follower's log is a prefix of the leader's*: each Fetch contains the epoch of the follower's last
   record. If the leader's log differs, the follower truncates, but never below its high watermark.
6. *A leader that restarts does not resume its epoch.* It cannot know which of its last writes survived, so it
   starts as resigned.
7. *A leader resigns if no majority fetches from it* (check quorum), or if it is removed from the voters.
8. *Voters change one at a time*, by one voter, and a change is in force once it is in the log (KIP-853).
"""

from __future__ import annotations

import logging
import random

from penstock.consensus import membership, polling, replication, voting
from penstock.consensus.effects import Node, Reply, Send
from penstock.consensus.errors import InconsistentQuorum
from penstock.consensus.leader import Leader
from penstock.consensus.log import RaftLog
from penstock.consensus.member import Member
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
    Ballot,
    Candidate,
    Follower,
    Resigned,
    Unattached,
)
from penstock.consensus.settings import RaftSettings
from penstock.consensus.voters import Endpoints
from penstock.protocol.errors import ErrorCode

log = logging.getLogger(__name__)


class Raft(Member):
    """One member of the quorum, voter or observer."""

    def __init__(
        self, settings: RaftSettings, raft_log: RaftLog, rng: random.Random, election: ElectionState | None
    ) -> None:
        """Make a member; the caller then calls `start`.

        ``election`` is the content of the quorum-state file, or None if there is no file.
        """
        super().__init__(settings, raft_log, rng, election)
        self._correlation_id = 0

    # Events

    def start(self, now_ms: int) -> None:
        """Enter the role that follows from the election state and the log's end."""
        election, local = self._election, self.settings.local
        if election.epoch < self.log.last_epoch:
            log.warning(
                "quorum-state is behind the log epoch=%d log_epoch=%d", election.epoch, self.log.last_epoch
            )
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
        """Handle a request of a member or an operator; a `Reply` with the token follows, now or later."""
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
        """Handle the response to a `Send`; None if there was none."""
        if not self.connections.is_expected(node.id, correlation_id):
            return
        if response is None:
            self._unreachable.add(node.id)
        else:
            self._unreachable.discard(node.id)
        try:
            handled = self._handle_response(node, response, now_ms)
        except InconsistentQuorum as error:
            log.error("quorum response ignored node=%d error=%s", node.id, error)
            handled = False
        if handled:
            self.connections.succeeded(node.id, correlation_id)
        else:
            self.connections.failed(node.id, correlation_id, now_ms)

    def _handle_response(self, node: Node, response: Response | None, now_ms: int) -> bool:
        """Handle a response. Returns False if the node must be retried only after a backoff."""
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
                return membership.versions_received(self, node, response, now_ms)
            case UpdateVoterResponse():
                return membership.voter_updated(self, node, response, now_ms)
            case ChangeResponse():
                return membership.change_answered(self, node, response, now_ms)
            case None:
                membership.versions_missing(self, node)
                return False

    def begin_epoch(self, now_ms: int) -> None:
        """Append the first batch of the epoch after `BeginEpoch`, unless the epoch is over."""
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
        """Answer waiting followers, as this leader's log has grown. `flushed` follows."""
        if isinstance(self.role, Leader):
            self.role.follow_voters(self.voters)
            replication.complete_fetches(self, now_ms, below=self.log.end_offset)

    def flushed(self, end_offset: int, now_ms: int) -> None:
        """Note that this member's log is durable up to an offset."""
        leader = self.role
        if isinstance(leader, Leader) and leader.has_begun:
            leader.follow_voters(self.voters)
            if leader.flushed(end_offset):
                self.high_watermark_moved(now_ms)

    def snapshot_installed(self) -> None:
        """Raise the high watermark after `InstallSnapshot`, as all records in a snapshot are committed."""
        if isinstance(self.role, Follower):
            self.role.high_watermark = max(self.role.high_watermark or 0, self.log.end_offset)

    def resign(self, epoch: int) -> None:
        """Resign at the next poll if this member leads the given epoch."""
        if isinstance(self.role, Leader) and self.epoch == epoch:
            self.role.resign_requested = True

    def shut_down(self, deadline_ms: float) -> None:
        """Stop leading and standing for election; `is_shut_down` shows when the member may stop."""
        self.shutdown_deadline_ms = deadline_ms

    def poll(self, now_ms: int) -> float:
        """Act on timeouts and send pending requests.

        Returns the time, in ms, of the next call if no event occurs earlier.
        """
        return polling.poll(self, now_ms)

    # Shared by the modules of this package

    def view(self, error: ErrorCode = ErrorCode.NONE) -> View:
        """The common part of a response: the error, and the epoch and leader that this member knows."""
        return View(error, self.leader_id, self.epoch, self.role.leader_endpoints)

    def is_foreign(self, cluster_id: str | None) -> bool:
        """Whether the sender belongs to another cluster; a sender without a cluster id is trusted."""
        return cluster_id is not None and cluster_id != self.settings.cluster_id

    def refuse_leader_request(self, epoch: int) -> ErrorCode | None:
        """The error if this member cannot answer a request to the leader of ``epoch``, else None."""
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
        """Handle an epoch, and possibly its leader, from another member. Raises InconsistentQuorum."""
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
                raise InconsistentQuorum(f"another member claims that this node leads epoch {epoch}")
        elif self.leader_id not in (None, leader_id):
            raise InconsistentQuorum(f"epoch {epoch} has two leaders, {leader_id} and {self.leader_id}")

    def common_response(self, view: View, now_ms: int, own_errors: tuple[ErrorCode, ...] = ()) -> bool | None:
        """Handle the common part of a response. Raises InconsistentQuorum.

        Returns None if the caller must handle the rest of the response, otherwise whether it succeeded.
        Kafka's rules apply: a response of an old epoch is ignored, a newer epoch is adopted, and an unknown
        leader of this epoch is learned. The caller handles the errors in ``own_errors``.
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
            # If the response added nothing new, the node gets a backoff, unlike in Kafka.
            return self.role is not before
        if view.leader_id is not None and (self.leader_id is None or isinstance(self.role, Unattached)):
            # An unattached member may have read the leader's id from disk, but does not know its endpoints.
            self.hear_of_leader(view.leader_id, view.epoch, view.endpoints, now_ms)
            return None if view.error is ErrorCode.NONE and isinstance(self.role, Follower) else True
        if view.error is ErrorCode.INVALID_VOTER_KEY:
            log.info("quorum request reached a node whose voter key is not the one in the voter set")
            return True
        if view.error is ErrorCode.NONE or view.error in own_errors:
            return None
        log.debug("quorum request failed error=%s", view.error.name)
        return False

    def high_watermark_moved(self, now_ms: int) -> None:
        """Answer waiting fetches and complete changes of voters, as the leader's high watermark moved."""
        membership.high_watermark_moved(self)
        replication.complete_fetches(self, now_ms, below=None)

    def send(self, node: Node, request: Request, now_ms: int) -> None:
        """Send a request to a node that is ready."""
        self._correlation_id += 1
        self.connections.sent(node.id, self._correlation_id, now_ms)
        self.effects.append(Send(node, self._correlation_id, request))

    def _stopped_leading(self, former: Leader) -> None:
        replication.send_away(self, former)
        membership.abandon(self, former, ErrorCode.NOT_LEADER_OR_FOLLOWER)
