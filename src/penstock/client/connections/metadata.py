"""The contents of a Metadata response: brokers, topics, leaders. This module does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.client.config import ServerAddress
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import MetadataResponse

NO_LEADER = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionMetadata(NamedTuple):
    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One snapshot of the cluster; `updated` makes the next one."""

    cluster_id: str | None = None
    brokers: Mapping[int, ServerAddress] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)

    def updated(self, response: MetadataResponse, asked: Iterable[str] | None) -> ClusterMetadata:
        """The snapshot after the response to a request for the ``asked`` topics (None: all).

        A requested topic that is unknown now is dropped; topics that were not requested stay.
        """
        topics = {} if asked is None else {n: t for n, t in self.topics.items() if n not in set(asked)}
        for answer in response.topics:
            if answer.error_code == ErrorCode.NONE and answer.name is not None:
                topics[answer.name] = TopicMetadata(
                    answer.name,
                    answer.topic_id,
                    answer.is_internal,
                    {
                        p.partition_index: PartitionMetadata(p.leader_id, p.leader_epoch)
                        for p in answer.partitions
                    },
                )
        brokers = {broker.node_id: ServerAddress(broker.host, broker.port) for broker in response.brokers}
        return ClusterMetadata(response.cluster_id, brokers, topics)

    def partition(self, tp: TopicPartition) -> PartitionMetadata | None:
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic else None

    def topic_named_by(self, topic_id: bytes) -> str | None:
        return next((name for name, topic in self.topics.items() if topic.topic_id == topic_id), None)


def topic_errors(response: MetadataResponse) -> dict[str, int]:
    """Error codes of topics that exist but that the response could not describe."""
    return {
        topic.name: topic.error_code
        for topic in response.topics
        if topic.name is not None
        and topic.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    }
