"""ListGroups (16): list the groups that this node coordinates.

Versions 0 to 5. Behaves as in Kafka: filters by state (KIP-518) and type (KIP-848) ignore case.
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
