"""CreateTopics and DeleteTopics."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from functools import cache
from typing import Final, TypeAlias

from penstock.metadata.configs import BrokerConfig, InvalidConfig, validate_topic_config
from penstock.metadata.configs.describe import describe_topic
from penstock.metadata.controller.configs import forget_eligible_leaders
from penstock.metadata.controller.placement import manual_partition, place, placed_partition
from penstock.metadata.controller.state import (
    Charge,
    ControllerState,
    Decision,
    Refusal,
    free_of_charge,
    repeated,
)
from penstock.metadata.controller.topic_names import (
    CLUSTER_METADATA,
    check_topic_name,
    collision_key,
)
from penstock.metadata.image import PartitionRegistration, ResourceType, TopicImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ZERO_UUID,
    ConfigRecord,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    Message,
    RemoveTopicRecord,
    TopicRecord,
)

CreatableTopic: TypeAlias = CreateTopicsRequest.CreatableTopic
TopicResult: TypeAlias = CreateTopicsResponse.CreatableTopicResult
DeleteState: TypeAlias = DeleteTopicsRequest.DeleteTopicState
DeleteResult: TypeAlias = DeleteTopicsResponse.DeletableTopicResult
ResultConfigs: TypeAlias = list[CreateTopicsResponse.CreatableTopicConfigs]
JudgeConfigs: TypeAlias = Callable[[tuple[tuple[str, str], ...]], ResultConfigs]

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""As in Kafka: all records of a request form one batch, and this limits the batch's size."""

_UNSET: Final = -1
_NOT_HERE: Final = "This server does not host this topic-partition."
_NAMED_AND_IDENTIFIED: Final = "The provided topic name maps to an ID that was already supplied."


def create_topics(
    state: ControllerState,
    request: CreateTopicsRequest,
    may_create: Container[str] | None = None,
    shows_configs_of: Container[str] | None = None,
    charge: Charge = free_of_charge,
) -> Decision[CreateTopicsResponse]:
    """Create topics, each of which succeeds or fails separately; a repeated name fails once.

    Topics outside of ``may_create`` are refused, and the response describes only topics in
    ``shows_configs_of``; None stands for all. The client's quota is charged each topic's partitions.
    """
    config = state.config()
    # A check takes half a millisecond, and most topics of a request set the same configs.
    judge = cache(lambda overrides: _judged_configs(config, dict(overrides)))
    records: list[Message] = []
    results: list[TopicResult] = []
    duplicates = set(repeated(topic.name for topic in request.topics))
    taken = {collision_key(name): name for name in state.image.topics.by_name}
    budget = MAX_PARTITIONS_PER_REQUEST
    for topic in request.topics:
        if topic.name in duplicates:
            continue
        try:
            _check_may_create(topic.name, may_create)
            check_new_name(state, topic.name, taken)
            topic_records, partitions, result = _create_topic(state, config, topic, budget, judge, charge)
        except Refusal as refusal:
            results.append(_failed(topic.name, refusal))
            continue
        if shows_configs_of is not None and topic.name not in shows_configs_of:
            _hide_configs(result)
        taken[collision_key(topic.name)] = topic.name
        budget -= len(partitions)
        records += topic_records
        results.append(result)
    repetition = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results += [_failed(name, repetition) for name in sorted(duplicates)]
    return Decision([] if request.validate_only else records, CreateTopicsResponse(topics=results))


def _check_may_create(name: str, may_create: Container[str] | None) -> None:
    """Check the client's permission, except for the metadata topic, which is refused to all clients."""
    if may_create is not None and name not in may_create and name != CLUSTER_METADATA:
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def _hide_configs(result: TopicResult) -> None:
    """Hide what the client may not describe: configs, and counts that may come from the broker's configs."""
    result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    result.num_partitions, result.replication_factor, result.configs = -1, -1, []


def check_new_name(state: ControllerState, name: str, taken: dict[str, str]) -> None:
    """Check that ``name`` is legal and free; ``taken`` maps collision keys to all names so far."""
    if name == CLUSTER_METADATA:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
        )
    check_topic_name(name)
    if name in state.image.topics.by_name:
        raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    existing = taken.get(collision_key(name))
    if existing is not None:
        raise Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {existing}"
        )


def _create_topic(
    state: ControllerState,
    config: BrokerConfig,
    topic: CreatableTopic,
    budget: int,
    judge: JudgeConfigs,
    charge: Charge,
) -> tuple[list[Message], list[PartitionRegistration], TopicResult]:
    overrides = _overrides(topic)
    result_configs = judge(tuple(overrides.items()))
    partitions = _partitions(state, config, topic, budget)
    charge(len(partitions))
    topic_id = state.new_uuid()
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in overrides.items()
    ]
    records += forget_eligible_leaders(state, records)
    records += [partition.to_record(topic_id, index) for index, partition in enumerate(partitions)]
    result = CreateTopicsResponse.CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=result_configs,
    )
    return records, partitions, result


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    """The configs that a new topic sets; the last value counts if a name is repeated."""
    if missing := [entry.name for entry in topic.configs if entry.value is None]:
        raise Refusal(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}"
        )
    return {entry.name: entry.value for entry in topic.configs if entry.value is not None}


def _judged_configs(config: BrokerConfig, overrides: dict[str, str]) -> ResultConfigs:
    """All configs of a topic with ``overrides``, as the response shows them. Raises Refusal if invalid."""
    try:
        validate_topic_config(overrides, config)
    except InvalidConfig as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from None
    return [
        CreateTopicsResponse.CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in sorted(describe_topic(config, overrides))
    ]


def _partitions(
    state: ControllerState, config: BrokerConfig, topic: CreatableTopic, budget: int
) -> list[PartitionRegistration]:
    if topic.assignments:
        check_partition_budget(len(topic.assignments), budget)
        return _manual_partitions(state, topic)
    if topic.replication_factor < _UNSET or topic.replication_factor == 0:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < _UNSET or topic.num_partitions == 0:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = config.get_int("num.partitions") if topic.num_partitions == _UNSET else topic.num_partitions
    factor = topic.replication_factor
    if factor == _UNSET:
        factor = config.get_int("default.replication.factor")
    check_partition_budget(count, budget)
    try:
        placement = place(state, count, factor)
    except Refusal as refusal:
        raise Refusal(
            refusal.code, f"Unable to replicate the partition {factor} time(s): {refusal}"
        ) from None
    return [placed_partition(state, replicas) for replicas in placement]


def check_partition_budget(count: int, budget: int) -> None:
    """Raise Refusal if a request needs more new partitions than one batch of records may create."""
    if count > budget:
        raise Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _manual_partitions(state: ControllerState, topic: CreatableTopic) -> list[PartitionRegistration]:
    for value, what in (
        (topic.replication_factor, "replication factor"),
        (topic.num_partitions, "numPartitions"),
    ):
        if value != _UNSET:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    partitions: dict[int, PartitionRegistration] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        index, replicas = assignment.partition_index, assignment.broker_ids
        if index in partitions:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        partitions[index] = manual_partition(state, index, replicas, factor)
        factor = len(replicas)
    if sorted(partitions) != list(range(len(partitions))):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [partitions[index] for index in range(len(partitions))]


def _failed(name: str, refusal: Refusal) -> TopicResult:
    return CreateTopicsResponse.CreatableTopicResult(
        name=name, error_code=refusal.code, error_message=refusal.message
    )


def delete_topics(
    state: ControllerState,
    request: DeleteTopicsRequest,
    may_describe: Container[str] | None = None,
    may_delete: Container[str] | None = None,
    charge: Charge = free_of_charge,
) -> Decision[DeleteTopicsResponse]:
    """Delete topics by name or by id; a topic given by name and again by id is refused, as in Kafka.

    Topics outside of ``may_delete`` are refused, and those outside of ``may_describe`` without saying whether
    they exist or how an id is named; None stands for all. The client's quota is charged the partitions that
    are deleted.
    """
    states = _states(request)
    records: list[Message] = []
    by_name_only = (asked.name for asked in states if asked.topic_id == ZERO_UUID)
    duplicate_names = set(repeated(name for name in by_name_only if name is not None))
    by_id_only = (asked.topic_id for asked in states if asked.name is None)
    duplicate_ids = set(repeated(topic_id for topic_id in by_id_only if topic_id != ZERO_UUID))
    results = [
        _not_deleted(name, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name in sorted(duplicate_names)
    ]
    results += [
        _not_deleted(None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        for topic_id in sorted(duplicate_ids)
    ]
    named: dict[bytes, TopicImage] = {}
    identified: dict[bytes, TopicImage] = {}
    for asked in states:
        is_single = asked.name is None or asked.topic_id == ZERO_UUID
        if is_single and (asked.name in duplicate_names or asked.topic_id in duplicate_ids):
            continue
        topic = _topic_of(state, asked)
        try:
            topic = _checked_deletion(asked, topic, may_describe, may_delete)
        except Refusal as refusal:
            name = asked.name
            if name is None and topic is not None and _includes(may_describe, topic.name):
                name = topic.name
            results.append(_not_deleted(name, asked.topic_id, refusal.code, refusal.message))
        else:
            (identified if asked.name is None else named)[topic.topic_id] = topic
    twice = named.keys() & (identified.keys() | duplicate_ids)
    results += [
        _not_deleted(named[topic_id].name, topic_id, ErrorCode.INVALID_REQUEST, _NAMED_AND_IDENTIFIED)
        for topic_id in sorted(twice)
    ]
    for topic_id, topic in (named | identified).items():
        if topic_id in twice:
            continue
        try:
            charge(len(topic.partitions))
        except Refusal as refusal:
            results.append(_not_deleted(topic.name, topic_id, refusal.code, refusal.message))
            continue
        records.append(RemoveTopicRecord(topic_id=topic_id))
        results.append(DeleteTopicsResponse.DeletableTopicResult(name=topic.name, topic_id=topic_id))
    return Decision(records, DeleteTopicsResponse(responses=results))


def names_to_delete(state: ControllerState, request: DeleteTopicsRequest) -> set[str]:
    """The names in a request to delete topics, and those of the ids in it."""
    topics = (_topic_of(state, asked) for asked in _states(request) if asked.name is None)
    return {asked.name for asked in _states(request) if asked.name is not None} | {
        topic.name for topic in topics if topic is not None
    }


def _states(request: DeleteTopicsRequest) -> list[DeleteState]:
    return request.topics or [DeleteTopicsRequest.DeleteTopicState(name=name) for name in request.topic_names]


def _topic_of(state: ControllerState, asked: DeleteState) -> TopicImage | None:
    topics = state.image.topics
    if asked.topic_id != ZERO_UUID:
        return topics.by_id.get(asked.topic_id)
    return topics.by_name.get(asked.name or "")


def _includes(names: Container[str] | None, name: str) -> bool:
    return names is None or name in names


def _checked_deletion(
    asked: DeleteState,
    topic: TopicImage | None,
    may_describe: Container[str] | None,
    may_delete: Container[str] | None,
) -> TopicImage:
    """The topic, if it exists and may be deleted. Raises Refusal."""
    by_id = asked.topic_id != ZERO_UUID
    if asked.name is None and not by_id:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if asked.name is not None and by_id:
        raise Refusal(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if asked.name is not None and not _includes(may_describe, asked.name):
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic is None and by_id:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE)
    if not _includes(may_delete, topic.name):
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return topic


def _not_deleted(name: str | None, topic_id: bytes, code: ErrorCode, message: str | None) -> DeleteResult:
    return DeleteTopicsResponse.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=code, error_message=message
    )


def internal_topic(name: str, config: BrokerConfig) -> CreatableTopic:
    """The request that creates an internal topic when it is first needed."""
    prefix, codec = {
        "__consumer_offsets": ("offsets.topic", "producer"),
        "__transaction_state": ("transaction.state.log", "uncompressed"),
        "__share_group_state": ("share.coordinator.state.topic", "producer"),
    }[name]
    configs = {
        "cleanup.policy": "delete" if name == "__share_group_state" else "compact",
        "compression.type": codec,
        "segment.bytes": str(config.get_int(f"{prefix}.segment.bytes")),
    }
    if name == "__transaction_state":
        configs["unclean.leader.election.enable"] = "false"
    if name == "__share_group_state":
        configs["retention.ms"] = "-1"
    if name != "__consumer_offsets":
        configs["min.insync.replicas"] = str(config.get_int(f"{prefix}.min.isr"))
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=config.get_int(f"{prefix}.num.partitions"),
        replication_factor=config.get_int(f"{prefix}.replication.factor"),
        configs=_as_request_configs(configs.items()),
    )


def _as_request_configs(
    configs: Iterable[tuple[str, str]],
) -> list[CreateTopicsRequest.CreatableTopicConfig]:
    return [CreateTopicsRequest.CreatableTopicConfig(name=name, value=value) for name, value in configs]
