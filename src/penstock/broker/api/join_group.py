"""JoinGroup (11): join a group and wait for its next generation.

Versions 0 to 9. Behaves as in Kafka. Needs READ on the group.

Versions:
- 1: `rebalance_timeout_ms` (KIP-62)
- 2: `throttle_time_ms` (KIP-124)
- 3: a throttled client pauses by itself (KIP-219)
- 4: MEMBER_ID_REQUIRED: a new member first gets its id and then joins with it (KIP-394)
- 5: `group_instance_id` for static members (KIP-345)
- 6: flexible encoding (KIP-482)
- 7: `protocol_type` in the response (KIP-559)
- 8: `reason` (KIP-800)
- 9: `skip_assignment` (KIP-814)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import JoinGroupRequest, JoinGroupResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext

REBALANCE_TIMEOUT_VERSION = 1
NULLABLE_PROTOCOL_VERSION = 7


def handle(
    groups: GroupCoordinatorRuntime, request: JoinGroupRequest, context: RequestContext
) -> Answer[JoinGroupResponse]:
    context.permissions.require(Operation.READ, ResourceType.GROUP, request.group_id)
    if context.api_version < REBALANCE_TIMEOUT_VERSION:
        request.rebalance_timeout_ms = request.session_timeout_ms
    member_id = request.member_id
    answer = groups.join_group(request, context).recover(
        lambda error: JoinGroupResponse(error_code=error.code, member_id=member_id)
    )
    return answer.then(lambda response: _in_version(response, context.api_version))


def _in_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Encode a missing protocol as an empty name in old versions and as null in newer ones."""
    if version < NULLABLE_PROTOCOL_VERSION:
        response.protocol_name = response.protocol_name or ""
    else:
        response.protocol_name = response.protocol_name or None
    return response


def answer_error(_request: JoinGroupRequest, error: KafkaError, version: int) -> JoinGroupResponse:
    return _in_version(JoinGroupResponse(error_code=error.code), version)


API = (
    Api(JoinGroupRequest, answer_error=answer_error)
    .on_broker(lambda node: node.groups, handle)
    .needs((Operation.READ, ResourceType.GROUP))
)
