"""More partitions for a topic, and elections of leaders."""

from __future__ import annotations

from typing import TypeAlias

from penstock.metadata.controller.placement import check_manual_placement, new_partition, place
from penstock.metadata.controller.state import ControllerState, Decision, Refusal, repeated
from penstock.metadata.controller.topics import MAX_PARTITIONS_PER_REQUEST, check_partition_budget
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    Message,
)

PartitionsTopic: TypeAlias = CreatePartitionsRequest.CreatePartitionsTopic
PartitionsResult: TypeAlias = CreatePartitionsResponse.CreatePartitionsTopicResult
PartitionElection: TypeAlias = ElectLeadersResponse.PartitionResult

_PREFERRED, _UNCLEAN = 0, 1


def create_partitions(
    state: ControllerState, request: CreatePartitionsRequest
) -> Decision[CreatePartitionsResponse]:
    """Raise the partition counts of topics; they never fall."""
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
            added = _added_partitions(state, topic, budget)
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


def _added_partitions(state: ControllerState, topic: PartitionsTopic, budget: int) -> list[Message]:
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
    factor = len(image.partitions[0].replicas)
    if topic.assignments is None:
        placement = place(state, now, additional, factor)
    else:
        placement = _manual_placement(state, topic, additional, factor)
    return [
        new_partition(state, partition_id, replicas).to_record(image.topic_id, partition_id)
        for partition_id, replicas in enumerate(placement, now)
    ]


def _manual_placement(
    state: ControllerState, topic: PartitionsTopic, additional: int, factor: int
) -> list[list[int]]:
    assignments = topic.assignments or []
    if len(assignments) != additional:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified.",
        )
    for assignment in assignments:
        check_manual_placement(state, assignment.broker_ids, factor)
    return [assignment.broker_ids for assignment in assignments]


def elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Answer an election request on a cluster of one, where the only replica leads already.

    Asked for all partitions, those that need no election are left out, as Kafka leaves them out.
    """
    if request.topic_partitions is None:
        results = [
            ElectLeadersResponse.ReplicaElectionResult(topic=topic.name) for topic in state.image.topics
        ]
        return Decision([], ElectLeadersResponse(replica_election_results=results))
    unknown_type = request.election_type not in (_PREFERRED, _UNCLEAN)
    results = [
        ElectLeadersResponse.ReplicaElectionResult(
            topic=asked.topic,
            partition_result=[
                _unknown_election(partition, request.election_type)
                if unknown_type
                else _election(state, asked.topic, partition)
                for partition in asked.partitions
            ],
        )
        for asked in request.topic_partitions
    ]
    code = ErrorCode.INVALID_REQUEST if unknown_type else ErrorCode.NONE
    return Decision([], ElectLeadersResponse(error_code=code, replica_election_results=results))


def _unknown_election(partition: int, election_type: int) -> PartitionElection:
    return ElectLeadersResponse.PartitionResult(
        partition_id=partition,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"Unknown election type {election_type}",
    )


def _election(state: ControllerState, topic: str, partition: int) -> PartitionElection:
    code, message = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    if topic not in state.image.topics.by_name:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}"
    elif state.image.topics.partition(topic, partition) is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{partition}"
    return ElectLeadersResponse.PartitionResult(
        partition_id=partition, error_code=code, error_message=message
    )
