"""AlterPartitionReassignments and ListPartitionReassignments: moving partitions to other brokers (KIP-455).

A reassignment first adds the new replicas. It completes in the AlterPartition by which the last of them joins
the ISR (`partition_change`), or at once if nothing has to be copied.

There is one difference from Kafka: a reassignment that replaces another one and adds nothing (or removes
nothing) discards the replicas that the other one was adding (or removing). Kafka keeps them. If a replica is
then both to be added and to be removed, neither reassignment can ever complete.
"""

from __future__ import annotations

from typing import TypeAlias

from penstock.metadata.controller.partition_change import Election, change_of
from penstock.metadata.controller.placement import check_manual_placement
from penstock.metadata.controller.reassignment_state import begin_reassignment, reverted_reassignment
from penstock.metadata.controller.state import ControllerState, Decision, Refusal
from penstock.metadata.image import PartitionRegistration, TopicImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    Message,
    PartitionChangeRecord,
)

Asked: TypeAlias = AlterPartitionReassignmentsRequest.ReassignablePartition
OngoingTopic: TypeAlias = ListPartitionReassignmentsResponse.OngoingTopicReassignment


def alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Begin a reassignment of each partition, or cancel it if the replicas are null."""
    if not request.topics:
        return Decision([], AlterPartitionReassignmentsResponse())  # as in Kafka, whatever the request says
    records: list[Message] = []
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            answer = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                partition_index=asked.partition_index, error_message=None
            )
            try:
                record = _alter(state, topic.name, asked, request.allow_replication_factor_change)
            except Refusal as refusal:
                answer.error_code, answer.error_message = refusal.code, refusal.message
            else:
                if record is not None:
                    records.append(record)
            answers.append(answer)
        response.responses.append(
            AlterPartitionReassignmentsResponse.ReassignableTopicResponse(name=topic.name, partitions=answers)
        )
    return Decision(records, response)


def _alter(
    state: ControllerState, topic_name: str, asked: Asked, may_change_factor: bool
) -> PartitionChangeRecord | None:
    topic = state.image.topics.by_name.get(topic_name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic_name}.")
    if asked.partition_index not in topic.partitions:
        raise Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {topic_name}:{asked.partition_index}.",
        )
    if asked.replicas is None:
        return _cancel(state, topic, asked.partition_index)
    check_manual_placement(state, asked.replicas, None)
    if not may_change_factor:
        _check_factor(topic.partitions[asked.partition_index], len(asked.replicas))
    return _begin(state, topic, asked.partition_index, asked.replicas)


def _check_factor(partition: PartitionRegistration, wanted: int) -> None:
    """Check the factor (KIP-860) against the number of replicas that a running reassignment would leave."""
    current = len({*partition.replicas, *partition.adding_replicas} - {*partition.removing_replicas})
    if current != wanted:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {current} to {wanted}",
        )


def _begin(
    state: ControllerState, topic: TopicImage, partition_id: int, wanted: list[int]
) -> PartitionChangeRecord | None:
    change = change_of(state, topic, partition_id)
    reassignment = begin_reassignment(change.replicas, wanted)
    change.replicas, change.adding, change.removing = reassignment
    return change.record()


def _cancel(state: ControllerState, topic: TopicImage, partition_id: int) -> PartitionChangeRecord | None:
    partition = topic.partitions[partition_id]
    if not partition.is_reassigning:
        raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    reverted = reverted_reassignment(partition)
    if not reverted.replicas:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Invalid replica assignment: addingReplicas contains all replicas.",
        )
    unclean_allowed = state.allows_unclean_election(topic.name)
    if reverted.unclean and not unclean_allowed:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{partition_id} because it would require "
            "an unclean leader election.",
        )
    change = change_of(state, topic, partition_id)
    if unclean_allowed:
        change.election = Election.UNCLEAN
    change.replicas, change.isr = reverted.replicas, reverted.isr
    change.removing, change.adding = [], []
    return change.record()


def list_partition_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest
) -> Decision[ListPartitionReassignmentsResponse]:
    """List the ongoing reassignments of all partitions, or of those in the request."""
    image = state.image
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        asked = [(topic, list(topic.partitions)) for topic in image.topics]
    else:
        asked = [
            (image.topics.by_name[topic.name], topic.partition_indexes)
            for topic in request.topics
            if topic.name in image.topics.by_name
        ]
    for topic, partitions in asked:
        ongoing = _ongoing(topic, partitions)
        if ongoing.partitions:
            response.topics.append(ongoing)
    return Decision([], response)


def _ongoing(topic: TopicImage, partitions: list[int]) -> OngoingTopic:
    ongoing = ListPartitionReassignmentsResponse.OngoingPartitionReassignment
    return ListPartitionReassignmentsResponse.OngoingTopicReassignment(
        name=topic.name,
        partitions=[
            ongoing(
                partition_index=partition_id,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for partition_id in partitions
            if (partition := topic.partitions.get(partition_id)) is not None and partition.is_reassigning
        ],
    )
