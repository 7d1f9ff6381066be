"""A cluster of three real nodes: election, registration, replication, and the loss and return of a node."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from broker_wire import Wire
from penstock.protocol.api_keys import ApiKey, apis
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    MetadataRequest,
    MetadataResponse,
)
from penstock.storage.directories import meta_properties
from penstock.storage.disk.files import REAL_FILES
from penstock.testing import Cluster, ClusterError, Node

T = TypeVar("T")

PRODUCER = {"acks": "all", "enable.idempotence": True, "message.timeout.ms": 30_000}


def eventually(look: Callable[[], T], within_s: float = 60.0) -> T:
    """Retry ``look`` until it returns a true value and raises no AssertionError or OSError."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            if found := look():
                return found
            problem = "nothing came of it"
        except (AssertionError, OSError) as error:
            problem = f"{type(error).__name__} {error}"
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {problem}"
        time.sleep(0.1)


def metadata(node: Node, *topics: str) -> MetadataResponse:
    with Wire(node.bootstrap_servers) as wire:
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        return wire.ask(MetadataRequest(topics=wanted or None), MetadataResponse)


def quorum_leader(node: Node) -> int:
    """The active controller that a node reports, or -1 while there is none."""
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    with Wire(node.bootstrap_servers) as wire:
        response = wire.ask(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    assert response.error_code == 0, response
    found = response.topics[0].partitions[0]
    return found.leader_id if found.error_code == 0 else -1


def create(cluster: Cluster, name: str, partitions: int = 3, replicas: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(30)


def produce(cluster: Cluster, topic: str, values: range) -> None:
    errors = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **PRODUCER})
    for value in values:
        producer.produce(topic, b"%d" % value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(40) == 0
    assert [error for error in errors if error] == []


def consume(cluster: Cluster, topic: str, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"{topic}-reader",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    values: list[int] = []
    deadline = time.monotonic() + 60
    try:
        while len(values) < count and time.monotonic() < deadline:
            values += [
                int(message.value() or b"") for message in consumer.consume(500, 0.5) if not message.error()
            ]
    finally:
        consumer.close()
    return sorted(values)


def isr_of(node: Node, topic: str) -> list[list[int]]:
    (found,) = metadata(node, topic).topics
    assert found.error_code == 0
    return [sorted(partition.isr_nodes) for partition in found.partitions]


def has_isr(node: Node, topic: str, isr: list[list[int]]) -> bool:
    return isr_of(node, topic) == isr


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, start_timeout_s=60) as started:
        yield started


@pytest.fixture(scope="module")
def apart() -> Iterator[Cluster]:
    """Two brokers and three dedicated controllers."""
    with Cluster(nodes=2, controllers=3, start_timeout_s=60) as started:
        yield started


def knows(node: Node, addresses: set[tuple[int, str, int]]) -> bool:
    """Whether a node sees all brokers; it may learn of the last one a moment after that one is ready."""
    return {(b.node_id, b.host, b.port) for b in metadata(node).brokers} == addresses


def test_every_node_knows_all(cluster: Cluster) -> None:
    addresses = {(node.node_id, "127.0.0.1", node.port) for node in cluster.nodes}
    for node in cluster.nodes:
        eventually(partial(knows, node, addresses))
        assert metadata(node).cluster_id == cluster.cluster_id
    assert len({eventually(partial(quorum_leader, node)) for node in cluster.nodes}) == 1


def test_topics_have_replicas_on_all_nodes(cluster: Cluster) -> None:
    create(cluster, "spread", partitions=6)
    for node in cluster.nodes:
        eventually(lambda: not metadata(node, "spread").topics[0].error_code)  # noqa: B023  called at once
        (topic,) = metadata(node, "spread").topics
        assert [sorted(partition.replica_nodes) for partition in topic.partitions] == [[1, 2, 3]] * 6
        assert {partition.leader_id for partition in topic.partitions} == {1, 2, 3}
    eventually(lambda: isr_of(cluster.nodes[0], "spread") == [[1, 2, 3]] * 6)


def test_records_come_and_go_by_any_node(cluster: Cluster) -> None:
    create(cluster, "flow")
    produce(cluster, "flow", range(500))
    assert consume(cluster, "flow", 500) == list(range(500))


def test_what_the_controller_refuses_comes_back_as_it_said_it(cluster: Cluster) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="too many", num_partitions=1, replication_factor=9)
    for node in cluster.nodes:  # two of the nodes forward the request
        with Wire(node.bootstrap_servers) as wire:
            for version in (2, 4, 5, 7):
                response = wire.ask(
                    CreateTopicsRequest(topics=[topic], timeout_ms=5000), CreateTopicsResponse, version
                )
                (result,) = response.topics
                assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION, (node, version, result)


def test_each_listener_serves_what_kafka_says(cluster: Cluster) -> None:
    address = cluster.bootstrap_controllers.split(",")[0]
    of = {api.key: set(api.listeners) for api in apis()}
    for listener, server in (("broker", cluster.nodes[0].bootstrap_servers), ("controller", address)):
        with Wire(server) as wire:
            served = {
                api.api_key for api in wire.ask(ApiVersionsRequest(**NAMED), ApiVersionsResponse).api_keys
            }
        assert all(listener in of[key] for key in served)
        assert (ApiKey.VOTE in served) == (listener == "controller")
        assert (ApiKey.PRODUCE in served) == (listener == "broker")
        assert ApiKey.CREATE_TOPICS in served


NAMED = {"client_software_name": "test", "client_software_version": "1"}


def test_describe_cluster_on_both_kinds_of_listener(cluster: Cluster) -> None:
    with Wire(cluster.nodes[0].bootstrap_servers) as wire:
        brokers = wire.ask(DescribeClusterRequest(endpoint_type=1), DescribeClusterResponse)
    assert [broker.broker_id for broker in brokers.brokers] == [1, 2, 3]

    def controllers() -> list[tuple[int, str]]:
        with Wire(cluster.bootstrap_controllers.split(",")[1]) as wire:
            response = wire.ask(DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse)
        assert response.error_code == 0
        assert response.cluster_id == cluster.cluster_id
        return [(found.broker_id, f"{found.host}:{found.port}") for found in response.brokers]

    wanted = list(enumerate(cluster.bootstrap_controllers.split(","), 1))
    eventually(lambda: controllers() == wanted)


USER = b"\0\0\5User\nANONYMOUS\0\0"
LOCAL = b"\x7f\0\0\1"


@pytest.mark.parametrize(
    ("request_data", "principal", "host", "error"),
    [
        (CreateTopicsRequest(), USER, LOCAL, ErrorCode.NONE),
        (BrokerRegistrationRequest(), USER, LOCAL, ErrorCode.INVALID_REQUEST),
        (CreateTopicsRequest(), USER, b"\x7f\0\0", ErrorCode.INVALID_REQUEST),
        (CreateTopicsRequest(), b"\0\7", LOCAL, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (b"\0\x13\0\7", USER, LOCAL, ErrorCode.UNSUPPORTED_VERSION),
        (b"\0\x13\0\x63", USER, LOCAL, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_what_envelopes_may_hold(
    cluster: Cluster, request_data: Message | bytes, principal: bytes, host: bytes, error: ErrorCode
) -> None:
    leader = eventually(lambda: quorum_leader(cluster.nodes[0]))
    with Wire(cluster.bootstrap_controllers.split(",")[leader - 1]) as wire:
        data = request_data if isinstance(request_data, bytes) else wire.frame(request_data, None)[0][4:]
        envelope = EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host)
        assert wire.ask(envelope, EnvelopeResponse).error_code == error


def test_a_broker_of_another_cluster_is_refused(cluster: Cluster) -> None:
    leader = eventually(lambda: quorum_leader(cluster.nodes[0]))
    with Wire(cluster.bootstrap_controllers.split(",")[leader - 1]) as wire:
        request = BrokerRegistrationRequest(broker_id=9, cluster_id="another", incarnation_id=b"9" * 16)
        response = wire.ask(request, BrokerRegistrationResponse)
    assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_node_is_stopped_and_started_without_a_failed_produce(cluster: Cluster) -> None:
    """Controlled shutdown: the node leads no partition when it stops."""
    create(cluster, "rolling")
    eventually(lambda: isr_of(cluster.nodes[0], "rolling") == [[1, 2, 3]] * 3)
    produce(cluster, "rolling", range(100))
    for round_number, node in enumerate(cluster.nodes, 1):
        others = [other for other in cluster.nodes if other is not node]
        node.stop()
        assert "controlled shutdown is complete" in node.log_tail()
        (topic,) = metadata(others[0], "rolling").topics
        assert node.node_id not in {partition.leader_id for partition in topic.partitions}
        produce(cluster, "rolling", range(100 * round_number, 100 * round_number + 100))
        node.start()
        for other in cluster.nodes:
            eventually(partial(has_isr, other, "rolling", [[1, 2, 3]] * 3))
    assert consume(cluster, "rolling", 400) == list(range(400))


def test_the_controller_is_killed_and_comes_back(cluster: Cluster) -> None:
    create(cluster, "kept")
    produce(cluster, "kept", range(100))
    leader = cluster.node(eventually(lambda: quorum_leader(cluster.nodes[0])))
    others = [node for node in cluster.nodes if node is not leader]
    leader.kill()
    eventually(lambda: quorum_leader(others[0]) not in (-1, leader.node_id))
    produce(cluster, "kept", range(100, 200))
    create(cluster, "while-two", replicas=2)
    leader.start(60)
    eventually(lambda: isr_of(leader, "kept") == [[1, 2, 3]] * 3)
    assert consume(cluster, "kept", 200) == list(range(200))


def test_all_are_killed_and_come_back(cluster: Cluster) -> None:
    create(cluster, "dark")
    produce(cluster, "dark", range(100))
    cluster.kill()
    cluster.start()
    produce(cluster, "dark", range(100, 150))
    assert consume(cluster, "dark", 150) == list(range(150))


def test_brokers_and_controllers_apart(apart: Cluster) -> None:
    create(apart, "t", replicas=2)
    produce(apart, "t", range(300))
    assert consume(apart, "t", 300) == list(range(300))
    leader = apart.node(eventually(lambda: quorum_leader(apart.nodes[0])))
    assert leader.node_id in (3, 4, 5)
    leader.kill()
    create(apart, "after", replicas=2)
    produce(apart, "after", range(50))
    assert eventually(lambda: quorum_leader(apart.nodes[1])) != leader.node_id


def test_a_broker_is_added(apart: Cluster) -> None:
    added = apart.add_broker()
    assert added.node_id == 6
    create(apart, "on-three", replicas=3)
    eventually(lambda: isr_of(added, "on-three") == [[1, 2, 6]] * 3)
    produce(apart, "on-three", range(50))


def test_a_node_that_was_not_formatted_for_it_does_not_start() -> None:
    """A directory that is not formatted, or for another node or cluster: the node reports that and exits."""
    cluster = Cluster(nodes=2)
    try:
        node = cluster.nodes[0]
        with pytest.raises(ClusterError, match="is not formatted: run 'penstock storage format'"):
            node.start()
        cluster.start()
        cluster.stop()
        properties = meta_properties.read(node.data_dir)
        assert properties is not None
        meta_properties.write(REAL_FILES, node.data_dir, properties._replace(node_id=7))
        with pytest.raises(ClusterError, match="belongs to node 7"):
            node.start()
    finally:
        cluster.close()
