"""A denial stays in force: when other ACLs go, after a snapshot and a failover, and for hosts with IPv6."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from acl_wire import SETTINGS
from broker_wire import Wire, batch_of
from in_process import create as create_topic
from in_process import run, running_node
from penstock.broker.node import Broker
from penstock.metadata.controller.acls import create_acls, delete_acls
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from penstock.security.acls import Operation, PatternType, PermissionType, ResourceType
from penstock.testing import Cluster, Node
from token_wire import SETTINGS as USERS
from token_wire import TokenWire
from waiting import wait_until

METADATA = "__cluster_metadata-0"
ANN = "User:ann"
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def creation(principal: str, host: str, permission: PermissionType) -> CreateAclsRequest:
    """An ACL for writing to the topic t."""
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=ResourceType.TOPIC,
                resource_name="t",
                resource_pattern_type=PatternType.LITERAL,
                principal=principal,
                host=host,
                operation=Operation.WRITE,
                permission_type=permission,
            )
        ]
    )


def removal(principal: str) -> DeleteAclsRequest:
    """The removal of all ACLs of a principal for the topic t."""
    return DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=ResourceType.TOPIC,
                resource_name_filter="t",
                pattern_type_filter=PatternType.LITERAL,
                principal_filter=principal,
                host_filter=None,
                operation=Operation.ANY,
                permission_type=PermissionType.ANY,
            )
        ]
    )


async def create(broker: Broker, principal: str, host: str, permission: PermissionType) -> None:
    request = creation(principal, host, permission)
    await broker.controller.submit_and_follow(partial(create_acls, request=request))


def may_write(broker: Broker, principal: str) -> bool:
    authorizer = broker.authorization.authorizer
    assert authorizer is not None
    decision = authorizer.decide(principal, "10.0.0.1", Operation.WRITE, ResourceType.TOPIC, "t")
    return decision.is_allowed


def test_a_denial_is_in_the_snapshot_though_other_acls_of_its_topic_have_gone(tmp_path: Path) -> None:
    """As in CVE-2024-27309. The log before the snapshot is removed, so only the snapshot has the denial."""
    settings = {**SETTINGS, "metadata.log.max.record.bytes.between.snapshots": "500"}
    others = [f"User:other{number}" for number in range(20)]

    async def before() -> None:
        async with running_node(tmp_path, **settings) as broker:
            await create(broker, ANN, "*", PermissionType.DENY)
            await create(broker, "User:*", "*", PermissionType.ALLOW)
            for other in others:
                await create(broker, other, "*", PermissionType.ALLOW)
                await broker.controller.submit_and_follow(partial(delete_acls, request=removal(other)))
            assert not may_write(broker, ANN)

    async def after() -> None:
        async with running_node(tmp_path, **settings) as broker:
            assert not may_write(broker, ANN)
            assert may_write(broker, others[0]), "by the ACL of everybody"

    run(before())
    snapshots = list((tmp_path / METADATA).glob("*.checkpoint"))
    assert any(not path.name.startswith("0" * 20) for path in snapshots)
    for path in (tmp_path / METADATA).iterdir():
        if path.suffix in (".log", ".index", ".timeindex") or path.name == "leader-epoch-checkpoint":
            path.unlink()
    run(after())


def controller_of(wire: Wire) -> int:
    """The active controller, as this node knows it."""
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    response = wire.ask(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    return response.topics[0].partitions[0].leader_id if response.topics else -1


def answers_to_ann(nodes: Sequence[Node]) -> set[int]:
    """The answers of all nodes to a client that writes."""
    answers = set()
    for node in nodes:
        with TokenWire(node.bootstrap_servers) as ann:
            answers.add(ann.as_user("ann").produce("t", batch_of(b"hidden")).error_code)
    return answers


@pytest.mark.timeout(180)
def test_a_denial_is_in_force_at_each_node_after_a_failover() -> None:
    with Cluster(USERS, nodes=3) as cluster:
        with TokenWire(cluster.node(1).bootstrap_servers) as admin:
            admin.as_user("admin").create_topic("t")
            for principal, permission in ((ANN, PermissionType.DENY), ("User:*", PermissionType.ALLOW)):
                request = creation(principal, "*", permission)
                [result] = admin.ask(request, CreateAclsResponse).results
                assert result.error_code == 0
            active = controller_of(admin)
        cluster.node(active).kill()
        others = [node for node in cluster.nodes if node.node_id != active]
        with TokenWire(others[0].bootstrap_servers) as admin:
            admin.as_user("admin")
            wait_until(lambda: controller_of(admin) not in (active, -1))
            wait_until(lambda: answers_to_ann(others) == {DENIED})
            [removed] = admin.ask(removal("User:*"), DeleteAclsResponse).filter_results
            assert len(removed.matching_acls) == 1
        cluster.node(active).start()
        with TokenWire(cluster.node(active).bootstrap_servers) as admin:
            [result] = (
                admin.as_user("admin")
                .ask(creation("User:*", "*", PermissionType.ALLOW), CreateAclsResponse)
                .results
            )
            assert result.error_code == 0
        wait_until(lambda: answers_to_ann(cluster.nodes) == {DENIED})


def test_a_denial_for_an_address_of_ipv6_is_in_force_on_the_wire(tmp_path: Path) -> None:
    """Its text is Java's, `0:0:0:0:0:0:0:1`; that of another address denies nothing."""

    def written(port: int) -> int:
        with Wire(f"::1:{port}") as wire:
            return wire.produce("t", batch_of(b"a")).error_code

    async def story() -> None:
        async with running_node(tmp_path, **SETTINGS, listeners="PLAINTEXT://[::1]:0") as broker:
            _host, port = broker.advertised("PLAINTEXT")
            await create_topic(broker, "t")
            await create(broker, "User:ANONYMOUS", "*", PermissionType.ALLOW)
            await create(broker, "User:ANONYMOUS", "0:0:0:0:0:0:0:2", PermissionType.DENY)
            assert await asyncio.to_thread(written, port) == ErrorCode.NONE
            await create(broker, "User:ANONYMOUS", "0:0:0:0:0:0:0:1", PermissionType.DENY)
            assert await asyncio.to_thread(written, port) == DENIED

    run(story())
