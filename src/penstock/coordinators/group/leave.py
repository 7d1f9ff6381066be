"""LeaveGroup: removes one or several members at once (KIP-345)."""

from penstock.coordinators.group.group import ClassicGroup
from penstock.coordinators.group.rebalance import maybe_prepare_rebalance_or_complete_join
from penstock.coordinators.group.shard import Shard
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.records import Records
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupResponse,
)

__all__ = ["handle_leave_group"]

Leaver = LeaveGroupRequest.MemberIdentity


def handle_leave_group(
    shard: Shard, request: LeaveGroupRequest, now_ms: int
) -> tuple[Records, LeaveGroupResponse]:
    """Remove the given members; the remaining ones rebalance, and a group without members becomes Empty."""
    if not request.group_id:
        return [], LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    group = shard.classic_group(request.group_id)
    if group is None:
        errors = [ErrorCode.UNKNOWN_MEMBER_ID for _ in request.members]
    else:
        errors = [_leave(shard, group, leaver) for leaver in request.members]
    records: Records = []
    if group is not None and ErrorCode.NONE in errors and group.state is not ClassicGroupState.EMPTY:
        left = [m.member_id for m, error in zip(request.members, errors, strict=True) if not error]
        records = maybe_prepare_rebalance_or_complete_join(shard, group, f"{left} left", now_ms)
    return records, LeaveGroupResponse(
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.group_instance_id,
                error_code=error,
            )
            for leaver, error in zip(request.members, errors, strict=True)
        ]
    )


def _leave(shard: Shard, group: ClassicGroup, leaver: Leaver) -> ErrorCode:
    member_id = leaver.member_id
    if not member_id:
        # An administrator removes a static member by its instance id alone.
        member_id = group.static_ids.get(leaver.group_instance_id or "", "")
        if not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id not in group.pending_join_ids:
        error = group.validate_member(member_id, leaver.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
    _remove(shard, group, member_id)
    return ErrorCode.NONE


def _remove(shard: Shard, group: ClassicGroup, member_id: str) -> None:
    shard.cancel_session(group, member_id)
    member = group.members.get(member_id)
    if member is not None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        shard.answer_join(group, member, JoinGroupResponse(error_code=unknown, member_id=""))
        shard.answer_sync(member, SyncGroupResponse(error_code=unknown))
    group.remove(member_id)
