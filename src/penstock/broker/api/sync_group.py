"""SyncGroup (14): send the leader's assignment of a generation, or receive a member's.

Versions 0 to 5. Behaves as in Kafka: from version 5 on, protocol type and name are mandatory (KIP-559).
Needs READ on the group.

Versions:
- 1: `throttle_time_ms` (KIP-124)
- 2: a throttled client pauses by itself (KIP-219)
- 3: `group_instance_id` for static members (KIP-345)
- 4: flexible encoding (KIP-482)
- 5: `protocol_type` and `protocol_name` (KIP-559)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import SyncGroupRequest, SyncGroupResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext

MANDATORY_PROTOCOL_VERSION = 5


def handle(
    groups: GroupCoordinatorRuntime, request: SyncGroupRequest, context: RequestContext
) -> Answer[SyncGroupResponse]:
    if context.api_version >= MANDATORY_PROTOCOL_VERSION and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return Answer.of(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    context.permissions.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return groups.sync_group(request).recover(lambda error: SyncGroupResponse(error_code=error.code))


API = (
    Api(SyncGroupRequest)
    .on_broker(lambda node: node.groups, handle)
    .needs((Operation.READ, ResourceType.GROUP))
)
