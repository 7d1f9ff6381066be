"""DescribeAcls (29): report the access control lists that match a filter, by resource.

Versions 1 to 3. Every node answers from its own metadata. Needs DESCRIBE on the cluster; SECURITY_DISABLED
without an authorizer. A filter with values that this release does not know is refused with INVALID_REQUEST,
while Kafka closes the connection.

Versions:
- 1: prefixed resources (KIP-290)
- 2: flexible encoding (KIP-482)
- 3: the resource type USER (KIP-373)
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DescribeAclsRequest, DescribeAclsResponse
from penstock.security.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    ResourceType,
)

if TYPE_CHECKING:
    from penstock.broker.control.authorization import Authorization
    from penstock.broker.network.context import RequestContext


def handle(
    authorization: Authorization, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse:
    context.permissions.require(Operation.DESCRIBE)
    if authorization.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    filter_ = AclFilter.of_request(request)
    if filter_.problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, filter_.problem)
    found = sorted(acl for acl in authorization.authorizer.acls if filter_.matches(acl))
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResponse.DescribeAclsResource(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=list(map(_description, acls)),
            )
            for (kind, name, pattern), acls in groupby(found, key=_resource)
        ]
    )


def _resource(acl: Acl) -> tuple[ResourceType, str, PatternType]:
    return acl.resource_type, acl.resource_name, acl.pattern_type


def _description(acl: Acl) -> DescribeAclsResponse.AclDescription:
    return DescribeAclsResponse.AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


async def handle_as_controller(
    authorization: Authorization, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse:
    return handle(authorization, request, context)


API = (
    Api(DescribeAclsRequest)
    .on_broker(lambda node: node.authorization, handle)
    .on_controller(lambda node: node.authorization, handle_as_controller)
    .needs((Operation.DESCRIBE, ResourceType.CLUSTER))
)
