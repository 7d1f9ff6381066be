"""ACLs on a node: created, described and deleted, kept over restarts, and in force at once."""

from collections.abc import Callable, Iterator

import pytest

from acl_wire import SETTINGS
from broker_wire import Wire
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.security.acls import Operation, PatternType, PermissionType, ResourceType
from penstock.testing import Cluster, ClusterError

StartNode = Callable[..., Cluster]
AUTHORIZER = SETTINGS["authorizer.class.name"]
EVERYBODY_AT_FIRST = {name.replace(".", "_"): value for name, value in SETTINGS.items()}


def create(
    wire: Wire, *acls: tuple[ResourceType, str, Operation, PermissionType]
) -> list[tuple[int, str | None]]:
    request = CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=PatternType.LITERAL,
                principal="User:ANONYMOUS",
                host="*",
                operation=operation,
                permission_type=permission,
            )
            for kind, name, operation, permission in acls
        ]
    )
    results = wire.ask(request, CreateAclsResponse).results
    return [(result.error_code, result.error_message) for result in results]


def describe(wire: Wire, kind: ResourceType = ResourceType.ANY) -> DescribeAclsResponse:
    request = DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        pattern_type_filter=PatternType.ANY,
        operation=Operation.ANY,
        permission_type=PermissionType.ANY,
    )
    return wire.ask(request, DescribeAclsResponse)


def names(response: DescribeAclsResponse) -> list[tuple[str, list[int]]]:
    return [(found.resource_name, [acl.operation for acl in found.acls]) for found in response.resources]


def delete(wire: Wire, kind: ResourceType) -> DeleteAclsResponse.DeleteAclsFilterResult:
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=kind,
                resource_name_filter=None,
                principal_filter=None,
                host_filter=None,
                pattern_type_filter=PatternType.ANY,
                operation=Operation.ANY,
                permission_type=PermissionType.ANY,
            )
        ]
    )
    return wire.ask(request, DeleteAclsResponse).filter_results[0]


@pytest.fixture(scope="module")
def open_node() -> Iterator[Wire]:
    """A connection to a node on which everything is allowed that no ACL forbids."""
    with Cluster(SETTINGS) as node, Wire(node.bootstrap_servers) as wire:
        yield wire


TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, ALTER = Operation.READ, Operation.WRITE, Operation.ALTER
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY


def test_acls_are_kept_over_a_restart_and_are_gone_when_they_are_deleted(start_node: StartNode) -> None:
    node = start_node(**EVERYBODY_AT_FIRST)
    with Wire(node.bootstrap_servers) as wire:
        created = create(
            wire, (TOPIC, "orders", WRITE, ALLOW), (TOPIC, "orders", READ, ALLOW), (GROUP, "g", READ, DENY)
        )
        assert created == [(0, "")] * 3
        assert create(wire, (GROUP, "g", READ, DENY)) == [(0, "")], "it exists already"
    node.stop()
    node.start()
    with Wire(node.bootstrap_servers) as wire:
        assert names(describe(wire)) == [("orders", [READ, WRITE]), ("g", [READ])]
        assert names(describe(wire, GROUP)) == [("g", [READ])]
        assert sorted(acl.operation for acl in delete(wire, TOPIC).matching_acls) == [READ, WRITE]
        assert names(describe(wire)) == [("g", [READ])]


def test_an_acl_is_in_force_when_its_creation_is_answered(start_node: StartNode) -> None:
    node = start_node(**EVERYBODY_AT_FIRST)
    asked = DescribeClusterRequest(endpoint_type=1, include_cluster_authorized_operations=True)
    with Wire(node.bootstrap_servers) as wire, Wire(node.bootstrap_servers) as other:
        before = other.ask(asked, DescribeClusterResponse).cluster_authorized_operations
        assert before & 1 << ALTER
        assert create(wire, (CLUSTER, "kafka-cluster", ALTER, DENY)) == [(0, "")]
        refused = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Request CreateAcls needs ALTER permission.")
        assert create(other, (TOPIC, "t", READ, ALLOW)) == [refused]
        assert delete(other, TOPIC).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert describe(other).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert other.ask(asked, DescribeClusterResponse).cluster_authorized_operations == 0


@pytest.mark.parametrize(
    ("acl", "message"),
    [
        ((CLUSTER, "mine", READ, ALLOW), "The only valid name for the CLUSTER resource is kafka-cluster"),
        ((TOPIC, "", READ, ALLOW), "Invalid empty resource name"),
        ((TOPIC, "t", Operation.ANY, ALLOW), "Invalid operation ANY"),
        ((ResourceType.ANY, "t", READ, ALLOW), "Invalid resourceType ANY"),
        ((TOPIC, "t", READ, PermissionType.ANY), "Invalid permissionType ANY"),
    ],
)
def test_what_an_acl_lacks_is_named_and_the_others_are_created(
    acl: tuple[ResourceType, str, Operation, PermissionType], message: str, open_node: Wire
) -> None:
    results = create(open_node, acl, (TOPIC, "fine", READ, ALLOW))
    assert results == [(ErrorCode.INVALID_REQUEST, message), (0, "")]


def test_without_an_authorizer_acls_are_refused(wire: Wire) -> None:
    disabled = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert create(wire, (TOPIC, "t", READ, ALLOW)) == [disabled]
    assert delete(wire, TOPIC).error_code == ErrorCode.SECURITY_DISABLED
    assert describe(wire).error_code == ErrorCode.SECURITY_DISABLED


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"authorizer.class.name": "com.example.Mine"}, "StandardAuthorizer is built in"),
        ({"authorizer.class.name": AUTHORIZER, "super.users": "User:a;b"}, "expected a type and a name"),
    ],
)
def test_a_node_refuses_what_it_cannot_enforce(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ClusterError, match=message), Cluster(settings):
        pass
