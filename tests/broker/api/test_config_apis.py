"""DescribeConfigs and the two APIs that alter configs, with the topics' APIs that go with them."""

from collections.abc import Callable
from typing import Any

import pytest

from broker_wire import Wire
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.testing import Cluster

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult


def describe(
    wire: Wire,
    type_: int,
    name: str,
    *names: str,
    version: int = 4,
    synonyms: bool = False,
    docs: bool = False,
) -> DescribeConfigsResponse.DescribeConfigsResult:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=type_, resource_name=name, configuration_keys=list(names) or None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=docs
    )
    return wire.ask(request, DescribeConfigsResponse, version).results[0]


def entry(wire: Wire, type_: int, resource: str, name: str, synonyms: bool = False) -> Entry:
    (found,) = describe(wire, type_, resource, name, synonyms=synonyms).configs
    return found


def alter(
    wire: Wire, type_: int, resource: str, name: str, value: str | None, op: int = SET, version: int = 1
) -> tuple[int, str | None]:
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=type_,
        resource_name=resource,
        configs=[IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=op, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[asked])
    response = wire.ask(request, IncrementalAlterConfigsResponse, version).responses[0]
    return response.error_code, response.error_message


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_configs(wire: Wire, topic: str, version: int) -> None:
    result = describe(wire, TOPIC, topic, version=version)
    assert (result.error_code, result.error_message) == (0, "")
    of_kafka = [config for config in result.configs if not config.name.startswith("confluent.")]
    assert len(of_kafka) == 33
    names = [config.name for config in result.configs]
    assert names == sorted(names)
    retention = result.configs[names.index("retention.ms")]
    assert (retention.value, retention.read_only, retention.is_sensitive) == ("604800000", False, False)
    assert retention.synonyms == []


def test_where_a_value_comes_from(wire: Wire, topic: str) -> None:
    assert entry(wire, TOPIC, topic, "segment.bytes").config_source == 4, "the shipped server.properties"
    assert entry(wire, TOPIC, topic, "flush.ms").config_source == 5
    assert alter(wire, TOPIC, topic, "segment.bytes", "2097152") == (0, None)
    found = entry(wire, TOPIC, topic, "segment.bytes", synonyms=True)
    assert [(s.name, s.value, s.source) for s in found.synonyms] == [
        ("segment.bytes", "2097152", 1),
        ("log.segment.bytes", "1073741824", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]


def test_docs_are_told_when_asked_for(wire: Wire, topic: str) -> None:
    (silent,) = describe(wire, TOPIC, topic, "flush.ms").configs
    assert silent.documentation is None
    (told,) = describe(wire, TOPIC, topic, "flush.ms", docs=True).configs
    assert told.documentation
    assert "fsync" in told.documentation


def test_more_resources_than_one_turn_takes(wire: Wire, topic: str) -> None:
    asked = DescribeConfigsRequest.DescribeConfigsResource(resource_type=TOPIC, resource_name=topic)
    response = wire.ask(DescribeConfigsRequest(resources=[asked] * 11), DescribeConfigsResponse)
    assert [result.resource_name for result in response.results] == [topic] * 11
    assert all(result.configs == response.results[0].configs for result in response.results)


def test_a_brokers_configs(wire: Wire) -> None:
    configs = {config.name: config for config in describe(wire, BROKER, "1").configs}
    assert configs["node.id"].value == "1"
    assert configs["node.id"].read_only
    assert not configs["max.connections"].read_only
    assert configs["offsets.topic.replication.factor"].config_source == 4
    assert configs["offsets.topic.replication.factor"].value == "1"
    assert configs["ssl.key.password"].is_sensitive
    assert not any(name.startswith("internal.") for name in configs)


def test_dynamic_broker_configs_and_their_default(wire: Wire) -> None:
    assert alter(wire, BROKER, "", "log.cleaner.backoff.ms", "7") == (0, None)
    assert alter(wire, BROKER, "1", "log.cleaner.backoff.ms", "8") == (0, None)
    found = entry(wire, BROKER, "1", "log.cleaner.backoff.ms", synonyms=True)
    assert (found.value, found.config_source) == ("8", 2)
    assert [s.source for s in found.synonyms] == [2, 3, 5]
    assert entry(wire, BROKER, "", "log.cleaner.backoff.ms").value == "7"
    assert alter(wire, BROKER, "1", "log.cleaner.backoff.ms", None, DELETE) == (0, None)
    assert entry(wire, BROKER, "1", "log.cleaner.backoff.ms").value == "7"
    assert alter(wire, BROKER, "", "log.cleaner.backoff.ms", None, DELETE) == (0, None)


def test_secrets_are_never_shown(wire: Wire) -> None:
    name = "listener.name.edge.ssl.key.password"
    assert alter(wire, BROKER, "1", name, "hunter2") == (0, None)
    found = entry(wire, BROKER, "1", name, synonyms=True)
    assert (found.value, found.is_sensitive) == (None, True)
    assert {synonym.value for synonym in found.synonyms} == {None}
    assert alter(wire, BROKER, "1", name, None, DELETE) == (0, None)


@pytest.mark.parametrize(
    ("type_", "name", "code", "message"),
    [
        (TOPIC, "nowhere", "UNKNOWN_TOPIC_OR_PARTITION", ""),
        (TOPIC, "", "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "2", "INVALID_REQUEST", "Unexpected broker id, expected 1 or empty string, but received 2"),
        (BROKER, "x", "INVALID_REQUEST", "Broker id must be an integer, but it is: x"),
        (BROKER_LOGGER, "", "INVALID_REQUEST", "Broker id must not be empty"),
        (BROKER_LOGGER, "2", "INVALID_REQUEST", "Unexpected broker id, expected 1 but received 2"),
        (GROUP, "", "INVALID_REQUEST", "Group name must not be empty"),
        (CLIENT_METRICS, "", "INVALID_REQUEST", "Client metrics subscription name must not be empty"),
        (3, "x", "INVALID_REQUEST", "Unexpected resource type 3 for resource x"),
    ],
)
def test_what_cannot_be_described(wire: Wire, type_: int, name: str, code: str, message: str) -> None:
    result = describe(wire, type_, name)
    assert (result.error_code, result.error_message, result.configs) == (ErrorCode[code], message, [])


def test_groups_and_client_metrics_have_configs(wire: Wire) -> None:
    assert len(describe(wire, GROUP, "any").configs) == 17
    assert alter(wire, GROUP, "g", "consumer.session.timeout.ms", "50000") == (0, None)
    assert entry(wire, GROUP, "g", "consumer.session.timeout.ms").config_source == 8
    assert alter(wire, CLIENT_METRICS, "m", "interval.ms", "1000") == (0, None)
    assert entry(wire, CLIENT_METRICS, "m", "interval.ms").config_source == 7


def test_log_levels(wire: Wire) -> None:
    logger = "penstock.broker.partitions.purgatory"
    levels = {config.name: config for config in describe(wire, BROKER_LOGGER, "1").configs}
    assert "kafka.authorizer.logger" in levels
    assert levels["root"].config_source == 6
    known = logger if logger in levels else "penstock.broker.control.controller"
    before = levels[known].value
    assert alter(wire, BROKER_LOGGER, "1", known, "ERROR") == (0, None)
    assert entry(wire, BROKER_LOGGER, "1", known).value == "ERROR"
    assert alter(wire, BROKER_LOGGER, "1", known, None, DELETE) == (0, None)
    assert entry(wire, BROKER_LOGGER, "1", known).value == before
    for name, value, op, code, message in (
        ("nope", "INFO", SET, "INVALID_CONFIG", "Logger nope does not exist!"),
        ("root", "LOUD", SET, "INVALID_CONFIG", "as it is not a supported log level"),
        ("root", "INFO", APPEND, "INVALID_REQUEST", "APPEND operation is not allowed"),
        ("root", None, DELETE, "INVALID_REQUEST", "Removing the log level of the root logger"),
    ):
        found, said = alter(wire, BROKER_LOGGER, "1", name, value, op)
        assert (found, message in (said or "")) == (ErrorCode[code], True), said
    assert alter(wire, BROKER_LOGGER, "2", "root", "INFO")[0] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(2))
def test_incremental_changes_in_every_version(wire: Wire, topic: str, version: int) -> None:
    assert alter(wire, TOPIC, topic, "cleanup.policy", "compact", APPEND, version) == (0, None)
    assert entry(wire, TOPIC, topic, "cleanup.policy").value == "delete,compact"
    assert alter(wire, TOPIC, topic, "cleanup.policy", None, DELETE, version) == (0, None)


def test_each_resource_is_answered_in_its_place(wire: Wire, topic: str) -> None:
    def resource(type_: int, name: str, config: str, value: str) -> Any:
        change = IncrementalAlterConfigsRequest.AlterableConfig(
            name=config, config_operation=SET, value=value
        )
        return IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=type_, resource_name=name, configs=[change]
        )

    asked = [
        resource(BROKER, "2", "background.threads", "11"),
        resource(TOPIC, topic, "retention.ms", "5"),
        resource(BROKER_LOGGER, "1", "root", "LOUD"),
        resource(TOPIC, "nobody", "retention.ms", "5"),
        resource(BROKER, "1", "background.threads", "1000"),
        resource(GROUP, "g", "consumer.session.timeout.ms", "50000"),
        resource(GROUP, "g", "consumer.session.timeout.ms", "50000"),
        resource(3, "what", "a", "b"),
    ]
    request = IncrementalAlterConfigsRequest(resources=asked, validate_only=True)
    answers = wire.ask(request, IncrementalAlterConfigsResponse, 1).responses
    assert [(r.resource_type, r.resource_name) for r in answers] == [
        (r.resource_type, r.resource_name) for r in asked
    ]
    assert [ErrorCode(r.error_code).name for r in answers] == [
        "INVALID_REQUEST",
        "NONE",
        "INVALID_CONFIG",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
    ]
    assert answers[6].error_message == "Each resource must appear at most once."


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_everything(wire: Wire, topic: str, version: int) -> None:
    assert alter(wire, TOPIC, topic, "flush.ms", "9") == (0, None)
    asked = AlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=topic,
        configs=[AlterConfigsRequest.AlterableConfig(name="retention.ms", value="5")],
    )
    response = wire.ask(AlterConfigsRequest(resources=[asked]), AlterConfigsResponse, version)
    assert response.responses[0].error_code == 0
    assert entry(wire, TOPIC, topic, "retention.ms").value == "5"
    assert entry(wire, TOPIC, topic, "flush.ms").config_source == 5


def test_configs_and_topics_survive_a_kill(start_node: Callable[..., Cluster]) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        topic_id = wire.create_topic("t", partitions=2, retention_ms="5")
        assert alter(wire, BROKER, "", "max.connections", "99") == (0, None)
    node.kill()
    node.start()
    with Wire(node.bootstrap_servers) as wire:
        assert wire.topic_id("t") == topic_id
        assert entry(wire, TOPIC, "t", "retention.ms").value == "5"
        assert entry(wire, BROKER, "1", "max.connections").value == "99"


def test_partitions_are_added(wire: Wire, topic: str) -> None:
    asked = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=3, assignments=None)
    for version in range(4):
        asked.count += 1
        response = wire.ask(
            CreatePartitionsRequest(topics=[asked], timeout_ms=9000), CreatePartitionsResponse, version
        )
        assert [(r.name, r.error_code) for r in response.results] == [(topic, 0)]


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_deleted_and_may_come_again(wire: Wire, topic: str, version: int) -> None:
    old_id = wire.topic_id(topic)
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=9000)
    if version >= 6:
        state = DeleteTopicsRequest.DeleteTopicState(topic_id=old_id)
        request = DeleteTopicsRequest(topics=[state], timeout_ms=9000)
    response = wire.ask(request, DeleteTopicsResponse, version)
    assert [(r.name, r.error_code) for r in response.responses] == [(topic, 0)]
    assert wire.create_topic(topic) != old_id


def test_deletion_may_be_disabled(start_node: Callable[..., Cluster]) -> None:
    node = start_node(delete_topic_enable="false")
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t")
        for version, code in ((1, "INVALID_REQUEST"), (5, "TOPIC_DELETION_DISABLED")):
            response = wire.ask(
                DeleteTopicsRequest(topic_names=["t"], timeout_ms=9000), DeleteTopicsResponse, version
            )
            assert [r.error_code for r in response.responses] == [ErrorCode[code]]


@pytest.mark.parametrize("version", range(3))
def test_no_election_is_needed(wire: Wire, topic: str, version: int) -> None:
    asked = ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[0])
    response = wire.ask(ElectLeadersRequest(topic_partitions=[asked]), ElectLeadersResponse, version)
    ((result,),) = [r.partition_result for r in response.replica_election_results]
    assert result.error_code == ErrorCode.ELECTION_NOT_NEEDED
