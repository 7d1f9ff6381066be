"""Implements Fetch and FetchSnapshot of the metadata log for leader and follower (KIP-595, KIP-630)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.consensus.effects import Flush, InstallSnapshot, Node, Reply, Truncate
from penstock.consensus.errors import CommittedRecordsLost
from penstock.consensus.leader import Leader, ParkedFetch
from penstock.consensus.log import (
    BOOTSTRAP_SNAPSHOT,
    Diverging,
    NeedsSnapshot,
    check_position,
    truncation_offset,
)
from penstock.consensus.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    View,
)
from penstock.consensus.roles import Follower
from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.consensus.raft import Raft

log = logging.getLogger(__name__)

_FOREIGN = View(ErrorCode.INCONSISTENT_CLUSTER_ID, top_level=True)


# The leader


def fetch(raft: Raft, token: int, request: FetchRequest, now_ms: int) -> FetchResponse | None:
    """Handle a Fetch. Returns None if the follower has to wait; a `Reply` follows later."""
    if raft.is_foreign(request.cluster_id):
        return FetchResponse(_FOREIGN)
    if (
        request.max_wait_ms < 0
        or request.offset < 0
        or request.last_epoch < 0
        or request.last_epoch > request.epoch
    ):
        return FetchResponse(raft.view(ErrorCode.INVALID_REQUEST))
    response = _try_fetch(raft, request, now_ms)
    if (
        isinstance(raft.role, Leader)
        and response.view.error is ErrorCode.NONE
        and not response.records
        and response.instead is None
        and response.high_watermark <= request.high_watermark
        and request.max_wait_ms > 0
    ):
        raft.role.parked.append(ParkedFetch(token, request, now_ms + request.max_wait_ms))
        return None
    return response


def _try_fetch(raft: Raft, request: FetchRequest, now_ms: int) -> FetchResponse:
    error = raft.refuse_leader_request(request.epoch)
    if error is not None:
        return FetchResponse(raft.view(error))
    leader = raft.role
    assert isinstance(leader, Leader)
    if request.replica.id == leader.local.id:
        log.error(
            "a replica fetches with the id of its leader leader=%s replica=%s", leader.local, request.replica
        )
        return FetchResponse(raft.view(ErrorCode.UNKNOWN_SERVER_ERROR))
    instead: Diverging | NeedsSnapshot | None
    latest = raft.log.latest_snapshot
    if request.offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        instead = NeedsSnapshot(latest)  # always cheaper than reading the log from its start
    else:
        instead = check_position(raft.log, request.offset, request.last_epoch)
    records = b""
    if instead is None:
        records = raft.log.read(request.offset, request.max_bytes)
        leader.follow_voters(raft.voters)
        if request.replica.id >= 0 and leader.fetched(
            request.replica, request.offset, raft.log.end_offset, now_ms
        ):
            raft.high_watermark_moved(now_ms)
    return _fetch_response(raft, leader, records, instead)


def _fetch_response(
    raft: Raft, leader: Leader, records: bytes = b"", instead: Diverging | NeedsSnapshot | None = None
) -> FetchResponse:
    return FetchResponse(
        raft.view(),
        -1 if leader.high_watermark is None else leader.high_watermark,
        raft.log.start_offset,
        records,
        instead,
    )


def complete_fetches(raft: Raft, now_ms: int, *, below: int | None) -> None:
    """Answer the waiting fetches, or only those below the offset ``below``, with the current state."""
    leader = raft.role
    if not isinstance(leader, Leader):
        return
    waiting, leader.parked = leader.parked, []
    for parked in waiting:
        if below is not None and parked.request.offset >= below:
            leader.parked.append(parked)
        else:
            raft.effects.append(Reply(parked.token, _try_fetch(raft, parked.request, now_ms)))


def expire_fetches(raft: Raft, leader: Leader, now_ms: int) -> float:
    """Answer the fetches whose wait has expired. Returns the next deadline in ms."""
    due = [parked for parked in leader.parked if parked.deadline_ms <= now_ms]
    if due:
        leader.parked = [parked for parked in leader.parked if parked.deadline_ms > now_ms]
        for parked in due:
            raft.effects.append(Reply(parked.token, _fetch_response(raft, leader)))
    return min((parked.deadline_ms for parked in leader.parked), default=float("inf"))


def send_away(raft: Raft, former: Leader) -> None:
    """Reject the waiting fetches, as this member no longer leads, so that followers find the new leader."""
    for parked in former.parked:
        response = FetchResponse(raft.view(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        raft.effects.append(Reply(parked.token, response))
    former.parked = []


def fetch_snapshot(raft: Raft, request: FetchSnapshotRequest, now_ms: int) -> FetchSnapshotResponse:
    """Return a piece of a snapshot's file."""
    if raft.is_foreign(request.cluster_id):
        return FetchSnapshotResponse(_FOREIGN)
    error = raft.refuse_leader_request(request.epoch)
    if error is not None:
        return FetchSnapshotResponse(raft.view(error))
    leader = raft.role
    assert isinstance(leader, Leader)
    piece = None
    if request.snapshot != BOOTSTRAP_SNAPSHOT:
        piece = raft.log.snapshot_piece(request.snapshot, max(0, request.position), request.max_bytes)
    if piece is None:
        return FetchSnapshotResponse(raft.view(ErrorCode.SNAPSHOT_NOT_FOUND))
    data, size = piece
    if not 0 <= request.position < size:
        return FetchSnapshotResponse(raft.view(ErrorCode.POSITION_OUT_OF_RANGE))
    leader.heard_of(request.replica, now_ms)
    return FetchSnapshotResponse(raft.view(), request.snapshot, size, request.position, data)


# The follower


def fetch_request(raft: Raft) -> FetchRequest:
    """Make the Fetch request for the leader, or for a node that may know it."""
    settings, end = raft.settings, raft.end
    return FetchRequest(
        settings.cluster_id,
        settings.local,
        raft.epoch,
        end.offset,
        end.epoch,
        settings.fetch_max_bytes,
        settings.fetch_max_wait_ms,
        -1 if raft.high_watermark is None else raft.high_watermark,
    )


def fetched(raft: Raft, node: Node, response: FetchResponse, now_ms: int) -> bool:
    """Handle a Fetch response: append records, truncate, or fetch a snapshot. Raises CommittedRecordsLost.

    Returns False if the request must be retried after a backoff.
    """
    handled = raft.common_response(response.view, now_ms)
    if handled is not None:
        return handled
    follower = raft.role
    if not isinstance(follower, Follower):
        return True
    match response.instead:
        case Diverging(end):
            offset = truncation_offset(raft.log, end)
            if offset < (follower.high_watermark or 0):
                raise CommittedRecordsLost(
                    f"the leader, node {follower.leader_id}, has a log of epoch {end.epoch} up to offset "
                    f"{end.offset}; all records up to {follower.high_watermark} are known to be committed"
                )
            log.info(
                "metadata log diverges from that of the leader offset=%d end=%d", offset, raft.log.end_offset
            )
            raft.effects.append(Truncate(offset))
        case NeedsSnapshot(snapshot):
            follower.fetching_snapshot = raft.log.receive_snapshot(snapshot)
            log.info("fetching metadata snapshot end_offset=%d epoch=%d", *snapshot)
        case None:
            if not _append(raft, follower, response):
                return False
    _heard_from_leader(raft, follower, now_ms)
    return True


def _append(raft: Raft, follower: Follower, response: FetchResponse) -> bool:
    if response.records:
        if not raft.log.append_fetched(response.records):
            return False
        if raft.is_voter or raft.settings.can_become_voter:
            raft.effects.append(Flush())
    if response.high_watermark >= 0:
        follower.leader_high_watermark = response.high_watermark
        reached = min(response.high_watermark, raft.log.end_offset)
        follower.high_watermark = max(reached, follower.high_watermark or 0)
    return True


def fetch_snapshot_request(raft: Raft) -> FetchSnapshotRequest:
    settings, receiving = raft.settings, raft.log.receiving_snapshot
    assert receiving is not None, "no snapshot is being fetched"
    snapshot, position = receiving
    return FetchSnapshotRequest(
        settings.cluster_id,
        settings.local,
        raft.epoch,
        snapshot,
        position,
        settings.fetch_snapshot_max_bytes,
    )


def snapshot_fetched(raft: Raft, node: Node, response: FetchSnapshotResponse, now_ms: int) -> bool:
    """Handle the next piece of a snapshot; drop an unexpected piece and start the snapshot fetch again."""
    handled = raft.common_response(
        response.view, now_ms, (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
    )
    if handled is not None:
        return handled
    follower = raft.role
    if not isinstance(follower, Follower):
        return True
    if not follower.fetching_snapshot or response.view.error is not ErrorCode.NONE:
        log.info("leader no longer has the metadata snapshot error=%s", response.view.error.name)
        follower.fetching_snapshot = False
    elif raft.log.receiving_snapshot != (response.snapshot, response.position):
        log.error(
            "unexpected piece of a metadata snapshot found=%s:%d expected=%s",
            response.snapshot,
            response.position,
            raft.log.receiving_snapshot,
        )
        follower.fetching_snapshot = False
    else:
        raft.log.receive_snapshot_piece(response.data)
        if response.position + len(response.data) >= response.size:
            follower.fetching_snapshot = False
            raft.effects.append(InstallSnapshot())
    _heard_from_leader(raft, follower, now_ms)
    return True


def _heard_from_leader(raft: Raft, follower: Follower, now_ms: int) -> None:
    follower.has_fetched = True
    follower.fetch_deadline_ms = now_ms + raft.settings.fetch_timeout_ms
