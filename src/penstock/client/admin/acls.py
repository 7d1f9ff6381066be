"""Create, find and delete access control lists (KIP-11, KIP-290). Any broker takes the requests."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.connections.cluster import Cluster
from penstock.client.errors import error_from
from penstock.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from penstock.security.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    member,
)


def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Create the ACLs that do not exist yet.

    Raises ServerError for the first that is refused; the others may exist by then.
    """
    request = CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
            for acl in acls
        ]
    )

    def create() -> None:
        for result in cluster.call_any(request, CreateAclsResponse).results:
            if result.error_code:
                raise error_from(result.error_code, "creating ACLs", result.error_message)

    cluster.retry(create)


def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """The ACLs that match a filter. Raises ServerError."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )

    def describe() -> DescribeAclsResponse:
        response = cluster.call_any(request, DescribeAclsResponse)
        if response.error_code:
            raise error_from(response.error_code, "reading ACLs", response.error_message)
        return response

    return [
        _acl(resource.resource_type, resource.resource_name, resource.pattern_type, found)
        for resource in cluster.retry(describe).resources
        for found in resource.acls
    ]


def delete_acls(cluster: Cluster, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete the ACLs that match any of the filters, and return them.

    Raises ServerError for the first filter that is refused; ACLs of the others may be deleted by then.
    """
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=filter_.resource_type,
                resource_name_filter=filter_.resource_name,
                pattern_type_filter=filter_.pattern_type,
                principal_filter=filter_.principal,
                host_filter=filter_.host,
                operation=filter_.operation,
                permission_type=filter_.permission_type,
            )
            for filter_ in filters
        ]
    )

    def delete() -> list[Acl]:
        deleted: list[Acl] = []
        for result in cluster.call_any(request, DeleteAclsResponse).filter_results:
            if result.error_code:
                raise error_from(result.error_code, "deleting ACLs", result.error_message)
            for found in result.matching_acls:
                if found.error_code:
                    raise error_from(found.error_code, "deleting an ACL", found.error_message)
                deleted.append(_acl(found.resource_type, found.resource_name, found.pattern_type, found))
        return deleted

    return cluster.retry(delete)


def _acl(
    resource_type: int,
    resource_name: str,
    pattern_type: int,
    found: DescribeAclsResponse.AclDescription | DeleteAclsResponse.DeleteAclsMatchingAcl,
) -> Acl:
    return Acl(
        member(ResourceType, resource_type),
        resource_name,
        member(PatternType, pattern_type),
        found.principal,
        found.host,
        member(Operation, found.operation),
        member(PermissionType, found.permission_type),
    )
