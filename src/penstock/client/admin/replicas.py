"""Partitions with their replicas: leaders, in-sync replicas, eligible leaders (KIP-966)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import NO_LEADER, TopicPartition
from penstock.client.errors import UnknownPartition, error_from
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

_Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """The replicas of one partition by broker id; in `replicas` the preferred leader is first.

    `eligible_leader_replicas` is None if the cluster does not track them.
    """

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None
    offline_replicas: tuple[int, ...]

    @property
    def is_offline(self) -> bool:
        return self.leader_id == NO_LEADER


@dataclass(frozen=True, slots=True)
class TopicReplicas:
    name: str
    is_internal: bool
    partitions: dict[int, PartitionReplicas]


def describe_topics(cluster: Cluster, topics: Iterable[str] | None = None) -> dict[str, TopicReplicas]:
    """Describe these topics (None: all), with their partitions in order.

    Raises UnknownPartition for a missing topic, ServerError, and UnsupportedByServer before Apache Kafka 3.7.
    """
    asked = None if topics is None else sorted(set(topics))
    return cluster.retry(lambda: _describe(cluster, asked)) if asked is None or asked else {}


def _describe(cluster: Cluster, asked: list[str] | None) -> dict[str, TopicReplicas]:
    found: dict[str, TopicReplicas] = {}
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in asked or ()]
    )
    while True:
        response = cluster.call_any(request, DescribeTopicPartitionsResponse)
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                if asked is not None:
                    raise UnknownPartition(name, None, cluster.config.servers_text)
                continue  # deleted meanwhile
            if topic.error_code:
                raise error_from(topic.error_code, f"topic '{name}'")
            pages = found.setdefault(name, TopicReplicas(name, topic.is_internal, {}))
            pages.partitions.update((p.partition_index, _replicas(p)) for p in topic.partitions)
        if response.next_cursor is None:
            return found
        request.cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=response.next_cursor.topic_name,
            partition_index=response.next_cursor.partition_index,
        )


def _replicas(partition: _Partition) -> PartitionReplicas:
    eligible = partition.eligible_leader_replicas
    return PartitionReplicas(
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        None if eligible is None else tuple(eligible),
        tuple(partition.offline_replicas),
    )


def partitions_of(topics: dict[str, TopicReplicas]) -> dict[TopicPartition, PartitionReplicas]:
    """All partitions of described topics."""
    return {
        TopicPartition(name, number): partition
        for name, topic in sorted(topics.items())
        for number, partition in sorted(topic.partitions.items())
    }
