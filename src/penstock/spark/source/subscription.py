"""The partitions that a query reads: topics by name or by pattern, or single partitions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicMetadata, TopicPartition
from penstock.client.errors import UnknownPartition
from penstock.client.settings import ConfigError
from penstock.spark.options import Options


@dataclass(frozen=True, slots=True)
class Topics:
    """All partitions of the named topics; a topic that does not exist has none."""

    names: tuple[str, ...]

    def partitions(self, cluster: Cluster) -> list[TopicPartition]:
        """The partitions that exist now."""
        topics = cluster.refresh(self.names).topics
        return _all_partitions({name: topics[name] for name in self.names if name in topics})

    def existing(self, cluster: Cluster) -> list[TopicPartition]:
        """Return `partitions`, but every topic must exist. Raises UnknownPartition."""
        found = self.partitions(cluster)
        for name in self.names:
            if name not in cluster.metadata.topics:
                raise UnknownPartition(name, None, cluster.config.servers_text)
        return found

    def includes(self, topic: str) -> bool:
        """Whether the query reads any partition of a topic with that name, or would if it existed."""
        return topic in self.names

    def __str__(self) -> str:
        return f"subscribe = {','.join(self.names)}"


@dataclass(frozen=True, slots=True)
class Pattern:
    """All partitions of the topics whose names match the pattern, except internal topics.

    As in Spark's own source, the pattern may match anywhere in the name; ``^`` and ``$`` anchor it.
    """

    regex: str

    def partitions(self, cluster: Cluster) -> list[TopicPartition]:
        matches = re.compile(self.regex).search
        topics = cluster.refresh(None).topics
        return _all_partitions({n: t for n, t in topics.items() if not t.is_internal and matches(n)})

    def existing(self, cluster: Cluster) -> list[TopicPartition]:
        """Return `partitions`; it is no error if no topic matches yet."""
        return self.partitions(cluster)

    def includes(self, topic: str) -> bool:
        """Whether the query reads any partition of a topic with that name, or would if it existed."""
        return re.search(self.regex, topic) is not None

    def __str__(self) -> str:
        return f"subscribePattern = {self.regex}"


@dataclass(frozen=True, slots=True)
class Assigned:
    """Single partitions, each one named."""

    wanted: tuple[TopicPartition, ...]

    def partitions(self, cluster: Cluster) -> list[TopicPartition]:
        metadata = cluster.refresh({tp.topic for tp in self.wanted})
        return sorted(tp for tp in self.wanted if metadata.partition(tp) is not None)

    def existing(self, cluster: Cluster) -> list[TopicPartition]:
        """Return `partitions`, but every one must exist. Raises UnknownPartition."""
        found = self.partitions(cluster)
        for tp in self.wanted:
            if tp not in found:
                raise UnknownPartition(tp.topic, tp.partition, cluster.config.servers_text)
        return found

    def includes(self, topic: str) -> bool:
        """Whether the query reads any partition of a topic with that name, or would if it existed."""
        return any(tp.topic == topic for tp in self.wanted)

    def __str__(self) -> str:
        return f"assign = {', '.join(map(str, self.wanted))}"


Subscription = Topics | Pattern | Assigned


def take_subscription(options: Options) -> Subscription:
    """Take exactly one of subscribe, subscribePattern and assign. Raises ConfigError."""
    given: list[Subscription] = [
        subscription
        for subscription in (
            options.take("subscribe", _parse_topics, None),
            options.take("subscribePattern", _parse_pattern, None),
            options.take("assign", _parse_assign, None),
        )
        if subscription is not None
    ]
    if len(given) != 1:
        found = " and ".join(f"'{subscription}'" for subscription in given) or "none of them"
        raise ConfigError(
            f"expected exactly one of the options subscribe, subscribePattern and assign, found {found}"
        )
    return given[0]


def _parse_topics(text: str) -> Topics | None:
    names = tuple(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    if not names:
        raise ValueError("one topic name or several, separated by commas")
    return Topics(names)


def _parse_pattern(text: str) -> Pattern | None:
    try:
        re.compile(text)
    except re.error as problem:
        raise ValueError(f"a regular expression ({problem})") from None
    if not text.strip():
        raise ValueError("a regular expression for topic names")
    return Pattern(text)


def _parse_assign(text: str) -> Assigned | None:
    expected = 'JSON like {"topic": [0, 1]}'
    try:
        partitions = tuple(
            TopicPartition(topic, int(number))
            for topic, numbers in json.loads(text).items()
            for number in numbers
        )
    except (ValueError, TypeError, AttributeError):
        raise ValueError(expected) from None
    if not partitions:
        raise ValueError(f"{expected} with at least one partition")
    return Assigned(partitions)


def _all_partitions(topics: Mapping[str, TopicMetadata]) -> list[TopicPartition]:
    return sorted(
        TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions
    )
