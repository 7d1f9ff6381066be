"""ListGroups (16): list the groups that this node coordinates.

Versions 0 to 5. Behaves as in Kafka: filters by state (KIP-518) and type (KIP-848) ignore case.
With DESCRIBE on the cluster, all groups are listed, else those with DESCRIBE on the group.

Versions:
- 1: `throttle_time_ms` (KIP-124)
- 2: a throttled client pauses by itself (KIP-219)
- 3: flexible encoding (KIP-482)
- 4: `states_filter` and `group_state` (KIP-518)
- 5: `types_filter` and `group_type` (KIP-848)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import ListGroupsRequest, ListGroupsResponse
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.security.permissions import Permissions

ListedGroup = ListGroupsResponse.ListedGroup


def handle(
    groups: GroupCoordinatorRuntime, request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse:
    try:
        listed = groups.list_groups(request.states_filter, request.types_filter)
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code, groups=[])
    return ListGroupsResponse(groups=_described(listed, context.permissions))


def _described(listed: list[ListedGroup], permissions: Permissions) -> list[ListedGroup]:
    """The groups that the client may see."""
    if permissions.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False):
        return listed
    return [
        group
        for group in listed
        if permissions.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, logs_denial=False)
    ]


API = (
    Api(ListGroupsRequest)
    .on_broker(lambda node: node.groups, handle)
    .needs(
        (Operation.DESCRIBE, ResourceType.CLUSTER, "to list all groups"),
        (Operation.DESCRIBE, ResourceType.GROUP, "else, to list the group"),
    )
)
