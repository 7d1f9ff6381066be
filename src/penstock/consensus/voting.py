"""Implements elections: votes, and the beginning and end of epochs (KIP-595, KIP-996)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.consensus.effects import Node
from penstock.consensus.errors import InconsistentQuorum
from penstock.consensus.leader import Leader
from penstock.consensus.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    View,
    VoteRequest,
    VoteResponse,
)
from penstock.consensus.roles import Candidate, Follower, Prospective, Resigned, Unattached
from penstock.consensus.voters import ReplicaKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from penstock.consensus.raft import Raft

log = logging.getLogger(__name__)

_FOREIGN = View(ErrorCode.INCONSISTENT_CLUSTER_ID, top_level=True)


def vote(raft: Raft, request: VoteRequest, now_ms: int) -> VoteResponse:
    """Handle a vote request. Observers vote too, because they may have become voters without knowing it."""
    if raft.is_foreign(request.cluster_id):
        return VoteResponse(_FOREIGN)
    last = request.last
    too_new = last.epoch > request.epoch if request.pre_vote else last.epoch >= request.epoch
    if too_new or last.offset < 0 or last.epoch < 0:
        return VoteResponse(raft.view(ErrorCode.INVALID_REQUEST))
    error = _refuse(raft, request.candidate.id, request.epoch)
    if error is not None:
        return VoteResponse(raft.view(error))
    if request.epoch > raft.epoch:
        raft.become_unattached(request.epoch, None, now_ms)
    if not _is_meant(raft, request.voter):
        return VoteResponse(raft.view(ErrorCode.INVALID_VOTER_KEY))
    granted = _can_grant(raft, request)
    if granted and not request.pre_vote:
        role = raft.role
        if isinstance(role, Unattached | Prospective) and role.voted is None:
            raft.vote_for(request.candidate, now_ms)
    log.info(
        "quorum vote answered pre_vote=%s epoch=%d candidate=%s granted=%s",
        request.pre_vote,
        request.epoch,
        request.candidate,
        granted,
    )
    return VoteResponse(raft.view(), granted)


def _can_grant(raft: Raft, request: VoteRequest) -> bool:
    is_up_to_date = request.last.reaches(raft.end)
    role = raft.role
    match role:
        case Leader():
            return False
        case Follower():
            return request.pre_vote and not role.has_fetched and is_up_to_date
        case Candidate() | Resigned():
            return request.pre_vote and is_up_to_date
        case Unattached() | Prospective():
            if request.pre_vote:
                return is_up_to_date
            if role.voted is not None:
                return role.voted.id == request.candidate.id and role.voted.directory_id in (
                    ZERO_UUID,
                    request.candidate.directory_id,
                )
            return role.leader_id is None and is_up_to_date


def voted(raft: Raft, node: Node, response: VoteResponse, now_ms: int) -> bool:
    """Handle a vote response. A voter without pre-votes (before Kafka 4.0) makes this member a candidate."""
    if response.view.error is ErrorCode.UNSUPPORTED_VERSION and isinstance(raft.role, Prospective):
        raft.become_candidate(now_ms)
        return True
    handled = raft.common_response(response.view, now_ms)
    if handled is not None:
        return handled
    role = raft.role
    if isinstance(role, Prospective | Candidate):
        role.ballot.record(node.id, granted=response.granted)
        if response.granted:
            raft.nominee_gained(now_ms)
        elif isinstance(role, Prospective) and role.ballot.is_lost:
            raft.lose_pre_vote(now_ms)
    return True


def begin_quorum_epoch(raft: Raft, request: BeginQuorumEpochRequest, now_ms: int) -> EpochResponse:
    """Handle the announcement of a new leader."""
    if raft.is_foreign(request.cluster_id):
        return EpochResponse(_FOREIGN)
    error = _refuse(raft, request.leader_id, request.epoch)
    if error is not None:
        return EpochResponse(raft.view(error))
    try:
        raft.hear_of_leader(request.leader_id, request.epoch, request.endpoints, now_ms)
    except InconsistentQuorum as inconsistent:
        log.error("BeginQuorumEpoch refused error=%s", inconsistent)
        return EpochResponse(raft.view(ErrorCode.INVALID_REQUEST))
    if not _is_meant(raft, request.voter):
        return EpochResponse(raft.view(ErrorCode.INVALID_VOTER_KEY))
    return EpochResponse(raft.view())


def end_quorum_epoch(raft: Raft, request: EndQuorumEpochRequest, now_ms: int) -> EpochResponse:
    """Handle a leader's resignation: its first successor stands for election at once, the others later."""
    if raft.is_foreign(request.cluster_id):
        return EpochResponse(_FOREIGN)
    error = _refuse(raft, request.leader_id, request.epoch)
    if error is not None:
        return EpochResponse(raft.view(error))
    try:
        raft.hear_of_leader(request.leader_id, request.epoch, request.endpoints, now_ms)
    except InconsistentQuorum as inconsistent:
        log.error("EndQuorumEpoch refused error=%s", inconsistent)
        return EpochResponse(raft.view(ErrorCode.INVALID_REQUEST))
    role = raft.role
    if isinstance(role, Follower) and role.leader_id == request.leader_id:
        role.fetch_deadline_ms = now_ms + _election_backoff_ms(raft, request.successors)
    return EpochResponse(raft.view())


def _election_backoff_ms(raft: Raft, successors: tuple[ReplicaKey, ...]) -> int:
    """The delay before an election: 0 for the first successor, then growing exponentially up to the limit.

    So the voter with the longest log tends to win.
    """
    local, limit_ms = raft.settings.local, raft.settings.election_backoff_max_ms
    for position, key in enumerate(successors):
        if key.id == local.id and key.directory_id in (ZERO_UUID, local.directory_id):
            if position == 0:
                return 0
            return min(limit_ms, (limit_ms >> (len(successors) - 1)) << (position - 1))
    return limit_ms if successors else 0


def epoch_acknowledged(raft: Raft, node: Node, response: EpochResponse, now_ms: int) -> bool:
    """Handle a voter's acknowledgement that this member leads or has resigned."""
    handled = raft.common_response(response.view, now_ms)
    if handled is not None:
        return handled
    if isinstance(raft.role, Resigned):
        raft.role.unacknowledged.discard(node.id)
    return True


def _refuse(raft: Raft, sender_id: int, epoch: int) -> ErrorCode | None:
    if epoch < raft.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if sender_id < 0 else None


def _is_meant(raft: Raft, voter: ReplicaKey | None) -> bool:
    """Whether the request is for this replica: the same node with another directory is another voter."""
    local = raft.settings.local
    return voter is None or (voter.id == local.id and voter.directory_id in (ZERO_UUID, local.directory_id))
