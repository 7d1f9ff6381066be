"""Metadata, DescribeCluster, DescribeTopicPartitions and ApiVersions, tested through a socket."""

from collections.abc import Callable

import pytest

from broker_wire import Wire
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ZERO_UUID,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from penstock.testing import Cluster

UNASKED = -(2**31)
ALL_ON_TOPIC, ALL_ON_CLUSTER = 3576, 8096
UNKNOWN_ID = bytes([9]) * 16


def metadata(wire: Wire, *names: str, version: int = 13, **fields: bool) -> MetadataResponse:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return wire.ask(MetadataRequest(topics=topics, **fields), MetadataResponse, version)


@pytest.mark.parametrize("version", range(14))
def test_metadata_in_every_version(wire: Wire, node: Cluster, topic: str, version: int) -> None:
    response = metadata(wire, topic, version=version)
    (broker,) = response.brokers
    assert f"{broker.host}:{broker.port}" == node.bootstrap_servers
    if version >= 1:
        assert response.controller_id == broker.node_id
    (found,) = response.topics
    assert (found.error_code, found.name, found.is_internal) == (0, topic, False)
    (partition,) = found.partitions
    assert (partition.error_code, partition.partition_index, partition.leader_id) == (0, 0, broker.node_id)
    assert (partition.replica_nodes, partition.isr_nodes) == ([broker.node_id], [broker.node_id])
    assert (found.topic_id != ZERO_UUID) is (version >= 10)


def test_all_topics_or_none(wire: Wire, topic: str) -> None:
    every = wire.ask(MetadataRequest(topics=None), MetadataResponse, 1)
    assert topic in {found.name for found in every.topics}
    old = wire.ask(MetadataRequest(topics=[]), MetadataResponse, 0)
    assert topic in {found.name for found in old.topics}
    assert metadata(wire).topics == []


def test_topics_by_id(wire: Wire, topic: str) -> None:
    asked = MetadataRequest.MetadataRequestTopic
    ids = [wire.topic_id(topic), UNKNOWN_ID]
    request = MetadataRequest(topics=[asked(topic_id=topic_id, name=None) for topic_id in ids])
    found, unknown = wire.ask(request, MetadataResponse, 13).topics
    assert (found.error_code, found.name) == (0, topic)
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    refused = wire.ask(request, MetadataResponse, 11)
    assert [t.error_code for t in refused.topics] == [ErrorCode.INVALID_REQUEST] * 2


def test_topics_that_are_not_there(wire: Wire) -> None:
    response = metadata(wire, "nowhere", "bad!", "", allow_auto_topic_creation=False)
    assert [t.error_code for t in response.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


def test_topics_are_created_on_the_way(wire: Wire) -> None:
    response = metadata(wire, "auto.made", "auto_made", "auto-made-too", "no!")
    assert [(t.error_code, len(t.partitions)) for t in response.topics] == [
        (0, 1),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        (0, 1),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
    ]


def test_a_broker_may_refuse_to_create_on_the_way(start_node: Callable[..., Cluster]) -> None:
    node = start_node(auto_create_topics_enable="false")
    with Wire(node.bootstrap_servers) as wire:
        assert metadata(wire, "t").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_internal_topics_are_made_to_measure(wire: Wire) -> None:
    (offsets,) = metadata(wire, "__consumer_offsets").topics
    assert (offsets.error_code, offsets.is_internal, len(offsets.partitions)) == (0, True, 4)


def test_operations_are_told_when_asked_for(wire: Wire, topic: str) -> None:
    silent = metadata(wire, topic, version=8)
    assert silent.cluster_authorized_operations == UNASKED
    assert silent.topics[0].topic_authorized_operations == UNASKED
    told = metadata(
        wire,
        topic,
        version=8,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert told.cluster_authorized_operations == ALL_ON_CLUSTER
    assert told.topics[0].topic_authorized_operations == ALL_ON_TOPIC


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(wire: Wire, node: Cluster, version: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = wire.ask(request, DescribeClusterResponse, version)
    assert response.error_code == 0
    assert len(response.cluster_id) == 22
    (broker,) = response.brokers
    assert f"{broker.host}:{broker.port}" == node.bootstrap_servers
    assert response.controller_id == broker.broker_id
    assert response.cluster_authorized_operations == ALL_ON_CLUSTER


def test_controllers_are_not_described_here(wire: Wire) -> None:
    for endpoint_type, code in (
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ):
        response = wire.ask(DescribeClusterRequest(endpoint_type=endpoint_type), DescribeClusterResponse)
        assert (response.error_code, response.brokers) == (code, [])


@pytest.fixture(scope="module")
def pages(node: Cluster) -> None:
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("page-a", partitions=2)
        wire.create_topic("page-b", partitions=3)


@pytest.mark.usefixtures("pages")
class TestDescribeTopicPartitions:
    """The pages cover `page-a` with two partitions, `page-b` with three and `page-nowhere`."""

    NAMES = ("page-b", "page-a", "page-nowhere")

    def page(
        self, wire: Wire, limit: int, cursor: tuple[str, int] | None = None, names: tuple[str, ...] = NAMES
    ) -> tuple[list[tuple[int, str | None, list[int]]], tuple[str, int] | None]:
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
        )
        if cursor is not None:
            request.cursor = DescribeTopicPartitionsRequest.Cursor(
                topic_name=cursor[0], partition_index=cursor[1]
            )
        response = wire.ask(request, DescribeTopicPartitionsResponse)
        following = response.next_cursor
        return (
            [(t.error_code, t.name, [p.partition_index for p in t.partitions]) for t in response.topics],
            None if following is None else (following.topic_name, following.partition_index),
        )

    def test_everything_fits_on_a_page(self, wire: Wire) -> None:
        assert self.page(wire, 2000) == (
            [
                (0, "page-a", [0, 1]),
                (0, "page-b", [0, 1, 2]),
                (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "page-nowhere", []),
            ],
            None,
        )

    def test_pages_follow_each_other(self, wire: Wire) -> None:
        first, cursor = self.page(wire, 2)
        assert (first, cursor) == ([(0, "page-a", [0, 1])], ("page-b", 0))
        second, cursor = self.page(wire, 2, cursor)
        assert (second, cursor) == ([(0, "page-b", [0, 1])], ("page-b", 2))
        third, cursor = self.page(wire, 2, cursor)
        assert cursor is None
        assert third[0] == (0, "page-b", [2])
        assert len(third) == 2

    def test_a_page_has_one_partition_at_least(self, wire: Wire) -> None:
        assert self.page(wire, 0) == ([(0, "page-a", [0])], ("page-a", 1))

    def test_a_cursor_of_another_request_is_refused(self, wire: Wire) -> None:
        for cursor in (("page-aa", 0), ("page-a", -1)):
            answers, following = self.page(wire, 10, cursor)
            assert {code for code, _, _ in answers} == {ErrorCode.INVALID_REQUEST}
            assert following is None

    def test_no_names_mean_all_topics(self, wire: Wire) -> None:
        answers, _ = self.page(wire, 2000, ("page-a", 0), names=())
        assert answers[:2] == [(0, "page-a", [0, 1]), (0, "page-b", [0, 1, 2])]


@pytest.mark.parametrize("version", range(5))
def test_api_versions(wire: Wire, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="wire", client_software_version="1.0")
    response = wire.ask(request, ApiVersionsResponse, version)
    assert response.error_code == 0
    ranges = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
    assert ranges[0] == (0, 13), "KAFKA-18659"
    assert ranges[3] == (0, 13)
    assert ranges[18] == (0, 4)
    supported = {feature.name: feature.min_version for feature in response.supported_features}
    finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
    if version < 3:
        assert not supported
    else:
        assert supported["metadata.version"] == 7
        assert ("kraft.version" in supported) is (version >= 4)
        assert finalized == {
            "metadata.version": 30,
            "transaction.version": 2,
            "eligible.leader.replicas.version": 1,
        }
        assert response.finalized_features_epoch >= 3


@pytest.mark.parametrize("name", ["", "a b", "-a", "a-", "ä"])
def test_a_client_without_a_proper_name_is_told_so(wire: Wire, name: str) -> None:
    for fields in ((name, "1"), ("a", name)):
        request = ApiVersionsRequest(client_software_name=fields[0], client_software_version=fields[1])
        response = wire.ask(request, ApiVersionsResponse, 4)
        assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_hundreds_of_topics_are_answered_for_in_turns(wire: Wire, version: int) -> None:
    """The answer is encoded piece by piece and decodes as one message."""
    topic = CreateTopicsRequest.CreatableTopic
    names = [f"many-{number}" for number in range(230)]
    request = CreateTopicsRequest(
        topics=[topic(name=name, num_partitions=1, replication_factor=1) for name in names],
        validate_only=True,
    )
    answer = wire.ask(request, CreateTopicsResponse, version)
    assert [result.name for result in answer.topics] == names
    assert {result.error_code for result in answer.topics} == {ErrorCode.NONE}
