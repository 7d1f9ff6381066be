"""What operators and nodes may do with the cluster: at a broker, at a controller, and through the former."""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from acl_wire import CLIENT, SETTINGS, allow, close_to_others, error_codes, forget
from broker_wire import Wire
from penstock.broker import api_table
from penstock.broker.control.authorization import request_name
from penstock.broker.control.forwarding import FORWARDABLE
from penstock.broker.network.context import RequestContext
from penstock.protocol import api_keys
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from penstock.security.authorizer import Authorizer
from penstock.security.permissions import Granted
from penstock.testing import Cluster
from waiting import wait_until

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
PRINCIPAL, HOST = "User:ann", "10.0.0.1"

ON_CONTROLLERS: Final = {
    key: api.permissions[0].operation
    for key, api in api_table.apis().items()
    if api.controller is not None
    and len(api.permissions) == 1
    and api.permissions[0].resource_type is ResourceType.CLUSTER
}
"""The APIs of controllers that need one operation on the cluster, whatever they are asked."""


class Reached(Exception):
    """The handler has asked for permissions, and turns to its work."""


class Part:
    """The part of a node that a handler takes."""

    def __getattr__(self, name: str) -> object:
        raise Reached


def ask(key: ApiKey, authorizer: Authorizer) -> None:
    handled = api_table.apis()[key].controller
    assert handled is not None
    context = RequestContext(
        api_keys.api_range(key)[1],
        "client",
        HOST,
        PRINCIPAL,
        "CONTROLLER",
        permissions=Granted(authorizer, PRINCIPAL, HOST, request_name(key)),
    )
    asyncio.run(handled.handle(Part(), api_keys.request_class(key)(), context))


def test_every_api_of_a_node_or_an_operator_is_among_them() -> None:
    of_nodes = {key for key in ON_CONTROLLERS if ON_CONTROLLERS[key] is Operation.CLUSTER_ACTION}
    assert {ApiKey.VOTE, ApiKey.BROKER_REGISTRATION, ApiKey.ENVELOPE, ApiKey.UPDATE_RAFT_VOTER} <= of_nodes
    assert {ApiKey.ADD_RAFT_VOTER, ApiKey.ELECT_LEADERS, ApiKey.DESCRIBE_QUORUM} <= ON_CONTROLLERS.keys()


@pytest.mark.parametrize("key", sorted(ON_CONTROLLERS.keys() - {ApiKey.ENVELOPE}), ids=lambda key: key.name)
def test_a_controller_asks_for_the_permission_before_all_else(key: ApiKey) -> None:
    authorizer = Authorizer([], allows_without_acl=False)
    authorizer.loaded()
    others = [operation for operation in Operation if operation not in (ON_CONTROLLERS[key], Operation.ALL)]
    for number, operation in enumerate(others):
        authorizer.put(bytes([number] * 16), acl(operation))
    if ON_CONTROLLERS[key] is Operation.DESCRIBE:  # which others include
        authorizer.put(bytes([99] * 16), acl(Operation.DESCRIBE, PermissionType.DENY))
    with pytest.raises(KafkaError) as refused:
        ask(key, authorizer)
    assert refused.value.code is DENIED
    for acl_id in list(authorizer.ids):
        authorizer.put(acl_id, None)
    authorizer.put(bytes(16), acl(ON_CONTROLLERS[key]))
    with pytest.raises(Reached):
        ask(key, authorizer)


def acl(operation: Operation, permission: PermissionType = PermissionType.ALLOW) -> Acl:
    return Acl(
        ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, PRINCIPAL, HOST, operation, permission
    )


# A broker and a controller


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(SETTINGS, controllers=1) as cluster:
        with Wire(cluster.bootstrap_servers) as admin:
            admin.create_topic("t")
            close_to_others(admin)
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster.bootstrap_servers) as wire:
        yield wire
        forget(wire)


@pytest.fixture
def client(cluster: Cluster, admin: Wire) -> Iterator[Wire]:
    """A client without permissions, at the broker."""
    with Wire(cluster.bootstrap_servers, source=CLIENT) as wire:
        assert wire.fetch("t").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        yield wire


@pytest.fixture
def at_controller(cluster: Cluster, client: Wire) -> Iterator[Wire]:
    with Wire(cluster.bootstrap_controllers, source=CLIENT) as wire:
        yield wire


@pytest.mark.parametrize("key", sorted(ON_CONTROLLERS), ids=lambda key: key.name)
def test_a_controller_answers_a_refusal(key: ApiKey, at_controller: Wire) -> None:
    for version in range(api_table.apis()[key].versions[0], api_keys.api_range(key)[1] + 1):
        response = at_controller.ask(api_keys.request_class(key)(), api_keys.response_class(key), version)
        if "error_code" in response.FIELDS and (key, version) != (ApiKey.ELECT_LEADERS, 0):
            assert error_codes(response) == [DENIED]


OPERATORS: Final[dict[ApiKey, Message]] = {
    ApiKey.ELECT_LEADERS: m.ElectLeadersRequest(
        topic_partitions=[m.ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])],
        timeout_ms=10_000,
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: m.AlterPartitionReassignmentsRequest(timeout_ms=10_000),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: m.ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=None),
    ApiKey.UPDATE_FEATURES: m.UpdateFeaturesRequest(timeout_ms=10_000, validate_only=True),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: m.AlterUserScramCredentialsRequest(
        deletions=[m.AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="nobody", mechanism=1)]
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: m.AlterClientQuotasRequest(
        entries=[
            m.AlterClientQuotasRequest.EntryData(
                entity=[m.AlterClientQuotasRequest.EntityData(entity_type="user", entity_name="ann")]
            )
        ]
    ),
    ApiKey.UNREGISTER_BROKER: m.UnregisterBrokerRequest(broker_id=99),
    ApiKey.DESCRIBE_QUORUM: m.DescribeQuorumRequest(
        topics=[
            m.DescribeQuorumRequest.TopicData(
                topic_name="__cluster_metadata",
                partitions=[m.DescribeQuorumRequest.PartitionData(partition_index=0)],
            )
        ]
    ),
    ApiKey.REMOVE_RAFT_VOTER: m.RemoveRaftVoterRequest(voter_id=99, voter_directory_id=bytes(15) + b"1"),
}
"""Requests of operators, which a broker forwards."""


@pytest.mark.parametrize("key", OPERATORS, ids=lambda key: key.name)
def test_a_forwarded_request_keeps_the_permissions_of_its_client(
    key: ApiKey, admin: Wire, client: Wire
) -> None:
    request, kind = OPERATORS[key], api_keys.response_class(key)
    assert set(error_codes(client.ask(request, kind))) == {DENIED}
    allow(admin, f"{ON_CONTROLLERS[key].name.lower()} cluster")
    assert DENIED not in error_codes(client.ask(request, kind))


def test_the_requests_of_operators_are_all_tried() -> None:
    others = {ApiKey.ADD_RAFT_VOTER, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}
    assert OPERATORS.keys() == ON_CONTROLLERS.keys() & FORWARDABLE - others


def test_a_broker_creates_topics_for_a_client_that_may(admin: Wire, client: Wire) -> None:
    """The broker asks for the permission, and so does the controller, for the same client."""

    def created(name: str) -> int:
        topic = m.MetadataRequest.MetadataRequestTopic(name=name)
        request = m.MetadataRequest(topics=[topic], allow_auto_topic_creation=True)
        return client.ask(request, m.MetadataResponse).topics[0].error_code

    allow(admin, "describe topic made", "describe topic other", "create topic made")
    wait_until(lambda: created("made") == ErrorCode.NONE)
    assert created("other") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert admin.topic_id("made") != bytes(16)


def test_log_levels_need_another_permission_on_controllers(admin: Wire, at_controller: Wire) -> None:
    resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=8, resource_name="2")
    request = m.IncrementalAlterConfigsRequest(resources=[resource])

    def ask() -> list[ErrorCode]:
        return error_codes(at_controller.ask(request, m.IncrementalAlterConfigsResponse))

    assert ask() == [DENIED]
    allow(admin, "alter_configs cluster")
    assert ask() == [DENIED]
    allow(admin, "cluster_action cluster")
    assert ask() == [ErrorCode.NONE]


def test_log_directories_are_described_to_whom_the_cluster_is(admin: Wire, client: Wire) -> None:
    def ask(version: int) -> m.DescribeLogDirsResponse:
        return client.ask(m.DescribeLogDirsRequest(topics=None), m.DescribeLogDirsResponse, version)

    refused = ask(5)
    assert (refused.error_code, refused.results) == (DENIED, [])
    assert ask(1).results == []
    allow(admin, "describe cluster")
    assert ask(5).error_code == ErrorCode.NONE
    assert ask(1).results


def test_users_are_described_to_whom_the_cluster_is(admin: Wire, client: Wire) -> None:
    asked = [m.DescribeUserScramCredentialsRequest.UserName(name="nobody")]

    def ask() -> m.DescribeUserScramCredentialsResponse:
        request = m.DescribeUserScramCredentialsRequest(users=asked)
        return client.ask(request, m.DescribeUserScramCredentialsResponse)

    assert error_codes(ask()) == [DENIED, DENIED]
    allow(admin, "describe cluster")
    assert error_codes(ask()) == [ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND]
