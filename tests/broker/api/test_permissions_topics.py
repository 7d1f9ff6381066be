"""What clients may do with topics: every API, before and after each permission that the client gets."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from acl_wire import CLIENT, SETTINGS, allow, close_to_others, error_codes, forget
from broker_wire import Wire, batch_of, fetch_request, produce_request
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey, api_range, response_class
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.security.acls import PermissionType
from penstock.testing import Cluster
from transaction_wire import Transactor

OK = ErrorCode.NONE
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
DENIED_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
DENIED_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_ID
NO_ID = b"n" * 16
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
UNASKED = -(2**31)


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic_id(node: Cluster) -> bytes:
    """The id of the topic t, which has a record; everything is closed to clients without permissions."""
    with Wire(node.bootstrap_servers) as wire:
        created = wire.create_topic("t")
        wire.produce("t", batch_of(b"a"))
        close_to_others(wire)
        return created


@pytest.fixture
def admin(node: Cluster, topic_id: bytes) -> Iterator[Wire]:
    with Wire(node.bootstrap_servers) as wire:
        yield wire
        forget(wire)


@pytest.fixture
def client(node: Cluster, admin: Wire) -> Iterator[Wire]:
    with Wire(node.bootstrap_servers, source=CLIENT) as wire:
        yield wire


class Case(NamedTuple):
    """A request about the topic t and one that does not exist, and the codes after each permission."""

    title: str
    request: Callable[[bytes], Message]
    version: int | None
    steps: tuple[tuple[str, list[ErrorCode]], ...]
    """Permissions, the first one none, with the error codes of the answer."""


def produce(topic_id: bytes) -> m.ProduceRequest:
    request = produce_request("t", batch_of(b"b"))
    request.topic_data += produce_request("nowhere", batch_of(b"b")).topic_data
    request.topic_data[0].topic_id, request.topic_data[1].topic_id = topic_id, NO_ID
    return request


def fetch(topic_id: bytes, replica_id: int = -1) -> m.FetchRequest:
    request = fetch_request("t", {0: 0})
    request.topics += fetch_request("nowhere", {0: 0}).topics
    request.topics[0].topic_id, request.topics[1].topic_id = topic_id, NO_ID
    request.replica_id, request.replica_state = replica_id, m.FetchRequest.ReplicaState(replica_id=replica_id)
    return request


def list_offsets(timestamp: int) -> m.ListOffsetsRequest:
    partition = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = m.ListOffsetsRequest.ListOffsetsTopic
    return m.ListOffsetsRequest(
        replica_id=-1, topics=[topic(name=name, partitions=[partition]) for name in ("t", "nowhere")]
    )


def offset_for_leader_epoch() -> m.OffsetForLeaderEpochRequest:
    partition = m.OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return m.OffsetForLeaderEpochRequest(
        topics=[topic(topic=name, partitions=[partition]) for name in ("t", "nowhere")]
    )


def delete_records() -> m.DeleteRecordsRequest:
    partition = m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)
    topic = m.DeleteRecordsRequest.DeleteRecordsTopic
    return m.DeleteRecordsRequest(
        topics=[topic(name=name, partitions=[partition]) for name in ("t", "nowhere")], timeout_ms=10_000
    )


def describe_producers() -> m.DescribeProducersRequest:
    topic = m.DescribeProducersRequest.TopicRequest
    return m.DescribeProducersRequest(
        topics=[topic(name=name, partition_indexes=[0]) for name in ("t", "nowhere", "bad!")]
    )


def describe_configs(*resources: tuple[int, str]) -> m.DescribeConfigsRequest:
    make = m.DescribeConfigsRequest.DescribeConfigsResource
    return m.DescribeConfigsRequest(
        resources=[make(resource_type=kind, resource_name=name) for kind, name in resources]
    )


def alter_configs(*resources: tuple[int, str]) -> m.AlterConfigsRequest:
    make = m.AlterConfigsRequest.AlterConfigsResource
    return m.AlterConfigsRequest(
        resources=[make(resource_type=kind, resource_name=name) for kind, name in resources],
        validate_only=True,
    )


def incremental_alter_configs(*resources: tuple[int, str]) -> m.IncrementalAlterConfigsRequest:
    make = m.IncrementalAlterConfigsRequest.AlterConfigsResource
    return m.IncrementalAlterConfigsRequest(
        resources=[make(resource_type=kind, resource_name=name) for kind, name in resources],
        validate_only=True,
    )


ALL_KINDS = ((TOPIC, "t"), (GROUP, "g"), (BROKER, "1"), (CLIENT_METRICS, "m"))
NO_KIND = [DENIED, DENIED_GROUP, DENIED_CLUSTER, DENIED_CLUSTER]


def create_topics(*names: str) -> m.CreateTopicsRequest:
    make = m.CreateTopicsRequest.CreatableTopic
    return m.CreateTopicsRequest(
        topics=[make(name=name, num_partitions=1, replication_factor=1) for name in names],
        timeout_ms=10_000,
        validate_only=True,
    )


def create_partitions() -> m.CreatePartitionsRequest:
    make = m.CreatePartitionsRequest.CreatePartitionsTopic
    return m.CreatePartitionsRequest(
        topics=[make(name=name, count=2, assignments=None) for name in ("t", "nowhere")],
        timeout_ms=10_000,
        validate_only=True,
    )


CASES = (
    Case(
        "produce by name",
        produce,
        12,
        (
            ("", [DENIED, DENIED]),
            ("describe topic t", [DENIED, DENIED]),
            ("write topic t", [OK, DENIED]),
            ("write topic nowhere", [OK, UNKNOWN]),
        ),
    ),
    Case("produce by id", produce, 13, (("", [UNKNOWN_ID, DENIED]), ("write topic t", [OK, UNKNOWN_ID]))),
    Case(
        "fetch by name",
        fetch,
        12,
        (
            ("", [OK, DENIED, DENIED]),
            ("describe topic t", [OK, DENIED, DENIED]),
            ("read topic t", [OK, OK, DENIED]),
            ("read topic nowhere", [OK, OK, UNKNOWN]),
        ),
    ),
    Case(
        "fetch by id",
        fetch,
        18,
        (("", [OK, DENIED, UNKNOWN_ID]), ("read topic t", [OK, OK, UNKNOWN_ID])),
    ),
    Case(
        "fetch as a follower",
        lambda topic_id: fetch(topic_id, replica_id=9),
        12,
        (
            ("", [OK, DENIED, DENIED]),
            ("read topic t", [OK, DENIED, DENIED]),
            ("cluster_action cluster", [OK, ErrorCode.NOT_LEADER_OR_FOLLOWER, UNKNOWN]),
        ),
    ),
    Case(
        "fetch as a follower by id",
        lambda topic_id: fetch(topic_id, replica_id=9),
        18,
        (
            ("", [OK, DENIED, DENIED]),
            ("cluster_action cluster", [OK, ErrorCode.NOT_LEADER_OR_FOLLOWER, UNKNOWN_ID]),
        ),
    ),
    *(
        Case(
            f"list offsets {timestamp}",
            lambda _, timestamp=timestamp: list_offsets(timestamp),  # type: ignore[misc]
            None,
            (
                ("", [DENIED, DENIED]),
                ("write topic t", [OK, DENIED]),
                ("describe topic nowhere", [OK, UNKNOWN]),
            ),
        )
        for timestamp in (-1, 0)
    ),
    Case(
        "offset for leader epoch",
        lambda _: offset_for_leader_epoch(),
        None,
        (
            ("", [DENIED, DENIED]),
            ("describe topic t", [OK, DENIED]),
            ("describe topic nowhere", [OK, UNKNOWN]),
        ),
    ),
    Case(
        "offset for leader epoch for a broker",
        lambda _: offset_for_leader_epoch(),
        None,
        (("", [DENIED, DENIED]), ("cluster_action cluster", [OK, UNKNOWN])),
    ),
    Case(
        "delete records",
        lambda _: delete_records(),
        None,
        (
            ("", [DENIED, DENIED]),
            ("write topic t", [DENIED, DENIED]),
            ("delete topic t", [OK, DENIED]),
            ("delete topic nowhere", [OK, UNKNOWN]),
        ),
    ),
    Case(
        "describe producers",
        lambda _: describe_producers(),
        None,
        (
            ("", [DENIED, DENIED, ErrorCode.INVALID_TOPIC_EXCEPTION]),
            ("describe topic t", [DENIED, DENIED, ErrorCode.INVALID_TOPIC_EXCEPTION]),
            ("read topic t", [OK, DENIED, ErrorCode.INVALID_TOPIC_EXCEPTION]),
            ("read topic nowhere", [OK, UNKNOWN, ErrorCode.INVALID_TOPIC_EXCEPTION]),
        ),
    ),
    Case(
        "describe configs",
        lambda _: describe_configs(*ALL_KINDS, (BROKER_LOGGER, "1"), (TOPIC, "nowhere")),
        None,
        (
            ("", [*NO_KIND, DENIED_CLUSTER, DENIED]),
            ("describe topic t", [*NO_KIND, DENIED_CLUSTER, DENIED]),
            ("alter_configs topic t", [OK, *NO_KIND[1:], DENIED_CLUSTER, DENIED]),
            ("describe_configs group g", [OK, OK, *NO_KIND[2:], DENIED_CLUSTER, DENIED]),
            ("describe_configs cluster", [OK, OK, OK, OK, OK, DENIED]),
            ("describe_configs topic nowhere", [OK, OK, OK, OK, OK, UNKNOWN]),
        ),
    ),
    Case(
        "alter configs",
        lambda _: alter_configs(*ALL_KINDS, (TOPIC, "nowhere")),
        None,
        (
            ("", [*NO_KIND, DENIED]),
            ("alter topic t", [*NO_KIND, DENIED]),
            ("alter_configs topic t", [OK, *NO_KIND[1:], DENIED]),
            ("alter_configs group g", [OK, OK, *NO_KIND[2:], DENIED]),
            ("alter_configs cluster", [OK, OK, OK, OK, DENIED]),
            ("alter_configs topic nowhere", [OK, OK, OK, OK, UNKNOWN]),
        ),
    ),
    Case(
        "alter configs incrementally",
        lambda _: incremental_alter_configs(*ALL_KINDS, (BROKER_LOGGER, "1")),
        None,
        (
            ("", [*NO_KIND, DENIED_CLUSTER]),
            ("alter_configs topic t", [OK, *NO_KIND[1:], DENIED_CLUSTER]),
            ("alter_configs group g", [OK, OK, *NO_KIND[2:], DENIED_CLUSTER]),
            ("cluster_action cluster", [OK, OK, *NO_KIND[2:], DENIED_CLUSTER]),
            ("alter_configs cluster", [OK, OK, OK, OK, OK]),
        ),
    ),
    Case(
        "create topics",
        lambda _: create_topics("new", "t", "__cluster_metadata"),
        None,
        (
            ("", [DENIED, DENIED, ErrorCode.INVALID_REQUEST]),
            ("create topic new", [OK, DENIED, ErrorCode.INVALID_REQUEST]),
            ("create topic t", [OK, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_REQUEST]),
        ),
    ),
    Case(
        "create topics in the cluster",
        lambda _: create_topics("new", "t"),
        None,
        (("", [DENIED, DENIED]), ("create cluster", [OK, ErrorCode.TOPIC_ALREADY_EXISTS])),
    ),
    Case(
        "create partitions",
        lambda _: create_partitions(),
        None,
        (
            ("", [DENIED, DENIED]),
            ("describe topic t", [DENIED, DENIED]),
            ("alter topic t", [OK, DENIED]),
            ("alter topic nowhere", [OK, UNKNOWN]),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_answers_after_each_permission(case: Case, admin: Wire, client: Wire, topic_id: bytes) -> None:
    request = case.request(topic_id)
    key = ApiKey(request.ID)
    version = api_range(key)[1] if case.version is None else case.version
    for permission, codes in case.steps:
        if permission:
            allow(admin, permission)
        assert error_codes(client.ask(request, response_class(key), version)) == codes, permission


def test_a_refused_batch_is_not_appended_beside_others(admin: Wire, client: Wire) -> None:
    admin.create_topic("open")
    allow(admin, "write topic open")
    request = produce_request("t", batch_of(b"refused"))
    request.topic_data += produce_request("open", batch_of(b"appended")).topic_data
    responses = client.ask(request, m.ProduceResponse, 12).responses
    assert {response.name: error_codes(response) for response in responses} == {"open": [OK], "t": [DENIED]}
    assert admin.values("open") == [b"appended"]
    assert b"refused" not in admin.values("t")


def test_without_acks_a_refusal_closes_the_connection(admin: Wire, client: Wire) -> None:
    client.send(produce_request("t", batch_of(b"refused"), acks=0), 12, answered=False)
    assert client.is_closed()
    assert b"refused" not in admin.values("t")


def test_transactional_records_need_their_transactional_id(admin: Wire, client: Wire) -> None:
    producer = Transactor(admin, "x").begin()
    producer.wire = client
    allow(admin, "write topic t", "describe transactional_id x")
    assert producer.write("t", b"b") is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allow(admin, "write transactional_id x")
    assert producer.write("t", b"b") is OK
    forget(admin)
    allow(admin, "write transactional_id x")
    assert producer.write("t", b"c") is DENIED
    producer.wire = admin
    producer.end(commit=False)


def test_records_outside_of_transactions_need_no_transactional_id(admin: Wire, client: Wire) -> None:
    allow(admin, "write topic t")
    request = produce_request("t", batch_of(b"b"))
    request.transactional_id = "of somebody else"
    assert error_codes(client.ask(request, m.ProduceResponse, 12)) == [OK]


def test_a_session_follows_the_permissions(admin: Wire, client: Wire) -> None:
    opened = client.ask(fetch_request("t", {0: 0}, session=(0, 0)), m.FetchResponse, 12)
    assert error_codes(opened) == [OK, DENIED]
    assert opened.session_id > 0
    allow(admin, "read topic t")
    further = fetch_request("t", {}, session=(opened.session_id, 1))
    permitted = client.ask(further, m.FetchResponse, 12)
    assert error_codes(permitted) == [OK, OK]
    assert permitted.responses[0].partitions[0].records
    forget(admin)
    further.session_epoch = 2
    refused = client.ask(further, m.FetchResponse, 12)
    assert error_codes(refused) == [OK, DENIED]
    assert not refused.responses[0].partitions[0].records


def test_a_fetch_of_other_topics_still_waits(admin: Wire, client: Wire) -> None:
    """As in Kafka, the topic that is refused does not make the fetch return at once."""
    admin.create_topic("empty")
    allow(admin, "read topic empty")
    request = fetch_request("t", {0: 0}, max_wait_ms=600_000)
    request.topics += fetch_request("empty", {0: 0}).topics
    client.send(request, 12)
    admin.produce("empty", batch_of(b"a"))
    found = {response.topic: response.partitions[0] for response in client.receive(m.FetchResponse).responses}
    assert found["t"].error_code == DENIED
    assert found["empty"].records


def test_a_refused_follower_has_no_session(client: Wire, topic_id: bytes) -> None:
    request = fetch(topic_id, replica_id=9)
    request.session_epoch = 0
    assert client.ask(request, m.FetchResponse, 12).session_id == 0


# Metadata


def topics_of(response: m.MetadataResponse) -> dict[str | None, tuple[ErrorCode, bool]]:
    """Error code and whether there is an id, by name."""
    return {topic.name: (ErrorCode.of(topic.error_code), any(topic.topic_id)) for topic in response.topics}


def metadata(wire: Wire, *names: str, version: int = 13, **fields: bool) -> m.MetadataResponse:
    topics = [m.MetadataRequest.MetadataRequestTopic(name=name) for name in names] or None
    fields = {"allow_auto_topic_creation": False, **fields}
    return wire.ask(m.MetadataRequest(topics=topics, **fields), m.MetadataResponse, version)


def test_metadata_hides_whether_topics_exist(admin: Wire, client: Wire, topic_id: bytes) -> None:
    hidden = (DENIED, False)
    assert topics_of(metadata(client, "t", "nowhere")) == {"t": hidden, "nowhere": hidden}
    assert topics_of(metadata(client)) == {}
    by_id = m.MetadataRequest(
        topics=[
            m.MetadataRequest.MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, NO_ID)
        ]
    )
    refused, unknown = client.ask(by_id, m.MetadataResponse).topics
    assert (refused.error_code, refused.name, refused.topic_id) == (DENIED, None, topic_id)
    assert (unknown.error_code, unknown.name) == (UNKNOWN_ID, None)
    allow(admin, "describe topic t", "describe topic nowhere")
    assert topics_of(metadata(client, "t", "nowhere")) == {"t": (OK, True), "nowhere": (UNKNOWN, False)}
    assert topics_of(metadata(client)) == {"t": (OK, True)}
    assert client.ask(by_id, m.MetadataResponse).topics[0].name == "t"


def test_metadata_creates_only_topics_that_the_client_may_create(admin: Wire, client: Wire) -> None:
    def ask(*names: str) -> dict[str | None, tuple[ErrorCode, bool]]:
        return topics_of(metadata(client, *names, allow_auto_topic_creation=True))

    refused = (DENIED, False)
    assert ask("made-1") == {"made-1": refused}
    allow(admin, "describe topic made-1", "describe topic made-2", "create topic made-1")
    assert ask("made-1", "made-2") == {"made-1": (OK, True), "made-2": refused}
    assert "made-2" not in topics_of(metadata(admin))
    allow(admin, "create cluster")
    assert ask("made-2", "made-3") == {"made-2": (OK, True), "made-3": refused}


def test_authorized_operations_are_those_of_the_client(admin: Wire, client: Wire) -> None:
    asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    refused = metadata(client, "t", version=8, **asked)
    assert refused.cluster_authorized_operations == 0
    assert refused.topics[0].topic_authorized_operations == UNASKED
    allow(admin, "read topic t", "describe cluster", "describe topic nowhere")
    told = metadata(client, "t", "nowhere", version=8, **asked)
    describe, read = 1 << 8, 1 << 3
    assert told.cluster_authorized_operations == describe
    assert [topic.topic_authorized_operations for topic in told.topics] == [read | describe, describe]


def test_partitions_are_described_of_topics_that_the_client_may_describe(admin: Wire, client: Wire) -> None:
    def described(*names: str) -> dict[str | None, tuple[int, int, bool]]:
        topics = [m.DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
        response = client.ask(
            m.DescribeTopicPartitionsRequest(topics=topics), m.DescribeTopicPartitionsResponse
        )
        return {
            topic.name: (topic.error_code, topic.topic_authorized_operations, any(topic.topic_id))
            for topic in response.topics
        }

    refused = (DENIED, UNASKED, False)
    assert described("t", "nowhere") == {"t": refused, "nowhere": refused}
    assert described() == {}
    allow(admin, "describe topic t", "describe topic nowhere")
    known, unknown = (OK, 1 << 8, True), (UNKNOWN, 1 << 8, False)
    assert described("t", "nowhere") == {"t": known, "nowhere": unknown}
    assert described() == {"t": known}


# Creation and deletion


def test_the_description_of_a_new_topic_needs_a_permission(admin: Wire, client: Wire) -> None:
    allow(admin, "create topic new")
    [hidden] = client.ask(create_topics("new"), m.CreateTopicsResponse).topics
    assert (hidden.error_code, hidden.topic_config_error_code) == (OK, DENIED)
    assert (hidden.num_partitions, hidden.replication_factor, hidden.configs) == (-1, -1, [])
    allow(admin, "describe_configs topic new")
    [shown] = client.ask(create_topics("new"), m.CreateTopicsResponse).topics
    assert (shown.topic_config_error_code, shown.num_partitions) == (OK, 1)
    assert shown.configs


def deleted(wire: Wire, *topics: str | bytes, version: int = 6) -> list[tuple[str | None, bytes, ErrorCode]]:
    states = [
        m.DeleteTopicsRequest.DeleteTopicState(name=topic)
        if isinstance(topic, str)
        else m.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic)
        for topic in topics
    ]
    names = [topic for topic in topics if isinstance(topic, str)]
    request = m.DeleteTopicsRequest(topics=states, topic_names=names, timeout_ms=10_000)
    responses = wire.ask(request, m.DeleteTopicsResponse, version).responses
    return [(result.name, result.topic_id, ErrorCode.of(result.error_code)) for result in responses]


def test_topics_are_deleted_by_name_without_a_word_on_hidden_ones(admin: Wire, client: Wire) -> None:
    admin.create_topic("old")
    none = bytes(16)
    assert deleted(client, "old", "nowhere") == [("old", none, DENIED), ("nowhere", none, DENIED)]
    assert [result[2] for result in deleted(client, "old", version=5)] == [DENIED]
    allow(admin, "describe topic old", "describe topic nowhere")
    assert deleted(client, "old", "nowhere") == [("old", none, DENIED), ("nowhere", none, UNKNOWN)]
    allow(admin, "delete topic old")
    [(name, _, code)] = deleted(client, "old")
    assert (name, code) == ("old", OK)
    assert "old" not in topics_of(metadata(admin))


def test_topics_are_deleted_by_id_without_the_names_of_hidden_ones(admin: Wire, client: Wire) -> None:
    old = admin.create_topic("old-by-id")
    assert deleted(client, old, NO_ID) == [(None, old, DENIED), (None, NO_ID, UNKNOWN_ID)]
    allow(admin, "describe topic old-by-id")
    assert deleted(client, old) == [("old-by-id", old, DENIED)]
    forget(admin)
    allow(admin, "delete topic old-by-id")
    assert deleted(client, old) == [("old-by-id", old, OK)]


def test_a_permission_on_the_cluster_deletes_every_topic(admin: Wire, client: Wire) -> None:
    old = admin.create_topic("old-of-the-cluster")
    allow(admin, "delete cluster")
    [(name, _, code)] = deleted(client, old)
    assert (name, code) == ("old-of-the-cluster", OK)
    assert deleted(client, "nowhere") == [("nowhere", bytes(16), UNKNOWN)]


def test_a_denial_wins_over_the_permission_on_all_topics(admin: Wire, client: Wire) -> None:
    allow(admin, "all topic *")
    allow(admin, "read topic t", permission=PermissionType.DENY)
    assert client.fetch("t").error_code == DENIED
    assert client.produce("t", batch_of(b"b")).error_code == OK
