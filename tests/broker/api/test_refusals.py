"""Which of several errors a client gets, and what of its request the answer repeats."""

from collections.abc import Iterator
from typing import Final

import pytest

from acl_wire import CLIENT, SETTINGS, close_to_others, error_codes
from broker_wire import Wire, batch_of
from penstock.protocol import messages as m
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster

DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TOPIC, BROKER_LOGGER, NO_TYPE = 2, 8, 99


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


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Wire]:
    """A client without permissions."""
    with Wire(cluster.bootstrap_servers, source=CLIENT) as wire:
        yield wire


@pytest.fixture
def admin_at_controller(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster.bootstrap_controllers) as wire:
        yield wire


@pytest.fixture
def client_at_controller(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster.bootstrap_controllers, source=CLIENT) as wire:
        yield wire


def test_a_refused_list_of_reassignments_repeats_the_partitions(client: Wire) -> None:
    topic = m.ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    request = m.ListPartitionReassignmentsRequest(topics=[topic(name="nowhere", partition_indexes=[0, 7])])
    response = client.ask(request, m.ListPartitionReassignmentsResponse)
    assert response.error_code == DENIED
    [repeated] = response.topics
    assert (repeated.name, [each.partition_index for each in repeated.partitions]) == ("nowhere", [0, 7])


def test_refused_markers_are_answered_also_without_partitions(client: Wire) -> None:
    topic = m.WriteTxnMarkersRequest.WritableTxnMarkerTopic
    marker = m.WriteTxnMarkersRequest.WritableTxnMarker
    request = m.WriteTxnMarkersRequest(
        markers=[
            marker(producer_id=1, topics=[topic(name="t", partition_indexes=[0])]),
            marker(producer_id=2, topics=[topic(name="t", partition_indexes=[])]),
        ]
    )
    first, second = client.ask(request, m.WriteTxnMarkersResponse).markers
    assert (first.producer_id, error_codes(first)) == (1, [DENIED])
    assert (second.producer_id, second.topics) == (2, [])


@pytest.mark.parametrize(("version", "codes"), [(6, [DENIED]), (12, [DENIED, DENIED]), (13, [DENIED])])
def test_a_controller_refuses_a_fetch(
    version: int, codes: list[ErrorCode], client_at_controller: Wire
) -> None:
    """Version 6 has errors of partitions only, and from version 13 on the answer names no topics."""
    partition = m.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10)
    topic = m.FetchRequest.FetchTopic(topic="t", topic_id=b"t" * 16, partitions=[partition])
    response = client_at_controller.ask(m.FetchRequest(topics=[topic]), m.FetchResponse, version)
    found = error_codes(response)
    assert (found if version > 6 else found[1:]) == codes


def test_topics_without_partitions_have_no_answer(admin: Wire) -> None:
    records = m.DeleteRecordsRequest(topics=[m.DeleteRecordsRequest.DeleteRecordsTopic(name="t")])
    assert admin.ask(records, m.DeleteRecordsResponse).topics == []
    produced = m.ProduceRequest(acks=1, topic_data=[m.ProduceRequest.TopicProduceData(name="t")])
    assert admin.ask(produced, m.ProduceResponse, 12).responses == []
    added = m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=[
            m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t"),
            m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="nowhere", partitions=[0]),
        ],
    )
    [only] = admin.ask(added, m.AddPartitionsToTxnResponse, 3).results_by_topic_v3_and_below
    assert only.name == "nowhere"


def test_a_partition_of_an_internal_topic_must_exist(admin: Wire) -> None:
    partition = m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=999)
    topic = m.DeleteRecordsRequest.DeleteRecordsTopic(name="__consumer_offsets", partitions=[partition])
    response = admin.ask(m.DeleteRecordsRequest(topics=[topic]), m.DeleteRecordsResponse)
    assert error_codes(response) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_refused_topic_without_partitions_has_no_answer(client: Wire) -> None:
    partition = m.ProduceRequest.PartitionProduceData(index=0, records=batch_of(b"a"))
    topic = m.ProduceRequest.TopicProduceData
    request = m.ProduceRequest(
        acks=1, topic_data=[topic(name="t"), topic(name="nowhere", partition_data=[partition])]
    )
    [only] = client.ask(request, m.ProduceResponse, 12).responses
    assert (only.name, error_codes(only)) == ("nowhere", [ErrorCode.TOPIC_AUTHORIZATION_FAILED])


def test_configs_of_an_unknown_type_refuse_the_whole_description(admin: Wire) -> None:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource
    request = m.DescribeConfigsRequest(
        resources=[
            resource(resource_type=TOPIC, resource_name="t"),
            resource(resource_type=NO_TYPE, resource_name="t"),
        ]
    )
    assert error_codes(admin.ask(request, m.DescribeConfigsResponse)) == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("kind", "value", "at_broker", "at_controller"),
    [
        (TOPIC, "1", ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (TOPIC, None, ErrorCode.INVALID_REQUEST, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (BROKER_LOGGER, "INFO", ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
        (NO_TYPE, "1", ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_broker_checks_the_form_of_changes_before_the_permission(
    kind: int,
    value: str | None,
    at_broker: ErrorCode,
    at_controller: ErrorCode,
    client: Wire,
    client_at_controller: Wire,
) -> None:
    config = m.AlterConfigsRequest.AlterableConfig(name="retention.ms", value=value)
    resource = m.AlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name="t", configs=[config]
    )
    request = m.AlterConfigsRequest(resources=[resource])
    assert error_codes(client.ask(request, m.AlterConfigsResponse)) == [at_broker]
    assert error_codes(client_at_controller.ask(request, m.AlterConfigsResponse)) == [at_controller]


OF_ANOTHER_PARTITION: Final[tuple[tuple[Message, type[Message]], ...]] = (
    (m.VoteRequest(), m.VoteResponse),
    (m.BeginQuorumEpochRequest(), m.BeginQuorumEpochResponse),
    (m.EndQuorumEpochRequest(), m.EndQuorumEpochResponse),
    (m.FetchRequest(), m.FetchResponse),
    (m.FetchSnapshotRequest(), m.FetchSnapshotResponse),
)


@pytest.mark.parametrize(("request_", "kind"), OF_ANOTHER_PARTITION, ids=lambda each: type(each).__name__)
def test_a_foreign_cluster_is_refused_before_its_topics(
    request_: Message, kind: type[Message], admin_at_controller: Wire
) -> None:
    for cluster_id, code in (("another", "INCONSISTENT_CLUSTER_ID"), (None, "INVALID_REQUEST")):
        request_.cluster_id = cluster_id  # type: ignore[attr-defined]
        assert error_codes(admin_at_controller.ask(request_, kind)) == [ErrorCode[code]]


def test_no_change_of_partitions_is_accepted_of_any_broker(admin_at_controller: Wire) -> None:
    response = admin_at_controller.ask(m.AlterPartitionRequest(broker_id=99), m.AlterPartitionResponse)
    assert response.error_code == ErrorCode.NONE


def test_an_envelope_is_opened_for_a_known_principal_only(admin_at_controller: Wire) -> None:
    response = admin_at_controller.ask(m.EnvelopeRequest(request_principal=b""), m.EnvelopeResponse)
    assert error_codes(response) == [ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE]


@pytest.mark.parametrize(("version", "code"), [(0, "INVALID_REQUEST"), (1, "MISMATCHED_ENDPOINT_TYPE")])
def test_a_controller_describes_no_brokers(version: int, code: str, admin_at_controller: Wire) -> None:
    request = m.DescribeClusterRequest(endpoint_type=1)
    response = admin_at_controller.ask(request, m.DescribeClusterResponse, version)
    assert error_codes(response) == [ErrorCode[code]]


def test_the_cursor_points_at_topics_that_do_not_exist(admin: Wire) -> None:
    topic = m.DescribeTopicPartitionsRequest.TopicRequest
    request = m.DescribeTopicPartitionsRequest(
        topics=[topic(name="t"), topic(name="unknown")], response_partition_limit=1
    )
    response = admin.ask(request, m.DescribeTopicPartitionsResponse)
    assert [each.name for each in response.topics] == ["t"]
    assert response.next_cursor is not None
    assert response.next_cursor.topic_name == "unknown"


def test_the_quorum_of_another_topic_has_an_explanation(admin: Wire) -> None:
    partition = m.DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = m.DescribeQuorumRequest.TopicData(topic_name="t", partitions=[partition])
    response = admin.ask(m.DescribeQuorumRequest(topics=[topic]), m.DescribeQuorumResponse)
    assert response.topics[0].partitions[0].error_message


def test_no_reassignment_is_accepted_with_the_default_answer(admin: Wire) -> None:
    request = m.AlterPartitionReassignmentsRequest(allow_replication_factor_change=False)
    response = admin.ask(request, m.AlterPartitionReassignmentsResponse)
    assert (response.error_code, response.allow_replication_factor_change) == (ErrorCode.NONE, True)
