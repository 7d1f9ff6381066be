"""ListGroups (16): list the groups that this node coordinates.

Versions 0 to 5. Behaves as in Kafka: filters by state (KIP-518) and type (KIP-848) ignore case.

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

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext


def handle(
    groups: GroupCoordinatorRuntime, request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse:
    try:
        listed = groups.list_groups(request.states_filter, request.types_filter)
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code, groups=[])
    return ListGroupsResponse(groups=listed)


API = Api(ListGroupsRequest).on_broker(lambda node: node.groups, handle)
