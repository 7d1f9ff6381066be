"""Handles changes of the voters, one at a time and by one voter (KIP-853), and a node's request to join them.

A change is in force as soon as its VotersRecord is in a log, and is complete when the new voters have
committed it. Until then, other changes are answered with REQUEST_TIMED_OUT, as in Kafka, so that the client
retries.
"""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING

from penstock.consensus.effects import Node, Reply
from penstock.consensus.history import BOOTSTRAP_OFFSET
from penstock.consensus.leader import Leader, PendingChange
from penstock.consensus.messages import (
    AddVoterRequest,
    ChangeResponse,
    RemoveVoterRequest,
    Request,
    SupportedVersionsRequest,
    SupportedVersionsResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
    View,
)
from penstock.consensus.roles import Follower
from penstock.consensus.settings import KRAFT_VERSIONS
from penstock.consensus.voters import Voter, VoterSet
from penstock.protocol.errors import ErrorCode
from penstock.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from penstock.consensus.raft import Raft

log = logging.getLogger(__name__)

_FOREIGN = View(ErrorCode.INCONSISTENT_CLUSTER_ID, top_level=True)


def first_voters(raft: Raft) -> tuple[int | None, VoterSet | None]:
    """The version and the voters that a new leader writes after its LeaderChange; (None, None) if not needed.

    They are needed if the log does not have them yet, or has other endpoints of this node.
    """
    history, local = raft.log.history, raft.settings.as_voter
    if history.kraft_version == 0:
        return None, None
    if history.voters_offset != BOOTSTRAP_OFFSET and not history.voters.needs_update(local):
        return None, None
    return history.kraft_version, history.voters.updated(local)


# The leader


def add_voter(raft: Raft, token: int, request: AddVoterRequest, now_ms: int) -> ChangeResponse | None:
    """Add a replica that already follows, after asking it for the versions that it supports."""
    refused = _refuse(raft, request.cluster_id, now_ms, "adding")
    if refused is not None:
        return refused
    leader, voter = raft.role, request.voter
    assert isinstance(leader, Leader)
    if voter.id < 0 or voter.directory_id == ZERO_UUID:
        return ChangeResponse(ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter")
    address = request.endpoints.get(raft.settings.listener_name)
    if address is None:
        return ChangeResponse(
            ErrorCode.INVALID_REQUEST,
            f"Add voter request didn't include the endpoint of the listener {raft.settings.listener_name}, "
            f"found {', '.join(request.endpoints) or 'none'}",
        )
    refused = _refuse_now(raft, leader)
    if refused is not None:
        return refused
    if voter.id in raft.voters.ids:
        return ChangeResponse(
            ErrorCode.DUPLICATE_VOTER, f"The voter id for {voter} is already part of {raft.voters}"
        )
    if raft.connections.wait_ms(voter.id, now_ms) > 0:
        return ChangeResponse(
            ErrorCode.REQUEST_TIMED_OUT, f"New voter {voter} is not ready to receive requests"
        )
    raft.send(Node(voter.id, address), SupportedVersionsRequest(), now_ms)
    leader.pending = PendingChange(
        deadline_ms=now_ms + raft.settings.request_timeout_ms,
        token=token,
        added=voter,
        endpoints=request.endpoints,
        ack_when_committed=request.ack_when_committed,
    )
    return None


def versions_received(raft: Raft, node: Node, response: SupportedVersionsResponse, now_ms: int) -> bool:
    """Handle the versions that the replica to be added supports; append the new voters if all is well.

    Returns False if the request failed.
    """
    leader = raft.role
    if not isinstance(leader, Leader) or (pending := _awaiting_versions(leader, node)) is None:
        return True
    assert pending.added is not None
    version = raft.log.history.kraft_version
    known = response.kraft_versions
    if response.error is not ErrorCode.NONE:
        _finish(
            raft,
            leader,
            ErrorCode.REQUEST_TIMED_OUT,
            f"Aborted add voter operation: ApiVersions returned {response.error.name}",
        )
        return False
    if known is None or not known[0] <= version <= known[1]:
        lowest, highest = known or (0, 0)
        _finish(
            raft,
            leader,
            ErrorCode.INVALID_REQUEST,
            f"Aborted add voter operation for {pending.added}: it knows kraft.version {lowest} to {highest}, "
            f"finalized is {version}",
        )
        return True
    if not leader.is_caught_up(pending.added, now_ms):
        _finish(
            raft,
            leader,
            ErrorCode.REQUEST_TIMED_OUT,
            f"Aborted add voter operation for {pending.added} since it is lagging behind",
        )
        return True
    voters = raft.voters.added(Voter(pending.added, pending.endpoints, *known))
    assert voters is not None, "another change was made meanwhile"
    pending.offset = raft.log.append_voters(raft.epoch, None, voters)
    if not pending.ack_when_committed and pending.token is not None:
        raft.effects.append(Reply(pending.token, ChangeResponse(ErrorCode.NONE)))
        pending.token = None
    raft.appended(now_ms)
    return True


def versions_missing(raft: Raft, node: Node) -> None:
    """Handle a missing response; if the node is the replica to be added, abort the change."""
    leader = raft.role
    if isinstance(leader, Leader) and _awaiting_versions(leader, node) is not None:
        message = "Aborted add voter operation: the new voter did not answer"
        _finish(raft, leader, ErrorCode.REQUEST_TIMED_OUT, message)


def _awaiting_versions(leader: Leader, node: Node) -> PendingChange | None:
    pending = leader.pending
    if pending is None or pending.added is None or pending.offset is not None:
        return None
    return pending if pending.added.id == node.id else None


def remove_voter(raft: Raft, token: int, request: RemoveVoterRequest, now_ms: int) -> ChangeResponse | None:
    """Remove a voter. If it is this leader, the leader resigns once the change is committed."""
    refused = _refuse(raft, request.cluster_id, now_ms, "removing")
    if refused is not None:
        return refused
    leader = raft.role
    assert isinstance(leader, Leader)
    if request.voter.id < 0 or request.voter.directory_id == ZERO_UUID:
        return ChangeResponse(ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
    refused = _refuse_now(raft, leader)
    if refused is not None:
        return refused
    voters = raft.voters.removed(request.voter)
    if voters is None:
        return ChangeResponse(
            ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {request.voter} from {raft.voters}"
        )
    offset = raft.log.append_voters(raft.epoch, None, voters)
    leader.pending = PendingChange(now_ms + raft.settings.request_timeout_ms, token, offset)
    raft.appended(now_ms)
    return None


def update_voter(raft: Raft, request: UpdateVoterRequest, now_ms: int) -> UpdateVoterResponse:
    """Update the endpoints and versions of a voter. With kraft.version 0 they are kept in memory only."""
    if raft.is_foreign(request.cluster_id):
        return UpdateVoterResponse(raft.view(ErrorCode.INCONSISTENT_CLUSTER_ID))
    error = raft.refuse_leader_request(request.epoch)
    if error is None:
        error = _update_voter(raft, request, now_ms)
    return UpdateVoterResponse(raft.view(ErrorCode.NONE if error is None else error))


def _update_voter(raft: Raft, request: UpdateVoterRequest, now_ms: int) -> ErrorCode | None:
    leader, history = raft.role, raft.log.history
    assert isinstance(leader, Leader)
    lowest, highest = request.min_kraft_version, request.max_kraft_version
    if (
        request.voter.id < 0
        or request.voter.directory_id == ZERO_UUID
        or raft.settings.listener_name not in request.endpoints
        or not 0 <= lowest <= highest
    ):
        return ErrorCode.INVALID_REQUEST
    if leader.pending is not None or leader.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if history.kraft_version == 0:
        current = leader.volatile_voters
    else:
        current = history.voters if _is_committed(raft, leader) else None
    if current is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if not lowest <= history.kraft_version <= highest:
        return ErrorCode.INVALID_REQUEST
    voter = Voter(request.voter, request.endpoints, lowest, highest)
    voters = current.updated(voter, any_directory=history.kraft_version == 0)
    if voters is None:
        return ErrorCode.VOTER_NOT_FOUND
    if history.kraft_version == 0:
        leader.volatile_voters = voters
    else:
        raft.log.append_voters(raft.epoch, None, voters)
        raft.appended(now_ms)
    leader.heard_of(request.voter, now_ms)
    return None


def upgrade(raft: Raft, kraft_version: int, now_ms: int, *, validate_only: bool) -> str | None:
    """Finalize ``kraft.version`` 1, which keeps voters in the log.

    Returns the reason if that is impossible, otherwise None.
    """
    leader, history = raft.role, raft.log.history
    assert isinstance(leader, Leader), "only the leader writes the version"
    if kraft_version == history.kraft_version:
        return None
    if not history.kraft_version < kraft_version <= KRAFT_VERSIONS[1]:
        return f"kraft.version {kraft_version} cannot follow {history.kraft_version}"
    voters = leader.volatile_voters
    if voters is None or not voters.supports(kraft_version):
        return f"not all voters are known to support kraft.version {kraft_version}"
    if any(key.directory_id == ZERO_UUID for key in voters.keys):
        return f"the directory ids of some voters are not known yet: {voters}"
    if not validate_only:
        leader.volatile_voters = None
        raft.log.append_voters(raft.epoch, kraft_version, voters)
        raft.appended(now_ms)
    return None


def high_watermark_moved(raft: Raft) -> None:
    """Complete a change that is now committed; if it removed the leader, the leader resigns."""
    leader = raft.role
    if not isinstance(leader, Leader) or leader.high_watermark is None:
        return
    pending = leader.pending
    if pending is not None and pending.offset is not None and leader.high_watermark > pending.offset:
        _finish(raft, leader, ErrorCode.NONE)
    if not raft.is_voter and _is_committed(raft, leader) and not leader.resign_requested:
        log.info("metadata quorum leader resigns: it is no longer a voter epoch=%d", leader.epoch)
        leader.resign_requested = True


def expire(raft: Raft, leader: Leader, now_ms: int) -> float:
    """Abort a change whose deadline has passed. Returns the next deadline in ms."""
    if leader.pending is not None and leader.pending.deadline_ms <= now_ms:
        _finish(raft, leader, ErrorCode.REQUEST_TIMED_OUT)
    return inf if leader.pending is None else leader.pending.deadline_ms


def abandon(raft: Raft, former: Leader, error: ErrorCode) -> None:
    """Abort the pending change, as this member no longer leads."""
    _finish(raft, former, error)


def _finish(raft: Raft, leader: Leader, error: ErrorCode, message: str | None = None) -> None:
    pending, leader.pending = leader.pending, None
    if pending is not None and pending.token is not None:
        raft.effects.append(Reply(pending.token, ChangeResponse(error, message)))


def _refuse(raft: Raft, cluster_id: str | None, now_ms: int, doing: str) -> ChangeResponse | None:
    """The error response if this member cannot serve the request at all, else None."""
    if raft.is_foreign(cluster_id):
        return ChangeResponse(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "{cluster_id}" doesn\'t match the cluster id "{raft.settings.cluster_id}"',
        )
    error = raft.refuse_leader_request(raft.epoch)
    if error is not None:
        return ChangeResponse(error)
    leader = raft.role
    assert isinstance(leader, Leader)
    expire(raft, leader, now_ms)
    return None


def _refuse_now(raft: Raft, leader: Leader) -> ChangeResponse | None:
    """The error response if no change is possible now, else None."""
    if leader.pending is not None:
        message = "Request timed out waiting for leader to handle previous voter change request"
        return ChangeResponse(ErrorCode.REQUEST_TIMED_OUT, message)
    if leader.high_watermark is None:
        message = "Request timed out waiting for leader to establish HWM and fence previous voter changes"
        return ChangeResponse(ErrorCode.REQUEST_TIMED_OUT, message)
    version = raft.log.history.kraft_version
    if version == 0:
        message = "Cluster doesn't support changing voters because the kraft.version feature is 0"
        return ChangeResponse(ErrorCode.UNSUPPORTED_VERSION, message)
    if not _is_committed(raft, leader):
        message = "Request timed out waiting for voters to commit the latest voter change"
        return ChangeResponse(ErrorCode.REQUEST_TIMED_OUT, message)
    return None


def _is_committed(raft: Raft, leader: Leader) -> bool:
    offset = raft.log.history.voters_offset
    return offset is not None and leader.high_watermark is not None and offset < leader.high_watermark


# The follower


def own_change(raft: Raft, follower: Follower) -> Request | None:
    """The request that this node sends to the leader for itself, if any: to update its entry or to join."""
    settings, history = raft.settings, raft.log.history
    if raft.is_voter:
        if history.kraft_version == 0:
            needed = not follower.has_updated_leader
        else:
            needed = history.voters.needs_update(settings.as_voter)
        return (
            UpdateVoterRequest(
                settings.cluster_id, raft.epoch, settings.local, settings.endpoints, *KRAFT_VERSIONS
            )
            if needed
            else None
        )
    if history.kraft_version == 0 or not settings.can_become_voter or not settings.auto_join:
        return None
    known = history.voters.get(settings.local.id)
    if known is not None:  # the entry of this node with a directory that it has lost
        return RemoveVoterRequest(settings.cluster_id, known.key)
    return AddVoterRequest(settings.cluster_id, settings.local, settings.endpoints, ack_when_committed=False)


def voter_updated(raft: Raft, node: Node, response: UpdateVoterResponse, now_ms: int) -> bool:
    handled = raft.common_response(response.view, now_ms, (ErrorCode.UNSUPPORTED_VERSION,))
    if handled is None and isinstance(raft.role, Follower):
        raft.role.has_updated_leader = True
        raft.role.has_fetched = True
        raft.role.fetch_deadline_ms = now_ms + raft.settings.fetch_timeout_ms
    return handled is not False


def change_answered(raft: Raft, node: Node, response: ChangeResponse, now_ms: int) -> bool:
    """Handle the response to this node's own request to join; the log shows whether it succeeded."""
    if response.error not in (
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.VOTER_NOT_FOUND,
    ):
        log.info("joining the voters failed error=%s message=%s", response.error.name, response.message or "")
        return False
    if isinstance(raft.role, Follower):
        raft.role.update_voter_deadline_ms = now_ms + raft.settings.fetch_timeout_ms
    return True
