"""SyncGroup: the leader sends the assignment, and every member receives its part of it."""

from penstock.coordinators.group.group import ClassicGroup
from penstock.coordinators.group.rebalance import sync_received
from penstock.coordinators.group.records import group_record
from penstock.coordinators.group.results import PARKED, Parked, Ticket
from penstock.coordinators.group.shard import Shard
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.records import Records
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import SyncGroupRequest, SyncGroupResponse

__all__ = ["handle_sync_group"]

Result = tuple[Records, SyncGroupResponse | Parked]


def handle_sync_group(shard: Shard, request: SyncGroupRequest, ticket: Ticket) -> Result:
    """Park the request until the leader's assignment, sent with its own SyncGroup, is in the log."""
    if not request.group_id:
        return [], SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    group = shard.classic_group(request.group_id)
    if group is None or group.state is ClassicGroupState.EMPTY:
        return [], SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    error = _validate(group, request)
    if error is ErrorCode.NONE and group.state is ClassicGroupState.PREPARING_REBALANCE:
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error is not ErrorCode.NONE:
        return [], SyncGroupResponse(error_code=error)

    sync_received(shard, group, request.member_id)
    member = group.members[request.member_id]
    if group.state is ClassicGroupState.STABLE:
        return [], SyncGroupResponse(
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignment=member.assignment,
        )
    # A client that sends the request again has abandoned its first one, which must not stay parked.
    shard.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_ticket = ticket
    if group.leader_id != member.member_id:
        return [], PARKED
    assignments = {a.member_id: bytes(a.assignment) for a in request.assignments}
    return [group_record(group, group.members.values(), group.leader_id, assignments)], PARKED


def _validate(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    # KIP-559: the protocol that the member believes the group runs; older versions do not send it.
    for believed, actual in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if believed is not None and actual is not None and believed != actual:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE
