"""DeleteGroups (42): delete empty groups with their offsets.

Versions 0 to 2. As Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.DELETE_GROUPS


def handle(broker: Broker, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=_delete(broker, group_id))
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )


def _delete(broker: Broker, group_id: str) -> ErrorCode:
    try:
        broker.groups.delete_group(group_id)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
