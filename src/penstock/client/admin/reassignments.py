"""Move partitions to other replicas: begin, watch and cancel reassignments (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import error_from
from penstock.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    """All current replicas, those being added, and those that are removed at the end."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def alter_reassignments(cluster: Cluster, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Move these partitions to these replicas, the preferred leader first; None cancels a move.

    Returns when the controller has accepted the moves, before they are complete. Raises ServerError for the
    first partition that is refused; others may have been accepted by then.
    """
    topics: dict[str, list[AlterPartitionReassignmentsRequest.ReassignablePartition]] = {}
    for tp, target in replicas.items():
        topics.setdefault(tp.topic, []).append(
            AlterPartitionReassignmentsRequest.ReassignablePartition(
                partition_index=tp.partition, replicas=None if target is None else list(target)
            )
        )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=cluster.config.request_timeout_ms,
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )

    def ask() -> None:
        response = cluster.call_any(request, AlterPartitionReassignmentsResponse)
        if response.error_code:
            raise error_from(response.error_code, "reassigning partitions", response.error_message)
        for topic in response.responses:
            for answer in topic.partitions:
                if answer.error_code:
                    tp = TopicPartition(topic.name, answer.partition_index)
                    raise error_from(answer.error_code, f"reassigning {tp}", answer.error_message)

    if topics:
        cluster.retry(ask)


def list_reassignments(
    cluster: Cluster, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, OngoingReassignment]:
    """List the ongoing reassignments of these partitions (None: of all). Raises ServerError."""
    topics: dict[str, list[int]] | None = None
    if partitions is not None:
        topics = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
    request = ListPartitionReassignmentsRequest(
        timeout_ms=cluster.config.request_timeout_ms,
        topics=None
        if topics is None
        else [
            ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
                name=name, partition_indexes=numbers
            )
            for name, numbers in topics.items()
        ],
    )

    def ask() -> dict[TopicPartition, OngoingReassignment]:
        response = cluster.call_any(request, ListPartitionReassignmentsResponse)
        if response.error_code:
            raise error_from(response.error_code, "listing reassignments", response.error_message)
        return {
            TopicPartition(topic.name, p.partition_index): OngoingReassignment(
                tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
            )
            for topic in response.topics
            for p in topic.partitions
        }

    return {} if topics == {} else dict(sorted(cluster.retry(ask).items()))
