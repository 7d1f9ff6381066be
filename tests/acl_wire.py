"""ACLs for clients at other addresses than the administrator's, and the error codes of their answers.

Every client is User:ANONYMOUS, so that ACLs know clients by their address. The nodes and the administrator
are at 127.0.0.1 and may do everything.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker_wire import Wire
from penstock.protocol.codec import MessageStruct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from penstock.security.acls import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from waiting import wait_until

SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ADMINISTRATOR: Final = "127.0.0.1"
CLIENT: Final = "127.0.0.2"
EVERYTHING: Final = (
    "all topic *",
    "all group *",
    "all transactional_id *",
    "all cluster",
)


class Grant(NamedTuple):
    """A permission, written as ``read topic orders``, or ``alter cluster`` for the cluster."""

    operation: Operation
    kind: ResourceType
    name: str

    @classmethod
    def of(cls, text: str) -> "Grant":
        operation, kind, *name = text.split()
        resource = name[0] if name else CLUSTER_NAME
        return cls(Operation[operation.upper()], ResourceType[kind.upper()], resource)


def close_to_others(admin: Wire) -> None:
    """Give everything to the administrator and the nodes, so that all others need permissions."""
    allow(admin, *EVERYTHING, host=ADMINISTRATOR)


def allow(
    admin: Wire, *grants: str, host: str = CLIENT, permission: PermissionType = PermissionType.ALLOW
) -> None:
    """Create ACLs, which are in force on the administrator's node when it returns."""
    request = CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=grant.kind,
                resource_name=grant.name,
                resource_pattern_type=PatternType.LITERAL,
                principal="User:ANONYMOUS",
                host=host,
                operation=grant.operation,
                permission_type=permission,
            )
            for grant in map(Grant.of, grants)
        ]
    )
    results = admin.ask(request, CreateAclsResponse).results
    failed = [result.error_message for result in results if result.error_code]
    assert not failed, failed
    wait_until(lambda: set(map(Grant.of, grants)) <= _granted(admin, host))


def forget(admin: Wire, host: str = CLIENT) -> None:
    """Delete all ACLs of a host, which no longer apply on the administrator's node when it returns."""
    everything = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=ResourceType.ANY,
        pattern_type_filter=PatternType.ANY,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=host,
        operation=Operation.ANY,
        permission_type=PermissionType.ANY,
    )
    [result] = admin.ask(DeleteAclsRequest(filters=[everything]), DeleteAclsResponse).filter_results
    assert result.error_code == 0, result.error_message
    wait_until(lambda: not _granted(admin, host))


def _granted(admin: Wire, host: str) -> set[Grant]:
    """The ACLs of a host on this node, which may be behind the controller."""
    request = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        pattern_type_filter=PatternType.ANY,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=host,
        operation=Operation.ANY,
        permission_type=PermissionType.ANY,
    )
    return {
        Grant(Operation(acl.operation), ResourceType(found.resource_type), found.resource_name)
        for found in admin.ask(request, DescribeAclsResponse).resources
        for acl in found.acls
    }


def error_codes(struct: MessageStruct) -> list[ErrorCode]:
    """All error codes of a response, in the order of its fields."""
    found: list[ErrorCode] = []
    for name in struct.FIELDS:
        value = getattr(struct, name)
        if name in ("error_code", "partition_error_code"):
            found.append(ErrorCode.of(value))
        elif isinstance(value, list):
            found += _of_all(each for each in value if isinstance(each, MessageStruct))
    return found


def _of_all(structs: Iterable[MessageStruct]) -> list[ErrorCode]:
    return [code for struct in structs for code in error_codes(struct)]
