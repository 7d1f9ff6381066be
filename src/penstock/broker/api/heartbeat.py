"""Heartbeat (12): renew a member's session.

Versions 0 to 4. Behaves as in Kafka: while the group's partition is loading, the answer is no error, so that
members of a group that is about to be available do not rejoin. Needs READ on the group.

Versions:
- 1: `throttle_time_ms` (KIP-124)
- 2: a throttled client pauses by itself (KIP-219)
- 3: `group_instance_id` for static members (KIP-345)
- 4: flexible encoding (KIP-482)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import HeartbeatRequest, HeartbeatResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext


def handle(
    groups: GroupCoordinatorRuntime, request: HeartbeatRequest, context: RequestContext
) -> HeartbeatResponse:
    try:
        context.permissions.require(Operation.READ, ResourceType.GROUP, request.group_id)
        error = groups.heartbeat(request)
    except KafkaError as refused:
        error = refused.code
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE
    return HeartbeatResponse(error_code=error)


API = (
    Api(HeartbeatRequest)
    .on_broker(lambda node: node.groups, handle)
    .needs((Operation.READ, ResourceType.GROUP))
)
