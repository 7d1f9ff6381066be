"""A small language for the Admin API: a request to a node and, indented below it, the answer.

    create NAME [partitions=N] [factor=N] [assign=0:1,2/1:1] [CONFIG=VALUE ...]
    delete NAME ...                                     partitions NAME COUNT [assign=1/1]
    set | unset | append | subtract TYPE NAME CONFIG=VALUE ...      (one change after the other in a request)
    replace TYPE NAME CONFIG=VALUE ...                  describe TYPE NAME [CONFIG ...]
    elect TOPIC PARTITION ...                           metadata NAME ...
    page LIMIT [from=TOPIC:PARTITION] NAME ...

Words are quoted as in a shell. TYPE is a resource type, by name or number. Lines that begin with # are prose.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping

from broker_wire import Wire
from penstock.metadata.configs import ConfigType
from penstock.metadata.configs.describe import ConfigSource
from penstock.metadata.controller.configs import AlterOp
from penstock.metadata.image import ResourceType
from penstock.protocol import messages as m
from penstock.protocol.errors import ErrorCode

TIMEOUT_MS = 20_000
ANSWER = "    "
READING = ("describe", "metadata", "page")


def converse(bootstrap_servers: str, script: str, settle_s: float = 0.0) -> str:
    """The script with the answers of this node, which gets `settle_s` before changes are read back."""
    with Wire(bootstrap_servers) as wire:
        return "\n".join(_lines(wire, script, settle_s)) + "\n"


def _lines(wire: Wire, script: str, settle_s: float) -> Iterator[str]:
    for line in script.splitlines():
        if line.startswith(ANSWER):
            continue
        yield line
        if line and not line.startswith("#"):
            command, *words = shlex.split(line)
            if command in READING:
                time.sleep(settle_s)
            yield from (ANSWER + answer for answer in COMMANDS[command](wire, command, words))


def outcome(code: int, message: str | None = None) -> str:
    name = next(known.name for known in ErrorCode if known == code)
    return f"{name}: {message}" if message else name


def _pairs(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def _resource_type(word: str) -> int:
    return int(word) if word.isdigit() else ResourceType[word.upper()]


def _create(wire: Wire, _command: str, words: list[str]) -> Iterator[str]:
    name, pairs = words[0], _pairs(words[1:])
    assignments = [part.split(":") for part in pairs.pop("assign", "").split("/") if part]
    topic = m.CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=int(pairs.pop("partitions", "-1")),
        replication_factor=int(pairs.pop("factor", "-1")),
        assignments=[
            m.CreateTopicsRequest.CreatableReplicaAssignment(
                partition_index=int(index),
                broker_ids=[int(broker) for broker in brokers.split(",") if broker],
            )
            for index, brokers in assignments
        ],
        configs=[
            m.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in pairs.items()
        ],
    )
    request = m.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    for result in wire.ask(request, m.CreateTopicsResponse).topics:
        yield outcome(result.error_code, result.error_message)
        if result.error_code == 0:
            yield f"{result.num_partitions} partitions, {result.replication_factor} replicas"


def _delete(wire: Wire, _command: str, words: list[str]) -> list[str]:
    states = [m.DeleteTopicsRequest.DeleteTopicState(name=name) for name in words]
    request = m.DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)
    results = wire.ask(request, m.DeleteTopicsResponse).responses
    return sorted(f"{r.name} {outcome(r.error_code, r.error_message)}" for r in results)


def _partitions(wire: Wire, _command: str, words: list[str]) -> Iterator[str]:
    name, count, *rest = words
    assignments = [
        m.CreatePartitionsRequest.CreatePartitionsAssignment(
            broker_ids=[int(broker) for broker in brokers.split(",") if broker]
        )
        for value in _pairs(rest).values()
        for brokers in value.split("/")
    ]
    topic = m.CreatePartitionsRequest.CreatePartitionsTopic(
        name=name, count=int(count), assignments=assignments or None
    )
    request = m.CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    for result in wire.ask(request, m.CreatePartitionsResponse).results:
        yield outcome(result.error_code, result.error_message)


def _alter(wire: Wire, command: str, words: list[str]) -> Iterator[str]:
    op = AlterOp.DELETE if command == "unset" else AlterOp[command.upper()]
    config = m.IncrementalAlterConfigsRequest.AlterableConfig
    changes = []
    for word in words[2:]:
        name, is_set, value = word.partition("=")
        changes.append(config(name=name, config_operation=op, value=value if is_set else None))
    resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=_resource_type(words[0]), resource_name=words[1], configs=changes
    )
    request = m.IncrementalAlterConfigsRequest(resources=[resource])
    for response in wire.ask(request, m.IncrementalAlterConfigsResponse).responses:
        yield outcome(response.error_code, response.error_message)


def _replace(wire: Wire, _command: str, words: list[str]) -> Iterator[str]:
    resource = m.AlterConfigsRequest.AlterConfigsResource(
        resource_type=_resource_type(words[0]),
        resource_name=words[1],
        configs=[
            m.AlterConfigsRequest.AlterableConfig(name=name, value=value)
            for name, value in _pairs(words[2:]).items()
        ],
    )
    request = m.AlterConfigsRequest(resources=[resource])
    for response in wire.ask(request, m.AlterConfigsResponse).responses:
        yield outcome(response.error_code, response.error_message)


def _describe(wire: Wire, _command: str, words: list[str]) -> Iterator[str]:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_resource_type(words[0]), resource_name=words[1], configuration_keys=words[2:] or None
    )
    request = m.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    for result in wire.ask(request, m.DescribeConfigsResponse).results:
        if result.error_code:
            yield outcome(result.error_code, result.error_message)
        for config in sorted(result.configs, key=lambda config: config.name):
            yield _described(config)
            yield from (
                f"  {synonym.name}={synonym.value} {ConfigSource(synonym.source).name}"
                for synonym in config.synonyms
            )


def _described(config: m.DescribeConfigsResponse.DescribeConfigsResourceResult) -> str:
    type_ = ConfigType(config.config_type).name if config.config_type else "UNKNOWN"
    marks = " read-only" * config.read_only + " sensitive" * config.is_sensitive
    return f"{config.name}={config.value} {type_} {ConfigSource(config.config_source).name}{marks}"


def _elect(wire: Wire, _command: str, words: list[str]) -> Iterator[str]:
    asked = m.ElectLeadersRequest.TopicPartitions(topic=words[0], partitions=[int(p) for p in words[1:]])
    request = m.ElectLeadersRequest(topic_partitions=[asked], timeout_ms=TIMEOUT_MS)
    for topic in wire.ask(request, m.ElectLeadersResponse).replica_election_results:
        for result in topic.partition_result:
            yield f"{result.partition_id} {outcome(result.error_code, result.error_message)}"


def _metadata(wire: Wire, _command: str, words: list[str]) -> list[str]:
    topics = [m.MetadataRequest.MetadataRequestTopic(name=name) for name in words]
    request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    found = wire.ask(request, m.MetadataResponse).topics
    return sorted(
        f"'{topic.name}' {outcome(topic.error_code)} {len(topic.partitions)} partitions" for topic in found
    )


def _page(wire: Wire, _command: str, words: list[str]) -> Iterator[str]:
    request = m.DescribeTopicPartitionsRequest(response_partition_limit=int(words[0]))
    for word in words[1:]:
        if word.startswith("from="):
            topic, _, partition = word.removeprefix("from=").partition(":")
            request.cursor = m.DescribeTopicPartitionsRequest.Cursor(
                topic_name=topic, partition_index=int(partition)
            )
        else:
            request.topics.append(m.DescribeTopicPartitionsRequest.TopicRequest(name=word))
    response = wire.ask(request, m.DescribeTopicPartitionsResponse)
    for found in response.topics:
        yield f"{found.name} {outcome(found.error_code)} {[p.partition_index for p in found.partitions]}"
    if response.next_cursor is not None:
        yield f"next {response.next_cursor.topic_name}:{response.next_cursor.partition_index}"


COMMANDS: Mapping[str, Callable[[Wire, str, list[str]], Iterator[str] | list[str]]] = {
    "create": _create,
    "delete": _delete,
    "partitions": _partitions,
    "set": _alter,
    "unset": _alter,
    "append": _alter,
    "subtract": _alter,
    "replace": _replace,
    "describe": _describe,
    "elect": _elect,
    "metadata": _metadata,
    "page": _page,
}
