"""CreateAcls (30): add access control lists to the cluster's metadata.

Versions 1 to 3. Each ACL succeeds or fails separately, and one that exists already succeeds. The ACLs are in
force on this node when the answer is sent. Needs ALTER on the cluster; SECURITY_DISABLED without an
authorizer. ACLs with values that this release does not know are answered one by one, while Kafka closes the
connection.

Versions:
- 1: prefixed resources (KIP-290)
- 2: flexible encoding (KIP-482)
- 3: the resource type USER (KIP-373)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.metadata.controller.acls import create_acls
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import CreateAclsRequest, CreateAclsResponse
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
    parts: Parts, request: CreateAclsRequest, context: RequestContext
) -> CreateAclsResponse:
    context.permissions.require(Operation.ALTER)
    if parts.authorization.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return await parts.controller.submit_and_follow(partial(create_acls, request=request))


def answer_error(request: CreateAclsRequest, error: KafkaError, _version: int) -> CreateAclsResponse:
    failed = CreateAclsResponse.AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[failed] * len(request.creations))


API = (
    Api(CreateAclsRequest, answer_error=answer_error)
    .on_controller(lambda node: node, handle_as_controller)
    .needs((Operation.ALTER, ResourceType.CLUSTER))
)
