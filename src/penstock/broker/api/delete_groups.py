"""DeleteGroups (42): delete empty groups with their offsets.

Versions 0 to 2. Behaves as in Kafka.

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: flexible encoding (KIP-482)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer, all_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext


def handle(
    groups: GroupCoordinatorRuntime, request: DeleteGroupsRequest, context: RequestContext
) -> Answer[DeleteGroupsResponse]:
    group_ids = list(dict.fromkeys(request.groups_names))
    deleted = [groups.delete_group(group_id).recover(lambda error: error.code) for group_id in group_ids]
    return all_of(deleted).then(lambda codes: _response(dict(zip(group_ids, codes, strict=True))))


def _response(codes: dict[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in codes.items()
        ]
    )


API = Api(DeleteGroupsRequest).on_broker(lambda node: node.groups, handle)
