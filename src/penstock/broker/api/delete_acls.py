"""DeleteAcls (31): remove the access control lists that match filters, and report them.

Versions 1 to 3. The ACLs are gone on this node when the answer is sent. Needs ALTER on the cluster;
SECURITY_DISABLED without an authorizer. A filter with values that this release does not know is refused with
INVALID_REQUEST, while Kafka closes the connection.

Versions:
- 1: prefixed resources (KIP-290)
- 2: flexible encoding (KIP-482)
- 3: the resource type USER (KIP-373)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.metadata.controller.acls import delete_acls
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DeleteAclsRequest, DeleteAclsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.authorization import Authorization
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


class Parts(Protocol):
    """The parts of the node that this API uses."""

    authorization: Authorization
    controller: Controller


async def handle_as_controller(
    parts: Parts, request: DeleteAclsRequest, context: RequestContext
) -> DeleteAclsResponse:
    context.permissions.require(Operation.ALTER)
    if parts.authorization.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return await parts.controller.submit_and_follow(partial(delete_acls, request=request))


def answer_error(request: DeleteAclsRequest, error: KafkaError, _version: int) -> DeleteAclsResponse:
    failed = DeleteAclsResponse.DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=[failed] * len(request.filters))


API = (
    Api(DeleteAclsRequest, answer_error=answer_error)
    .on_controller(lambda node: node, handle_as_controller)
    .needs((Operation.ALTER, ResourceType.CLUSTER))
)
