"""The cluster's topics as statements need them: their sizes, their creation and their deletion."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from penstock.client.admin.configs import ConfigResource, ResourceType, describe_configs
from penstock.client.admin.topics import BROKER_DEFAULT, NewTopic, create_topics, delete_topics
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import CommittedOffset, ConsumerGroup
from penstock.client.groups.topic_readers import readers_of_topics
from penstock.client.reading.offsets import EARLIEST, LATEST, list_offsets
from penstock.protocol.messages import MetadataRequest, MetadataResponse
from penstock.topology.graph import Source, Topology

CLEANUP_POLICY: Final = "cleanup.policy"
RETENTION_MS: Final = "retention.ms"


@dataclass(frozen=True)
class TopicShape:
    """The size and configuration of a topic, existing or planned.

    ``replication`` is the number of replicas of each partition; 0 leaves it to the brokers. ``replicas`` has
    the actual number for each partition of an existing topic, in order.
    """

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)
    replicas: tuple[int, ...] = ()


class KnownTopics(Protocol):
    """A source of the shapes of topics."""

    def shape(self, name: str) -> TopicShape | None:
        """The shape of a topic; None if it doesn't exist."""


class Topics:
    """The topics of one cluster. Any thread may call it. All methods raise ClientError."""

    def __init__(self, config: ClientConfig) -> None:
        self._cluster = Cluster(config)
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._cluster.close()

    def shape(self, name: str) -> TopicShape | None:
        with self._lock:
            found = self._described([name])
            if not found:
                return None
            resource = ConfigResource(ResourceType.TOPIC, name)
            configs = describe_configs(self._cluster, [resource], [CLEANUP_POLICY, RETENTION_MS])
        values = {each.name: each.value for each in configs.get(resource, ()) if each.value is not None}
        return replace(found[0], config=values)

    def all(self) -> list[TopicShape]:
        """All topics, sorted by name, without their configurations."""
        with self._lock:
            return sorted(self._described(None), key=lambda each: each.name)

    def _described(self, names: Collection[str] | None) -> list[TopicShape]:
        asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = self._cluster.retry(lambda: self._cluster.call_any(request, MetadataResponse))
        return [_shape(topic) for topic in answer.topics if topic.error_code == 0]

    def create(self, topic: TopicShape) -> None:
        made = NewTopic(topic.name, topic.partitions, topic.config, topic.replication or BROKER_DEFAULT)
        with self._lock:
            create_topics(self._cluster, [made])

    def delete(self, names: Iterable[str]) -> None:
        with self._lock:
            delete_topics(self._cluster, list(names))

    def cluster_id(self) -> str:
        with self._lock:
            return self._cluster.refresh([]).cluster_id or ""

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a consumer group."""
        with self._lock:
            return ConsumerGroup(self._cluster, group_id).all_committed(require_stable=False)

    def readers(self) -> dict[str, tuple[int, int]]:
        """For each topic, how many consumers have some of it assigned, and in how many groups."""
        with self._lock:
            return readers_of_topics(self._cluster)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """The start and the end offset of each partition; empty for a topic that doesn't exist."""
        with self._lock:
            known = self._cluster.refresh([topic]).topics.get(topic)
            count = 0 if known is None else len(known.partitions)
            asked = [TopicPartition(topic, number) for number in range(count)]
            first = list_offsets(self._cluster, dict.fromkeys(asked, EARLIEST))
            last = list_offsets(self._cluster, dict.fromkeys(asked, LATEST))
        return {tp.partition: (first[tp].offset, last[tp].offset) for tp in asked}


def topics_read(topology: Topology) -> dict[str, bool]:
    """The topics that a topology reads, each with whether it starts at the topic's end."""
    return {
        topic: node.reset == "latest"
        for node in topology.nodes.values()
        if isinstance(node, Source)
        for topic in node.topics
        if topic not in topology.repartitions
    }


def _shape(topic: MetadataResponse.MetadataResponseTopic) -> TopicShape:
    in_order = sorted(topic.partitions, key=lambda each: each.partition_index)
    replicas = tuple(len(each.replica_nodes) for each in in_order)
    return TopicShape(topic.name or "", len(replicas), replicas[0] if replicas else 0, replicas=replicas)


class PlannedTopics:
    """The topics as they will be after the earlier statements of a request."""

    def __init__(self, topics: KnownTopics) -> None:
        self._topics = topics
        self._changed: dict[str, TopicShape | None] = {}

    def shape(self, name: str) -> TopicShape | None:
        return self._changed[name] if name in self._changed else self._topics.shape(name)

    def create(self, topic: TopicShape) -> None:
        self._changed[topic.name] = topic

    def delete(self, names: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(names))
