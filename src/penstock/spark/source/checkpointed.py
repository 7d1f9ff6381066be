"""The source's entry in a query's checkpoint: offsets, and the topics that they belong to.

Its format is that of Spark's own Kafka source, so a query can continue a checkpoint of ``format("kafka")``:

    {"orders": {"0": 123, "1": 98}, "@topics": {"orders": "Zc2…"}, "@cluster": {"id": "Mk…"},
     "@group": {"id": "g", "cluster": "Mk…"}}

``@topics`` has the ids of topics, so that a topic which was deleted and created again is recognized, and
``@cluster`` the id of their cluster, so that the addresses of another one are recognized.
``@group`` names the consumer group that follows the query, and its cluster: an exactly-once sink commits the
same offsets in its transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from penstock.client.connections.metadata import ClusterMetadata, TopicPartition
from penstock.protocol.messages import ZERO_UUID
from penstock.protocol.uuids import uuid_from_text, uuid_to_text
from penstock.spark.source.offsets import Offsets, from_json, to_json

TOPICS: Final = "@topics"
CLUSTER: Final = "@cluster"
GROUP: Final = "@group"

JsonOffsets = dict[str, dict[str, Any]]


class GroupRef(NamedTuple):
    """A consumer group and its cluster (empty if the brokers report no cluster id)."""

    group_id: str
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The next offsets to read, the ids of topics that have one, as text, and the group, if any.

    ``cluster_id`` is None if the brokers report none, and in checkpoints of earlier releases.
    """

    offsets: Offsets
    topic_ids: Mapping[str, str]
    group: GroupRef | None = None
    cluster_id: str | None = None

    @classmethod
    def from_json(cls, kept: Mapping[str, Mapping[str, Any]]) -> Checkpointed:
        group = kept.get(GROUP)
        return cls(
            from_json(kept),
            dict(kept.get(TOPICS, {})),
            None if group is None else GroupRef(str(group["id"]), str(group["cluster"])),
            kept.get(CLUSTER, {}).get("id"),
        )

    def to_json(self) -> JsonOffsets:
        """Convert to JSON, always in the same order, because Spark compares offsets as text."""
        shaped: JsonOffsets = dict(to_json(self.offsets))
        named = {topic: self.topic_ids[topic] for topic in shaped if topic in self.topic_ids}
        if named:
            shaped[TOPICS] = named
        if self.cluster_id is not None:
            shaped[CLUSTER] = {"id": self.cluster_id}
        if self.group is not None:
            shaped[GROUP] = {"id": self.group.group_id, "cluster": self.group.cluster_id}
        return shaped

    def topic_id(self, topic: str) -> bytes | None:
        text = self.topic_ids.get(topic)
        return None if text is None else uuid_from_text(text)

    def recreated(self, later: Checkpointed) -> list[str]:
        """The topics that were deleted and created again between this and ``later``, found by their ids."""
        return sorted(
            topic
            for topic, topic_id in self.topic_ids.items()
            if later.topic_ids.get(topic, topic_id) != topic_id
        )

    def still_there(self, later: Checkpointed) -> Offsets:
        """The offsets, without those of topics that were created again before ``later``."""
        recreated = set(self.recreated(later))
        return {tp: offset for tp, offset in self.offsets.items() if tp.topic not in recreated}

    def moved_to(self, offsets: Mapping[TopicPartition, int]) -> Checkpointed:
        return replace(self, offsets=dict(offsets))


def ids_of(topics: Collection[str], metadata: ClusterMetadata) -> dict[str, str]:
    """Return the ids of these topics as text, as far as the brokers have reported them."""
    known = metadata.topics
    ids = {topic: known[topic].topic_id for topic in topics if topic in known}
    return {topic: uuid_to_text(uuid) for topic, uuid in ids.items() if uuid != ZERO_UUID}
