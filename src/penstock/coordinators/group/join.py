"""JoinGroup: adds a member to a group, or lets it rejoin."""

from penstock.coordinators.group.group import ClassicGroup, StaticReplacement
from penstock.coordinators.group.member import Member, Protocols
from penstock.coordinators.group.rebalance import (
    joined_response,
    maybe_complete_join,
    maybe_prepare_rebalance_or_complete_join,
    prepare_rebalance,
)
from penstock.coordinators.group.records import empty_group_record, group_record
from penstock.coordinators.group.results import PARKED, Caller, Parked, Ticket
from penstock.coordinators.group.shard import Shard
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.records import Records
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse

__all__ = ["finish_static_replacement", "handle_join_group"]

MEMBER_ID_REQUIRED_VERSION = 4
"""From this version on, a member must join again with the id it was given (KIP-394).

Without this, each retry of a request would add another member.
"""
SKIP_ASSIGNMENT_VERSION = 9
"""From this version on, the response can tell the leader that its assignment is still valid (KIP-814)."""

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE

Result = tuple[Records, JoinGroupResponse | Parked]


def _refuse(error: ErrorCode, member_id: str) -> Result:
    return [], JoinGroupResponse(error_code=error, member_id=member_id)


def _protocols(request: JoinGroupRequest) -> Protocols:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def _reason(request: JoinGroupRequest, what: str) -> str:
    return f"{what}; client reason: {request.reason or 'not provided'}"


def handle_join_group(
    shard: Shard, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
) -> Result:
    """Join a group, or create it for a member without an id; park the request until the join round ends."""
    config = shard.config
    member_id = request.member_id
    if not request.group_id:
        return _refuse(ErrorCode.INVALID_GROUP_ID, member_id)
    if not (
        config.group_min_session_timeout_ms
        <= request.session_timeout_ms
        <= config.group_max_session_timeout_ms
    ):
        return _refuse(ErrorCode.INVALID_SESSION_TIMEOUT, member_id)
    group = shard.groups.get(request.group_id)
    if group is None:
        if member_id:
            return _refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        return _join_new_group(shard, request, caller, ticket, now_ms)
    if not isinstance(group, ClassicGroup):
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    return _join_group(shard, group, request, caller, ticket, now_ms)


def _join_new_group(
    shard: Shard, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
) -> Result:
    group = ClassicGroup(request.group_id, now_ms)
    shard.groups[group.group_id] = group
    record = empty_group_record(group)
    records, response = _join_group(shard, group, request, caller, ticket, now_ms)
    return records or [record], response


def _join_group(
    shard: Shard, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
) -> Result:
    member_id = request.member_id
    if not _has_room(shard, group, member_id):
        if member_id in group.members:
            shard.cancel_session(group, member_id)
        group.remove(member_id)
        return _refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    if not group.supports_protocols(request.protocol_type, [p.name for p in request.protocols]):
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    if member_id:
        return _join_with_id(shard, group, request, caller, ticket, now_ms)
    if request.group_instance_id is not None:
        return _join_static(shard, group, request, caller, ticket, now_ms)
    new_id = f"{caller.client_id or ''}-{shard.new_uuid()}"
    if caller.api_version >= MEMBER_ID_REQUIRED_VERSION:
        group.pending_join_ids.add(new_id)
        shard.set_session(group, new_id, now_ms + request.session_timeout_ms)
        return _refuse(ErrorCode.MEMBER_ID_REQUIRED, new_id)
    return _add_member(shard, group, new_id, request, caller, ticket, now_ms)


def _has_room(shard: Shard, group: ClassicGroup, member_id: str) -> bool:
    limit = shard.config.group_max_size
    if group.state is PREPARING:
        # Counting parked requests, not known members, also turns away surplus members of a group that
        # exceeds a limit which was lowered in the meantime.
        member = group.members.get(member_id)
        is_waiting = member is not None and member.join_ticket is not None
        return is_waiting or group.awaiting_join_count < limit
    if group.state in (COMPLETING, STABLE):
        return member_id in group.members or len(group.members) < limit
    return True


# -- members with an id ------------------------------------------------------------------------------


def _join_with_id(
    shard: Shard, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
) -> Result:
    member_id = request.member_id
    if member_id in group.pending_join_ids:
        if request.group_instance_id is not None:  # only dynamic members are given pending ids
            return _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "")
        return _add_member(shard, group, member_id, request, caller, ticket, now_ms)
    error = group.validate_member(member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return _refuse(error, member_id)

    member = group.members[member_id]
    is_unchanged = member.protocols == _protocols(request)
    if group.state is PREPARING:
        reason = "joins again during the join round"
    elif group.state is COMPLETING:
        if is_unchanged:  # most likely the response to its first request was lost
            return [], joined_response(group, member)
        reason = "joins again with other metadata"
    elif group.state is STABLE:
        is_leader = group.leader_id == member_id
        if is_unchanged and not is_leader:
            return [], joined_response(group, member)
        # A leader rejoins when something outside its metadata has changed, such as partition counts.
        reason = "joins again as the leader" if is_leader else "joins again with other metadata"
    else:
        return _refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
    _update_member(shard, group, member, request, ticket)
    reason = _reason(request, f"{member_id} {reason}")
    return maybe_prepare_rebalance_or_complete_join(shard, group, reason, now_ms), PARKED


def _update_member(
    shard: Shard, group: ClassicGroup, member: Member, request: JoinGroupRequest, ticket: Ticket
) -> None:
    group.update_protocols(member, _protocols(request))
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    _park(shard, group, member, ticket)


def _park(shard: Shard, group: ClassicGroup, member: Member, ticket: Ticket) -> None:
    replaced = group.park_join(member, ticket)
    if replaced is not None:
        # The client sent the request again, usually on another connection. The first must not stay parked.
        shard.replies.append(
            (
                replaced,
                JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id),
            )
        )


# -- new members -------------------------------------------------------------------------------------


def _new_member(member_id: str, request: JoinGroupRequest, caller: Caller) -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=caller.client_id or "",
        client_host=f"/{caller.client_host}",  # Java prints an address without a host name like this
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=_protocols(request),
    )


def _add_member(
    shard: Shard,
    group: ClassicGroup,
    member_id: str,
    request: JoinGroupRequest,
    caller: Caller,
    ticket: Ticket,
    now_ms: int,
) -> Result:
    member = _new_member(member_id, request, caller)
    member.is_new = True
    if group.state is PREPARING and group.previous_state is EMPTY:
        group.new_member_added = True
    group.add(member, request.protocol_type)
    _park(shard, group, member, ticket)
    shard.set_session(group, member_id, now_ms + shard.config.new_member_join_timeout_ms)
    reason = _reason(request, f"{member_id} is new")
    return maybe_prepare_rebalance_or_complete_join(shard, group, reason, now_ms), PARKED


def _join_static(
    shard: Shard, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
) -> Result:
    """Add a static member without an id, or let it return after a restart (KIP-345)."""
    assert request.group_instance_id is not None
    new_id = f"{request.group_instance_id}-{shard.new_uuid()}"
    old_id = group.static_ids.get(request.group_instance_id)
    if old_id is None:
        return _add_member(shard, group, new_id, request, caller, ticket, now_ms)

    old = group.members[old_id]
    member = _new_member(new_id, request, caller)
    member.client_id, member.client_host, member.assignment = old.client_id, old.client_host, old.assignment
    if group.state is STABLE and _keeps_protocol(group, old, member):
        return _replace_in_stable_group(group, old, member, caller, ticket), PARKED
    _replace(shard, group, old_id, member, now_ms)
    _park(shard, group, member, ticket)
    if group.state is STABLE:
        reason = _reason(request, f"static member {new_id} changes the group's protocol")
        return prepare_rebalance(shard, group, reason, now_ms), PARKED
    if group.state is COMPLETING:
        # The leader may already be computing an assignment for the old id.
        reason = _reason(request, f"static member {new_id} replaces {old_id}")
        return prepare_rebalance(shard, group, reason, now_ms), PARKED
    return maybe_complete_join(shard, group, now_ms), PARKED


def _keeps_protocol(group: ClassicGroup, old: Member, member: Member) -> bool:
    """Whether the group would still select the same protocol after this replacement."""
    protocols = old.protocols
    group.update_protocols(old, member.protocols)
    selected = group.select_protocol()
    group.update_protocols(old, protocols)
    return selected == group.protocol_name


def _replace_in_stable_group(
    group: ClassicGroup, old: Member, member: Member, caller: Caller, ticket: Ticket
) -> Records:
    """Return the record with the new id, which takes effect without a rebalance when it is replayed."""
    group.static_replacement = StaticReplacement(old.member_id, member, ticket, caller.api_version)
    members = [member if other is old else other for other in group.members.values()]
    leader_id = member.member_id if group.leader_id == old.member_id else group.leader_id
    assignments = {other.member_id: other.assignment for other in members}
    return [group_record(group, members, leader_id, assignments)]


def finish_static_replacement(shard: Shard, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
    """Finish a static replacement, whose record is now in the log or, on an error, could not be written."""
    replacement = group.static_replacement
    if replacement is None:
        return
    group.static_replacement = None
    member = replacement.member
    if error is not ErrorCode.NONE:
        shard.replies.append((replacement.ticket, JoinGroupResponse(error_code=error, member_id="")))
        return
    leader_id = group.leader_id
    _replace(shard, group, replacement.old_member_id, member, now_ms)
    if replacement.api_version >= SKIP_ASSIGNMENT_VERSION:
        response = joined_response(group, member, skip_assignment=group.leader_id == member.member_id)
    else:
        # An older client must not consider itself the leader, or it would compute an assignment. The
        # response therefore names the previous leader's id, even if that was this member's old one.
        response = joined_response(group, member)
        response.members = []
        response.leader = leader_id or ""
    shard.replies.append((replacement.ticket, response))


def _replace(shard: Shard, group: ClassicGroup, old_id: str, member: Member, now_ms: int) -> None:
    """Replace the old incarnation by the new one, and fence the requests that the old one has parked."""
    old = group.members[old_id]
    fenced = ErrorCode.FENCED_INSTANCE_ID
    shard.answer_join(group, old, JoinGroupResponse(error_code=fenced, member_id=old_id))
    shard.answer_sync(old, SyncGroupResponse(error_code=fenced))
    shard.cancel_session(group, old_id)
    group.replace_static(old_id, member)
    shard.renew_session(group, member, now_ms)
