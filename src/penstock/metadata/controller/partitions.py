"""CreatePartitions: adds partitions to topics."""

from __future__ import annotations

from collections.abc import Container
from typing import TypeAlias

from penstock.metadata.controller.placement import manual_partition, place, placed_partition
from penstock.metadata.controller.state import (
    Charge,
    ControllerState,
    Decision,
    Refusal,
    free_of_charge,
    repeated,
)
from penstock.metadata.controller.topics import MAX_PARTITIONS_PER_REQUEST, check_partition_budget
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    Message,
)

PartitionsTopic: TypeAlias = CreatePartitionsRequest.CreatePartitionsTopic
PartitionsResult: TypeAlias = CreatePartitionsResponse.CreatePartitionsTopicResult


def create_partitions(
    state: ControllerState,
    request: CreatePartitionsRequest,
    may_alter: Container[str] | None = None,
    charge: Charge = free_of_charge,
) -> Decision[CreatePartitionsResponse]:
    """Raise the partition counts of topics; a count never falls.

    Topics outside of ``may_alter`` are refused; None stands for all. The client's quota is charged the new
    partitions of each topic.
    """
    records: list[Message] = []
    results: list[PartitionsResult] = []
    duplicates = set(repeated(topic.name for topic in request.topics))
    refused = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results += [_result(name, refused) for name in sorted(duplicates)]
    budget = MAX_PARTITIONS_PER_REQUEST
    for topic in request.topics:
        if topic.name in duplicates:
            continue
        try:
            if may_alter is not None and topic.name not in may_alter:
                raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            added = _added_partitions(state, topic, budget, charge)
        except Refusal as refusal:
            results.append(_result(topic.name, refusal))
            continue
        budget -= len(added)
        records += added
        results.append(_result(topic.name, None))
    return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _result(name: str, refusal: Refusal | None) -> PartitionsResult:
    if refusal is None:
        return CreatePartitionsResponse.CreatePartitionsTopicResult(name=name)
    return CreatePartitionsResponse.CreatePartitionsTopicResult(
        name=name, error_code=refusal.code, error_message=refusal.message
    )


def _added_partitions(
    state: ControllerState, topic: PartitionsTopic, budget: int, charge: Charge
) -> list[Message]:
    image = state.image.topics.by_name.get(topic.name)
    if image is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    now = len(image.partitions)
    if topic.count == now:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if topic.count < now:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {now} partition(s); "
            f"{topic.count} would not be an increase.",
        )
    additional = topic.count - now
    check_partition_budget(additional, budget)
    if topic.assignments is not None and len(topic.assignments) != additional:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(topic.assignments)} "
            "assignment(s) were specified.",
        )
    charge(additional)
    factor = len(image.partitions[0].replicas)
    if topic.assignments is None:
        added = [placed_partition(state, replicas) for replicas in place(state, additional, factor)]
    else:
        added = [
            manual_partition(state, index, assignment.broker_ids, factor)
            for index, assignment in enumerate(topic.assignments, now)
        ]
    return [partition.to_record(image.topic_id, index) for index, partition in enumerate(added, now)]
