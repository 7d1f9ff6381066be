"""DeleteGroups (42): delete empty groups with their offsets.

Versions 0 to 2. Behaves as in Kafka. Needs DELETE on each group, and refuses only the groups without.

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
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext


def handle(
    groups: GroupCoordinatorRuntime, request: DeleteGroupsRequest, context: RequestContext
) -> Answer[DeleteGroupsResponse]:
    group_ids = list(dict.fromkeys(request.groups_names))
    may_delete = context.permissions.allowed(Operation.DELETE, ResourceType.GROUP, group_ids)
    chosen = [group_id for group_id in group_ids if group_id in may_delete]
    refused = [group_id for group_id in group_ids if group_id not in may_delete]
    deleted = [groups.delete_group(group_id).recover(lambda error: error.code) for group_id in chosen]
    denials = dict.fromkeys(refused, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return all_of(deleted).then(lambda codes: _response(dict(zip(chosen, codes, strict=True)) | denials))


def _response(codes: dict[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in codes.items()
        ]
    )


API = (
    Api(DeleteGroupsRequest)
    .on_broker(lambda node: node.groups, handle)
    .needs((Operation.DELETE, ResourceType.GROUP))
)
