"""DescribeGroups (15): report state, protocol, members and assignments of classic groups.

Versions 0 to 6. Behaves as in Kafka. Needs DESCRIBE on each group. The response can name the operations
that the client may do on a group.

Versions:
- 1: `throttle_time_ms` (KIP-124)
- 2: a throttled client pauses by itself (KIP-219)
- 3: authorized operations (KIP-430)
- 4: `group_instance_id` for static members (KIP-345)
- 5: flexible encoding (KIP-482)
- 6: GROUP_ID_NOT_FOUND and an error message instead of a group in state Dead (KIP-1043)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DescribeGroupsRequest, DescribeGroupsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext

AUTHORIZED_OPERATIONS_VERSION = 3

DescribedGroup = DescribeGroupsResponse.DescribedGroup


def handle(
    groups: GroupCoordinatorRuntime, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    shows_operations = (
        context.api_version >= AUTHORIZED_OPERATIONS_VERSION and request.include_authorized_operations
    )
    permissions = context.permissions
    refused, described = [], []
    for group_id in request.groups:
        if not permissions.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            refused.append(_failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        group = _describe(groups, group_id, context)
        if shows_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = permissions.operations(ResourceType.GROUP, group_id)
        described.append(group)
    return DescribeGroupsResponse(groups=refused + described)


def _describe(groups: GroupCoordinatorRuntime, group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        return groups.describe_group(group_id, context)
    except KafkaError as error:
        return _failed(group_id, error.code)


def _failed(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(
        error_code=error, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
    )


API = (
    Api(DescribeGroupsRequest)
    .on_broker(lambda node: node.groups, handle)
    .needs((Operation.DESCRIBE, ResourceType.GROUP))
)
