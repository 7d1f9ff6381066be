"""Does the time-driven work of each role: sends requests and acts on timeouts.

Each function returns the milliseconds until it must be called again if no event occurs earlier, or 0 if the
role has changed and must be polled at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from math import inf
from typing import TYPE_CHECKING

from penstock.consensus import membership, replication
from penstock.consensus.effects import Node
from penstock.consensus.leader import Leader
from penstock.consensus.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Request,
    VoteRequest,
)
from penstock.consensus.roles import Candidate, Follower, Prospective, Resigned, Unattached
from penstock.consensus.voters import ReplicaKey

if TYPE_CHECKING:
    from penstock.consensus.raft import Raft

log = logging.getLogger(__name__)


def poll(raft: Raft, now_ms: int) -> float:
    """Poll the role until it no longer changes. Returns the time of the next call in ms."""
    while True:
        role = raft.role
        wait_ms = _poll_role(raft, now_ms)
        if raft.role is role:
            return now_ms + max(1.0, wait_ms)


def _poll_role(raft: Raft, now_ms: int) -> float:
    match raft.role:
        case Leader():
            return _poll_leader(raft, raft.role, now_ms)
        case Prospective() | Candidate():
            return _poll_nominee(raft, raft.role, now_ms)
        case Follower():
            return _poll_follower(raft, raft.role, now_ms)
        case Unattached():
            return _poll_unattached(raft, raft.role, now_ms)
        case Resigned():
            return _poll_resigned(raft, raft.role, now_ms)


def _poll_leader(raft: Raft, leader: Leader, now_ms: int) -> float:
    leader.follow_voters(raft.voters)
    quorum_ms = leader.check_quorum_deadline_ms - now_ms
    if quorum_ms <= 0:
        log.warning("metadata quorum leader resigns: no majority fetches epoch=%d", leader.epoch)
    if quorum_ms <= 0 or leader.resign_requested or raft.shutdown_deadline_ms is not None:
        raft.become_resigned(now_ms)
        return 0.0
    change_ms = membership.expire(raft, leader, now_ms) - now_ms
    parked_ms = replication.expire_fetches(raft, leader, now_ms) - now_ms
    begin_ms = leader.begin_epoch_deadline_ms - now_ms
    if begin_ms <= 0:
        interval_ms = raft.settings.fetch_timeout_ms // 2
        silent = [
            progress.key
            for progress in leader.voters.values()
            if progress.key.id != leader.local.id and now_ms - progress.last_fetch_ms >= interval_ms
        ]
        begin_ms = _send_to_voters(
            raft,
            silent,
            lambda voter: BeginQuorumEpochRequest(
                raft.settings.cluster_id, voter, leader.local.id, leader.epoch, leader.leader_endpoints
            ),
            now_ms,
        )
        leader.begin_epoch_deadline_ms = now_ms + interval_ms
    return min(quorum_ms, change_ms, parked_ms, begin_ms)


def _poll_nominee(raft: Raft, nominee: Prospective | Candidate, now_ms: int) -> float:
    left_ms = nominee.election_deadline_ms - now_ms
    if raft.shutdown_deadline_ms is not None:
        left_ms = raft.shutdown_deadline_ms - now_ms
    elif left_ms <= 0:
        log.info("metadata quorum election not won in time epoch=%d", nominee.epoch)
        if isinstance(nominee, Candidate):
            raft.become_prospective(now_ms)
        else:
            raft.lose_pre_vote(now_ms)
        return 0.0
    if nominee.ballot.is_lost:
        return left_ms
    is_pre_vote = isinstance(nominee, Prospective)
    wait_ms = _send_to_voters(
        raft,
        nominee.ballot.unrecorded,
        lambda voter: VoteRequest(
            raft.settings.cluster_id, voter, nominee.epoch, raft.settings.local, raft.end, is_pre_vote
        ),
        now_ms,
    )
    return min(left_ms, wait_ms)


def _poll_follower(raft: Raft, follower: Follower, now_ms: int) -> float:
    if raft.shutdown_deadline_ms is not None:
        return raft.shutdown_deadline_ms - now_ms
    leader = Node(follower.leader_id, follower.leader_endpoints[raft.settings.listener_name])
    left_ms = inf
    if raft.may_be_elected:
        left_ms = follower.fetch_deadline_ms - now_ms
        if left_ms <= 0:
            log.info("metadata quorum leader does not respond leader=%d epoch=%d", leader.id, follower.epoch)
            raft.become_prospective(now_ms)
            return 0.0
    if follower.update_voter_deadline_ms <= now_ms:
        request = membership.own_change(raft, follower)
        if request is not None:
            if raft.connections.wait_ms(leader.id, now_ms) == 0:
                raft.send(leader, request, now_ms)
                follower.update_voter_deadline_ms = now_ms + raft.settings.fetch_timeout_ms
            return min(left_ms, max(1.0, raft.connections.wait_ms(leader.id, now_ms)))
        follower.update_voter_deadline_ms = now_ms + raft.settings.fetch_timeout_ms
    return min(left_ms, _fetch_from_leader(raft, follower, leader, now_ms))


def _fetch_from_leader(raft: Raft, follower: Follower, leader: Node, now_ms: int) -> float:
    """Fetch from the leader; if it does not respond, from a bootstrap server, which may know another one."""
    connections = raft.connections
    if connections.has_timed_out(leader.id, now_ms):
        connections.reset(leader.id)
        return _fetch_from_bootstrap(raft, now_ms)
    if connections.is_backing_off(leader.id, now_ms):
        return min(_fetch_from_bootstrap(raft, now_ms), connections.wait_ms(leader.id, now_ms))
    if connections.in_flight_ms(now_ms) > 0:
        return connections.in_flight_ms(now_ms)
    request: Request = (
        replication.fetch_snapshot_request(raft)
        if follower.fetching_snapshot
        else replication.fetch_request(raft)
    )
    raft.send(leader, request, now_ms)
    return connections.wait_ms(leader.id, now_ms)


def _fetch_from_bootstrap(raft: Raft, now_ms: int) -> float:
    node = raft.connections.ready_bootstrap(now_ms)
    if node is None:
        return raft.connections.bootstrap_wait_ms(now_ms)
    raft.send(node, replication.fetch_request(raft), now_ms)
    return raft.connections.wait_ms(node.id, now_ms)


def _poll_unattached(raft: Raft, unattached: Unattached, now_ms: int) -> float:
    left_ms = inf
    if raft.shutdown_deadline_ms is not None:
        return raft.shutdown_deadline_ms - now_ms
    if raft.may_be_elected:
        left_ms = unattached.election_deadline_ms - now_ms
        if left_ms <= 0:
            raft.become_prospective(now_ms)
            return 0.0
    return min(left_ms, _fetch_from_bootstrap(raft, now_ms))


def _poll_resigned(raft: Raft, resigned: Resigned, now_ms: int) -> float:
    """Notify the other voters for one election timeout, then become an ordinary voter in the next epoch."""
    unacknowledged = [key for key in raft.voters.keys if key.id in resigned.unacknowledged]
    wait_ms = _send_to_voters(
        raft,
        unacknowledged,
        lambda _: EndQuorumEpochRequest(
            raft.settings.cluster_id,
            resigned.leader_id,
            resigned.epoch,
            resigned.successors,
            resigned.leader_endpoints,
        ),
        now_ms,
    )
    if raft.shutdown_deadline_ms is not None:
        return min(wait_ms, raft.shutdown_deadline_ms - now_ms)
    left_ms = resigned.election_deadline_ms - now_ms
    if left_ms <= 0:
        raft.become_unattached(resigned.epoch + 1, None, now_ms)
        return 0.0
    return min(wait_ms, left_ms)


def _send_to_voters(
    raft: Raft, voters: Iterable[ReplicaKey], request: Callable[[ReplicaKey], Request], now_ms: int
) -> float:
    """Send to the voters that are ready. Returns the milliseconds until one of them must be polled again."""
    wait_ms = inf
    for key in voters:
        address = raft.voters.endpoints(key.id).get(raft.settings.listener_name)
        if address is None:
            continue
        if raft.connections.wait_ms(key.id, now_ms) == 0:
            raft.send(Node(key.id, address), request(key), now_ms)
        wait_ms = min(wait_ms, raft.connections.wait_ms(key.id, now_ms))
    return wait_ms
