"""Kafka's range assignor, and the bytes by which consumers of a classic group agree. Pure.

The first members, by their ids, get the first partitions of each topic. Members that are Apache's consumers
read and write the same bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from penstock.client.connections.metadata import TopicPartition
from penstock.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription

RANGE: Final = "range"
_VERSION_BYTES: Final = 2


def encode_subscription(topics: Iterable[str]) -> bytes:
    """Write which topics a member reads."""
    version = ConsumerProtocolSubscription.MAX_VERSION
    subscription = ConsumerProtocolSubscription(
        topics=sorted(topics), user_data=None, owned_partitions=[], generation_id=-1, rack_id=None
    )
    return version.to_bytes(_VERSION_BYTES, "big") + subscription.encode(version)


def subscribed_topics(subscription: bytes) -> list[str]:
    """Read which topics a member reads."""
    version = min(_version(subscription), ConsumerProtocolSubscription.MAX_VERSION)
    return ConsumerProtocolSubscription.decode(version, subscription, _VERSION_BYTES)[0].topics


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Write the partitions of a member."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    version = ConsumerProtocolAssignment.MAX_VERSION
    assigned = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in by_topic.items()
    ]
    assignment = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None)
    return version.to_bytes(_VERSION_BYTES, "big") + assignment.encode(version)


def decode_assignment(assignment: bytes) -> list[TopicPartition]:
    """Read the partitions of a member; none from an empty assignment."""
    if not assignment:
        return []
    version = min(_version(assignment), ConsumerProtocolAssignment.MAX_VERSION)
    found, _ = ConsumerProtocolAssignment.decode(version, assignment, _VERSION_BYTES)
    return [
        TopicPartition(each.topic, number) for each in found.assigned_partitions for number in each.partitions
    ]


def assign_ranges(
    subscriptions: Mapping[str, Collection[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Share the partitions between members.

    Args:
        subscriptions: the topics that each member reads, by its id.
        partitions: the number of partitions of each topic that exists.
    """
    readers: defaultdict[str, list[str]] = defaultdict(list)
    for member_id in sorted(subscriptions):
        for topic in set(subscriptions[member_id]):
            readers[topic].append(member_id)
    assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscriptions}
    for topic in sorted(readers):
        each, more = divmod(partitions.get(topic, 0), len(readers[topic]))
        first = 0
        for place, member_id in enumerate(readers[topic]):
            end = first + each + (place < more)
            assigned[member_id] += [TopicPartition(topic, number) for number in range(first, end)]
            first = end
    return assigned


def _version(data: bytes) -> int:
    return int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
