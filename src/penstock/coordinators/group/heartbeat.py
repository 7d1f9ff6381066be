"""Heartbeat: renews a member's session and reports whether it must rejoin."""

from penstock.coordinators.group.shard import Shard
from penstock.coordinators.group.states import ClassicGroupState
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import HeartbeatRequest

__all__ = ["handle_heartbeat"]


def handle_heartbeat(shard: Shard, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    """Renew the member's session, even if the answer asks it to rejoin."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = shard.classic_group(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    shard.renew_session(group, group.members[request.member_id], now_ms)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
