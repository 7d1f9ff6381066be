"""The two rounds of a rebalance: when they begin and end, and which members they remove.

Every function returns the records to append, most often none. See :mod:`.states` for the rules.
"""

import logging
from typing import Final

from penstock.coordinators.group.group import ClassicGroup
from penstock.coordinators.group.member import Member
from penstock.coordinators.group.records import group_record
from penstock.coordinators.group.shard import Shard, TimerKind
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.records import Records
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import JoinGroupResponse, SyncGroupResponse

__all__ = [
    "complete_join",
    "drop_assignments",
    "joined_response",
    "maybe_complete_join",
    "maybe_prepare_rebalance_or_complete_join",
    "on_join_timeout",
    "on_session_timeout",
    "on_sync_timeout",
    "prepare_rebalance",
    "publish_assignments",
    "sync_received",
]

log = logging.getLogger(__name__)

LEADER_ELECTION: Final = "sr"
"""The protocol type of schema registries.

Their groups elect a leader and assign nothing else, so one more round costs them less than the delay of the
first. Kafka delays them as well.
"""

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE


# -- the join round ----------------------------------------------------------------------------------


def maybe_prepare_rebalance_or_complete_join(
    shard: Shard, group: ClassicGroup, reason: str, now_ms: int
) -> Records:
    """Begin a join round, or end the running one if all members have joined."""
    if group.can_rebalance():
        return prepare_rebalance(shard, group, reason, now_ms)
    return maybe_complete_join(shard, group, now_ms)


def prepare_rebalance(shard: Shard, group: ClassicGroup, reason: str, now_ms: int) -> Records:
    """Begin a join round."""
    if group.state is COMPLETING:
        drop_assignments(shard, group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
    group.pending_sync_ids.clear()
    shard.timers.cancel((TimerKind.SYNC, group.group_id))
    log.info(
        "group rebalancing group=%s generation=%d state=%s reason=%s",
        group.group_id,
        group.generation_id,
        group.state.value,
        reason,
    )
    is_initial = group.state is EMPTY
    group.transition_to(PREPARING, now_ms)
    if is_initial:
        _delay_initial_join(shard, group, now_ms)
        return []
    if group.have_all_members_joined():
        return complete_join(shard, group, now_ms)
    _schedule_join_end(shard, group, now_ms)
    return []


def _delay_initial_join(shard: Shard, group: ClassicGroup, now_ms: int) -> None:
    delay_ms = _initial_delay_ms(shard, group)
    group.initial_join_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    shard.timers.schedule((TimerKind.JOIN, group.group_id), now_ms + delay_ms)


def _initial_delay_ms(shard: Shard, group: ClassicGroup) -> int:
    if group.protocol_type == LEADER_ELECTION:
        return 0
    return shard.config.group_initial_rebalance_delay_ms


def _schedule_join_end(shard: Shard, group: ClassicGroup, now_ms: int) -> None:
    shard.timers.schedule((TimerKind.JOIN, group.group_id), now_ms + group.rebalance_timeout_ms)


def on_join_timeout(shard: Shard, group_id: str, now_ms: int) -> Records:
    """End the join round at its timeout, or after the delay of a group's first round."""
    group = shard.classic_group(group_id)
    if group is None:
        return []
    remaining_ms = group.initial_join_remaining_ms
    if remaining_ms and group.new_member_added:
        # More members may follow: wait once more, but no longer than the rebalance timeout in total.
        delay_ms = _initial_delay_ms(shard, group)
        group.new_member_added = False
        group.initial_join_remaining_ms = max(remaining_ms - delay_ms, 0)
        shard.timers.schedule((TimerKind.JOIN, group_id), now_ms + min(delay_ms, remaining_ms))
        return []
    return complete_join(shard, group, now_ms)


def maybe_complete_join(shard: Shard, group: ClassicGroup, now_ms: int) -> Records:
    """End the join round if all members have joined; a group's first round lasts its full delay."""
    if group.state is not PREPARING or group.previous_state is EMPTY or not group.have_all_members_joined():
        return []
    return complete_join(shard, group, now_ms)


def complete_join(shard: Shard, group: ClassicGroup, now_ms: int) -> Records:
    """End the join round, and begin the next generation without dynamic members that did not rejoin.

    Missing static members stay until their sessions expire.
    """
    shard.timers.cancel((TimerKind.JOIN, group.group_id))
    group.initial_join_remaining_ms = 0
    group.new_member_added = False
    missing = [m for m in group.members.values() if m.join_ticket is None and not m.is_static]
    for member in missing:
        group.remove(member.member_id)
        shard.cancel_session(group, member.member_id)
    if missing:
        log.info(
            "members that did not rejoin removed group=%s members=%s",
            group.group_id,
            [m.member_id for m in missing],
        )

    if group.members and not group.elect_joined_leader():
        # Only static members are left and none has rejoined: wait until their sessions expire.
        _schedule_join_end(shard, group, now_ms)
        return []
    group.begin_next_generation(now_ms)
    if group.state is EMPTY:
        log.info("group empty group=%s generation=%d", group.group_id, group.generation_id)
        return [group_record(group, (), None, {})]
    log.info(
        "group joined group=%s members=%d generation=%d",
        group.group_id,
        len(group.members),
        group.generation_id,
    )
    _begin_sync(shard, group, now_ms)
    return []


def _begin_sync(shard: Shard, group: ClassicGroup, now_ms: int) -> None:
    for member in group.members.values():
        shard.answer_join(group, member, joined_response(group, member))
        shard.renew_session(group, member, now_ms)
        member.is_new = False
        group.pending_sync_ids.add(member.member_id)
    shard.timers.schedule((TimerKind.SYNC, group.group_id), now_ms + group.rebalance_timeout_ms)


def joined_response(
    group: ClassicGroup, member: Member, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Describe the current generation; the response to the leader lists all members."""
    members = []
    if group.leader_id == member.member_id:
        members = [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=other.member_id,
                group_instance_id=other.group_instance_id,
                metadata=other.metadata(group.protocol_name or ""),
            )
            for other in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=members,
    )


# -- the sync round ----------------------------------------------------------------------------------


def sync_received(shard: Shard, group: ClassicGroup, member_id: str) -> None:
    """Note that this member has synced; the round's timer ends with the last one."""
    group.pending_sync_ids.discard(member_id)
    if not group.pending_sync_ids:
        shard.timers.cancel((TimerKind.SYNC, group.group_id))


def on_sync_timeout(shard: Shard, group_id: str, now_ms: int) -> Records:
    """Remove members that joined but never synced, because partitions assigned to them would stay unread."""
    group = shard.classic_group(group_id)
    if group is None or not group.pending_sync_ids or group.state not in (COMPLETING, STABLE):
        return []
    missing = sorted(group.pending_sync_ids)
    for member_id in missing:
        group.remove(member_id)
        shard.cancel_session(group, member_id)
    return prepare_rebalance(shard, group, f"{missing} did not sync in time", now_ms)


def publish_assignments(
    shard: Shard, group: ClassicGroup, assignments: dict[str, bytes], now_ms: int
) -> None:
    """Set every member's assignment, and answer the parked SyncGroup requests."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    _answer_syncs(shard, group, ErrorCode.NONE, now_ms)


def drop_assignments(shard: Shard, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
    """Clear all assignments after a failed sync round; answer parked SyncGroup requests with the error."""
    for member in group.members.values():
        member.assignment = b""
    _answer_syncs(shard, group, error, now_ms)


def _answer_syncs(shard: Shard, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
    is_ok = error is ErrorCode.NONE
    for member in group.members.values():
        response = SyncGroupResponse(
            error_code=error,
            protocol_type=group.protocol_type if is_ok else None,
            protocol_name=group.protocol_name if is_ok else None,
            assignment=member.assignment,
        )
        if shard.answer_sync(member, response):
            # The session may have expired unnoticed while the request was parked, so it starts again here.
            shard.renew_session(group, member, now_ms)


# -- expired sessions --------------------------------------------------------------------------------


def on_session_timeout(shard: Shard, group_id: str, member_id: str, now_ms: int) -> Records:
    group = shard.classic_group(group_id)
    if group is None:
        return []
    if member_id in group.pending_join_ids:
        group.remove(member_id)
        return _complete_join_if_all_here(shard, group, now_ms)
    member = group.members.get(member_id)
    if member is None or member.is_excused:
        return []
    log.info("member session expired member=%s group=%s", member_id, group_id)
    # A new member may time out with its JoinGroup still parked. If it is alive, it joins again.
    shard.answer_join(group, member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=""))
    group.remove(member_id)
    if group.state in (STABLE, COMPLETING):
        return prepare_rebalance(shard, group, f"the session of {member_id} expired", now_ms)
    return _complete_join_if_all_here(shard, group, now_ms)


def _complete_join_if_all_here(shard: Shard, group: ClassicGroup, now_ms: int) -> Records:
    if group.state is PREPARING and group.have_all_members_joined():
        return complete_join(shard, group, now_ms)
    return []
