"""The cluster's topics as statements see them: how large they are, made and deleted."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.configs import ConfigResource, ResourceType, describe_configs
from penstock.client.groups import CommittedOffset, ConsumerGroup
from penstock.client.metadata import TopicPartition
from penstock.client.offsets import EARLIEST, LATEST, list_offsets
from penstock.client.topic_readers import readers_of_topics
from penstock.client.topics import BROKER_DEFAULT, NewTopic, create_topics, delete_topics
from penstock.protocol.messages import MetadataRequest, MetadataResponse

CLEANUP_POLICY: Final = "cleanup.policy"
RETENTION_MS: Final = "retention.ms"


@dataclass(frozen=True)
class TopicShape:
    """``replication`` is how many replicas partitions have; 0 leaves it to the brokers. ``replicas``: how
    many each partition of a topic that is there has, in order.
    """

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)
    replicas: tuple[int, ...] = ()


class KnownTopics(Protocol):
    """Where topics are looked up."""

    def shape(self, name: str) -> TopicShape | None:
        """None where there is no such topic."""


class Topics:
    """Of one cluster, for all threads. Raises ClientError."""

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
        """All topics by their names, without their configurations."""
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
        """How far a consumer group is."""
        with self._lock:
            return ConsumerGroup(self._cluster, group_id).all_committed(require_stable=False)

    def readers(self) -> dict[str, tuple[int, int]]:
        """By topic how many consumers are assigned some of it now, and of how many groups."""
        with self._lock:
            return readers_of_topics(self._cluster)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first offset of each partition, and the one behind its last; nothing for a topic that is not
        there.
        """
        with self._lock:
            known = self._cluster.topics({topic}).get(topic)
            count = 0 if known is None else len(known.partitions)
            asked = [TopicPartition(topic, number) for number in range(count)]
            first = list_offsets(self._cluster, dict.fromkeys(asked, EARLIEST))
            last = list_offsets(self._cluster, dict.fromkeys(asked, LATEST))
        return {tp.partition: (first[tp].offset, last[tp].offset) for tp in asked}


def _shape(topic: MetadataResponse.MetadataResponseTopic) -> TopicShape:
    in_order = sorted(topic.partitions, key=lambda each: each.partition_index)
    replicas = tuple(len(each.replica_nodes) for each in in_order)
    return TopicShape(topic.name or "", len(replicas), replicas[0] if replicas else 0, replicas=replicas)


class PlannedTopics:
    """Topics as they will be, once the statements before this one in a request were carried out."""

    def __init__(self, topics: KnownTopics) -> None:
        self._topics = topics
        self._changed: dict[str, TopicShape | None] = {}

    def shape(self, name: str) -> TopicShape | None:
        return self._changed[name] if name in self._changed else self._topics.shape(name)

    def create(self, topic: TopicShape) -> None:
        self._changed[topic.name] = topic

    def delete(self, names: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(names))
