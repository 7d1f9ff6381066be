"""Topics and partitions: creation, and the messages of errors."""

import pytest
from controller_bench import DIRECTORY, ControllerBench

from penstock.metadata.controller.elections import elect_leaders
from penstock.metadata.controller.partitions import create_partitions
from penstock.metadata.controller.topics import (
    create_topics,
    delete_topics,
    internal_topic,
    names_to_delete,
)
from penstock.metadata.image import UNASSIGNED_DIRECTORY, ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    ElectLeadersRequest,
)

CreatableTopic = CreateTopicsRequest.CreatableTopic
Assignment = CreateTopicsRequest.CreatableReplicaAssignment


@pytest.fixture
def bench() -> ControllerBench:
    return ControllerBench()


def assigned(
    bench: ControllerBench, *replicas: list[int], **fields: int
) -> CreateTopicsResponse.CreatableTopicResult:
    assignments = [Assignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(replicas)]
    unset = {"num_partitions": -1, "replication_factor": -1}
    topic = CreatableTopic(name="t", assignments=assignments, **{**unset, **fields})
    return bench.do(create_topics, CreateTopicsRequest(topics=[topic])).topics[0]


def test_a_topic_is_its_record_its_configs_and_its_partitions(bench: ControllerBench) -> None:
    result = bench.create("t", partitions=2, retention_ms="5")
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    assert [type(record).__name__ for record in bench.records] == [
        "TopicRecord",
        "ConfigRecord",
        "PartitionRecord",
        "PartitionRecord",
    ]
    assert bench.image.topics.by_name["t"].topic_id == result.topic_id
    partition = bench.image.topics.partition("t", 1)
    assert partition is not None
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, (1,))
    assert partition.directories == (DIRECTORY,)


def test_topics_of_one_request_have_their_own_configs(bench: ControllerBench) -> None:
    def topic(name: str, **configs: str) -> CreatableTopic:
        config = CreateTopicsRequest.CreatableTopicConfig
        entries = [config(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        return CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=entries)

    asked = [
        topic("plain"),
        topic("wrong", retention_ms="x"),
        topic("short", retention_ms="5"),
        topic("wrong-too", retention_ms="x"),
        topic("plain-too"),
    ]
    results = bench.do(create_topics, CreateTopicsRequest(topics=asked)).topics
    retention = {
        result.name: next((e.value for e in result.configs or [] if e.name == "retention.ms"), None)
        for result in results
    }
    week = str(168 * 3_600_000)
    assert retention == {"plain": week, "wrong": None, "short": "5", "wrong-too": None, "plain-too": week}
    assert results[1].error_code == results[3].error_code == ErrorCode.INVALID_CONFIG


def test_the_answer_shows_where_configs_come_from(bench: ControllerBench) -> None:
    configs = {entry.name: entry for entry in bench.create("t", retention_ms="5").configs or []}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("1073741824", 4)
    assert configs["flush.ms"].config_source == 5
    assert "internal.segment.bytes" not in configs


def test_the_broker_has_defaults_for_counts() -> None:
    bench = ControllerBench({"num.partitions": "3"})
    assert bench.create("t", partitions=-1, replication_factor=-1).num_partitions == 3


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("", "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed"),
        ("..", "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: '..' is not allowed"),
        ("a b", "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: 'a b' contains one or more characters"),
        ("x" * 250, "INVALID_TOPIC_EXCEPTION", "is longer than the max allowed length 249"),
        ("a_b", "INVALID_TOPIC_EXCEPTION", "Topic 'a_b' collides with existing topic: a.b"),
        ("a.b", "TOPIC_ALREADY_EXISTS", "Topic 'a.b' already exists."),
        (
            "__cluster_metadata",
            "INVALID_REQUEST",
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    ],
)
def test_names_that_cannot_be(bench: ControllerBench, name: str, code: str, message: str) -> None:
    bench.create("a.b")
    bench.records.clear()
    result = bench.create(name)
    assert result.error_code == ErrorCode[code]
    assert message in (result.error_message or "")
    assert not bench.records


@pytest.mark.parametrize(
    ("partitions", "factor", "code", "message"),
    [
        (0, 1, "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
        (-2, 1, "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
        (1, 0, "INVALID_REPLICATION_FACTOR", "Replication factor must be larger than 0, or -1"),
        (1, 2, "INVALID_REPLICATION_FACTOR", "cannot be reached because only 1 broker(s) are registered"),
        (10_001, 1, "POLICY_VIOLATION", "Excessively large number of partitions per request."),
    ],
)
def test_counts_that_cannot_be(
    bench: ControllerBench, partitions: int, factor: int, code: str, message: str
) -> None:
    result = bench.create("t", partitions, factor)
    assert result.error_code == ErrorCode[code]
    assert message in (result.error_message or "")


def test_configs_that_cannot_be(bench: ControllerBench) -> None:
    for configs, message in (
        ({"foo": "1"}, "Unknown topic config name: foo"),
        ({"retention_ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ({"min_compaction_lag_ms": "9", "max_compaction_lag_ms": "8"}, "conflict topic config setting"),
        ({"remote_storage_enable": "true"}, "Tiered Storage functionality is disabled in the broker."),
    ):
        result = bench.create("t", **configs)
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert message in (result.error_message or "")


@pytest.mark.parametrize(
    ("replicas", "fields", "code", "message"),
    [
        (([1],), {"num_partitions": 1}, "INVALID_REQUEST", "but numPartitions was not set to -1."),
        (([1],), {"replication_factor": 1}, "INVALID_REQUEST", "but replication factor was not set to -1."),
        (([],), {}, "INVALID_REPLICA_ASSIGNMENT", "includes an empty replica list."),
        (([1, 1],), {}, "INVALID_REPLICA_ASSIGNMENT", "includes the broker 1 more than once."),
        (([5],), {}, "INVALID_REPLICA_ASSIGNMENT", "includes broker 5, but no such broker is registered."),
        (
            ([1], [1, 2]),
            {},
            "INVALID_REPLICA_ASSIGNMENT",
            "a partition with 2 replica(s), but this is not consistent",
        ),
    ],
)
def test_assignments_that_cannot_be(
    replicas: tuple[list[int], ...], fields: dict[str, int], code: str, message: str
) -> None:
    result = assigned(ControllerBench(brokers=(1, 2)), *replicas, **fields)
    assert result.error_code == ErrorCode[code]
    assert message in (result.error_message or "")


def test_partitions_of_an_assignment_have_no_gaps_and_no_doubles(bench: ControllerBench) -> None:
    for indexes, message in (
        ((0, 2), "partitions should be a consecutive 0-based integer sequence"),
        ((0, 0), "Found multiple manual partition assignments for partition 0"),
    ):
        topic = CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[Assignment(partition_index=i, broker_ids=[1]) for i in indexes],
        )
        result = bench.do(create_topics, CreateTopicsRequest(topics=[topic])).topics[0]
        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def test_assigned_replicas_lead_in_their_order() -> None:
    bench = ControllerBench(brokers=(1, 2))
    assert assigned(bench, [2, 1], [1, 2]).error_code == 0
    assert [p.leader for p in bench.image.topics.by_name["t"].partitions.values()] == [2, 1]


def test_only_fenced_brokers_make_no_partition(bench: ControllerBench) -> None:
    bench.register(2)
    result = assigned(bench, [2])
    assert "are fenced or in controlled shutdown" in (result.error_message or "")


def test_replicas_go_round_the_brokers() -> None:
    bench = ControllerBench(brokers=(1, 2, 3))
    bench.create("t", partitions=3, replication_factor=2)
    partitions = bench.image.topics.by_name["t"].partitions
    assert [p.replicas for p in partitions.values()] == [(1, 2), (2, 3), (3, 1)]


def test_a_broker_of_several_directories_chooses_itself() -> None:
    bench = ControllerBench()
    registration = bench.image.brokers[1]
    record = registration.to_record()
    record.log_dirs = [DIRECTORY, bytes([9]) * 16]
    record.fenced = False
    bench.image.brokers[1] = type(registration).from_record(record)
    bench.create("t")
    partition = bench.image.topics.partition("t", 0)
    assert partition is not None
    assert partition.directories == (UNASSIGNED_DIRECTORY,)


def test_a_name_twice_in_a_request_is_refused_once(bench: ControllerBench) -> None:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("d", "d", "e")]
    response = bench.do(create_topics, CreateTopicsRequest(topics=topics))
    assert [(t.name, t.error_code, t.error_message) for t in response.topics] == [
        ("e", 0, None),
        ("d", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
    ]
    assert list(bench.image.topics.by_name) == ["e"]


def test_names_of_one_request_may_collide_too(bench: ControllerBench) -> None:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a.b", "a_b")]
    response = bench.do(create_topics, CreateTopicsRequest(topics=topics))
    assert [t.error_code for t in response.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_client_creates_and_sees_only_what_it_may(bench: ControllerBench) -> None:
    bench.create("existing")
    bench.records.clear()
    names = ("seen", "hidden", "existing", "refused", "__cluster_metadata")
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    response = bench.do(create_topics, CreateTopicsRequest(topics=topics), {"seen", "hidden"}, {"seen"})
    denied = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    assert {t.name: (t.error_code, t.error_message) for t in response.topics} == {
        "seen": (0, None),
        "hidden": (0, None),
        "existing": denied,
        "refused": denied,
        "__cluster_metadata": (
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    }
    seen, hidden = response.topics[:2]
    assert (seen.num_partitions, seen.replication_factor, seen.topic_config_error_code) == (1, 1, 0)
    assert seen.configs
    assert (hidden.num_partitions, hidden.replication_factor, hidden.configs) == (-1, -1, [])
    assert hidden.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert set(bench.image.topics.by_name) == {"seen", "hidden", "existing"}


def test_validation_changes_nothing(bench: ControllerBench) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    response = bench.do(create_topics, CreateTopicsRequest(topics=[topic], validate_only=True))
    assert response.topics[0].error_code == 0
    assert not bench.records


def test_internal_topics_are_made_to_measure() -> None:
    bench = ControllerBench({"offsets.topic.num.partitions": "4"})
    request = CreateTopicsRequest(
        topics=[
            internal_topic(name, bench.config)
            for name in ("__consumer_offsets", "__transaction_state", "__share_group_state")
        ]
    )
    assert [topic.error_code for topic in bench.do(create_topics, request).topics] == [0, 0, 0]
    assert len(bench.image.topics.by_name["__consumer_offsets"].partitions) == 4
    configs = bench.image.configs.of(ResourceType.TOPIC, "__consumer_offsets")
    assert configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


def test_topics_are_deleted_by_name_and_by_id(bench: ControllerBench) -> None:
    by_id, by_name = bench.create("a"), bench.create("b", retention_ms="1")
    state = DeleteTopicsRequest.DeleteTopicState
    unknown = bytes([7]) * 16
    response = bench.do(
        delete_topics,
        DeleteTopicsRequest(
            topics=[
                state(topic_id=by_id.topic_id),
                state(name="b"),
                state(name="nope"),
                state(topic_id=unknown),
                state(),
                state(name="b", topic_id=unknown),
            ]
        ),
    )
    assert [(r.name, r.error_code, r.error_message) for r in response.responses] == [
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        (None, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        (None, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        ("b", ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        ("b", 0, None),
        ("a", 0, None),
    ]
    assert response.responses[4].topic_id == by_name.topic_id
    assert len(bench.image.topics) == 0
    assert bench.image.configs.of(ResourceType.TOPIC, "b") == {}


def test_older_requests_delete_by_name(bench: ControllerBench) -> None:
    bench.create("a")
    response = bench.do(delete_topics, DeleteTopicsRequest(topic_names=["a", "b", "b"]))
    assert [(r.name, r.error_code) for r in response.responses] == [
        ("b", ErrorCode.INVALID_REQUEST),
        ("a", 0),
    ]


def test_a_topic_given_by_name_and_by_id_is_refused_once_and_stays(bench: ControllerBench) -> None:
    for name in ("twice", "named", "identified"):
        bench.create(name)
    ids = {name: topic.topic_id for name, topic in bench.image.topics.by_name.items()}
    asked = DeleteTopicsRequest.DeleteTopicState
    topics = [asked(topic_id=ids["twice"]), asked(name="twice"), asked(name="named")]
    topics.append(asked(topic_id=ids["identified"]))
    response = bench.do(delete_topics, DeleteTopicsRequest(topics=topics))
    message = "The provided topic name maps to an ID that was already supplied."
    assert [(t.name, t.topic_id, t.error_code, t.error_message) for t in response.responses] == [
        ("twice", ids["twice"], ErrorCode.INVALID_REQUEST, message),
        ("named", ids["named"], 0, None),
        ("identified", ids["identified"], 0, None),
    ]
    assert list(bench.image.topics.by_name) == ["twice"]


def test_a_client_deletes_what_it_may_and_learns_nothing_of_hidden_topics(bench: ControllerBench) -> None:
    ids = {name: bench.create(name).topic_id for name in ("mine", "seen", "hidden")}
    state = DeleteTopicsRequest.DeleteTopicState
    request = DeleteTopicsRequest(
        topics=[
            *(state(topic_id=ids[name]) for name in ("seen", "hidden")),
            *(state(name=name) for name in ("seen-nowhere", "hidden-nowhere", "mine")),
        ]
    )
    assert names_to_delete(bench.state, request) == {*ids, "seen-nowhere", "hidden-nowhere"}
    response = bench.do(delete_topics, request, {"seen", "seen-nowhere", "mine"}, {"mine"})
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [(r.name, r.topic_id, r.error_code) for r in response.responses] == [
        ("seen", ids["seen"], denied),
        (None, ids["hidden"], denied),
        ("seen-nowhere", bytes(16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("hidden-nowhere", bytes(16), denied),
        ("mine", ids["mine"], 0),
    ]
    by_name = DeleteTopicsRequest(topics=[state(name=name) for name in ("seen", "hidden")])
    refused = bench.do(delete_topics, by_name, {"seen"}, set()).responses
    assert [(r.name, r.topic_id, r.error_code) for r in refused] == [
        ("seen", bytes(16), denied),
        ("hidden", bytes(16), denied),
    ]
    assert set(bench.image.topics.by_name) == {"seen", "hidden"}


def more(bench: ControllerBench, name: str, count: int, *assignments: list[int]) -> tuple[int, str | None]:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    if assignments:
        topic.assignments = [
            CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments
        ]
    result = bench.do(create_partitions, CreatePartitionsRequest(topics=[topic])).results[0]
    return result.error_code, result.error_message


def test_partitions_are_added_never_taken(bench: ControllerBench) -> None:
    bench.create("t", partitions=2)
    assert more(bench, "t", 3) == (0, None)
    assert more(bench, "t", 3) == (ErrorCode.INVALID_PARTITIONS, "Topic already has 3 partition(s).")
    assert more(bench, "t", 1) == (
        ErrorCode.INVALID_PARTITIONS,
        "The topic t currently has 3 partition(s); 1 would not be an increase.",
    )
    assert more(bench, "nope", 1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert more(bench, "t", 20_000)[0] == ErrorCode.POLICY_VIOLATION
    assert list(bench.image.topics.by_name["t"].partitions) == [0, 1, 2]


def test_added_partitions_may_be_assigned(bench: ControllerBench) -> None:
    bench.create("t")
    assert more(bench, "t", 2, [1], [1]) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified.",
    )
    assert more(bench, "t", 2, [7])[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert more(bench, "t", 2, [1]) == (0, None)


def test_elections_are_not_needed_where_the_only_replica_leads(bench: ControllerBench) -> None:
    bench.create("t")
    asked = ElectLeadersRequest.TopicPartitions
    response = bench.do(
        elect_leaders,
        ElectLeadersRequest(
            topic_partitions=[asked(topic="t", partitions=[0, 9]), asked(topic="nope", partitions=[0])]
        ),
    )
    assert [
        (p.error_code, p.error_message) for r in response.replica_election_results for p in r.partition_result
    ] == [
        (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-9"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as nope"),
    ]
    everything = bench.do(elect_leaders, ElectLeadersRequest(topic_partitions=None))
    assert [(r.topic, r.partition_result) for r in everything.replica_election_results] == [("t", [])]
    unknown = bench.do(
        elect_leaders,
        ElectLeadersRequest(election_type=5, topic_partitions=[asked(topic="t", partitions=[0])]),
    )
    assert unknown.error_code == ErrorCode.INVALID_REQUEST
