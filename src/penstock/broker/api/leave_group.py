"""LeaveGroup (13): remove members that leave, or static members that an administrator removes.

Versions 0 to 5. Behaves as in Kafka: up to version 2, a request removes one member and the response has that
member's error. Needs READ on the group.

Versions:
- 1: `throttle_time_ms` (KIP-124)
- 2: a throttled client pauses by itself (KIP-219)
- 3: several members at once, by member id or `group_instance_id` (KIP-345)
- 4: flexible encoding (KIP-482)
- 5: `reason` (KIP-800)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.protocol.messages import LeaveGroupRequest, LeaveGroupResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext

SEVERAL_MEMBERS_VERSION = 3


def handle(
    groups: GroupCoordinatorRuntime, request: LeaveGroupRequest, context: RequestContext
) -> Answer[LeaveGroupResponse]:
    context.permissions.require(Operation.READ, ResourceType.GROUP, request.group_id)
    is_single = context.api_version < SEVERAL_MEMBERS_VERSION
    if is_single:
        request.members = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    answer = groups.leave_group(request).then(lambda response: _in_version(response, is_single))
    return answer.recover(lambda error: LeaveGroupResponse(error_code=error.code))


def _in_version(response: LeaveGroupResponse, is_single: bool) -> LeaveGroupResponse:
    if is_single:
        error_code = response.error_code or response.members[0].error_code
        return LeaveGroupResponse(error_code=error_code)
    return response


API = (
    Api(LeaveGroupRequest)
    .on_broker(lambda node: node.groups, handle)
    .needs((Operation.READ, ResourceType.GROUP))
)
