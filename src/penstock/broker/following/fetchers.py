"""A node's fetchers: `num.replica.fetchers` for each leader, with the leader's partitions spread among them.

A partition is assigned as in Kafka's AbstractFetcherManager: by the hash of its topic's name and its number.
A fetcher has one request in flight at a time; several fetchers help if a leader is far away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.broker.following.fetcher import Fetcher, FollowerContext
from penstock.java.strings import hash_code

if TYPE_CHECKING:
    from penstock.broker.following.leader_session import PartitionKey
    from penstock.broker.partitions.replicated_partition import ReplicatedPartition

_INT_MAX: Final = 0x7FFFFFFF


def fetcher_number(topic: str, partition: int, per_leader: int) -> int:
    """The number of the leader's fetcher that a partition belongs to, counted from 0."""
    mixed = (31 * hash_code(topic) + partition) & 0xFFFFFFFF
    signed = mixed - (1 << 32) if mixed > _INT_MAX else mixed
    return (0 if signed == -(1 << 31) else abs(signed)) % per_leader


class Fetchers:
    """The fetchers of one node. Each partition is followed by the fetcher that it belongs to."""

    def __init__(self, context: FollowerContext, per_leader: int) -> None:
        self._context = context
        self._per_leader = per_leader
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        """The fetchers by leader id and number."""
        self._followed: dict[PartitionKey, tuple[Fetcher, ReplicatedPartition]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(list(self._fetchers.values()))

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._followed

    def follow(self, key: PartitionKey, partition: ReplicatedPartition) -> None:
        """Fetch from the partition's leader. Raises KafkaError if it cannot be followed."""
        replica = partition.replica
        number = fetcher_number(replica.topic, replica.partition, self._per_leader)
        place = (replica.leader_id, number)
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = Fetcher(replica.leader_id, self._context, number)
        fetcher.add(partition)
        self._followed[key] = (fetcher, partition)

    def leave(self, key: PartitionKey) -> None:
        """Stop fetching the partition, if it is fetched."""
        found = self._followed.pop(key, None)
        if found is not None:
            found[0].remove(key)

    def resize(self, per_leader: int) -> list[tuple[PartitionKey, ReplicatedPartition]]:
        """Set the number of fetchers per leader; return the partitions that must be followed again."""
        if per_leader == self._per_leader:
            return []
        self._per_leader = per_leader
        left = [(key, partition) for key, (_, partition) in self._followed.items()]
        for key, _ in left:
            self.leave(key)
        return left

    def close_idle(self) -> None:
        """Close the fetchers of leaders that lead no partition here any more, after a metadata change."""
        for place, fetcher in list(self._fetchers.items()):
            if not len(fetcher.following):
                del self._fetchers[place]
                closing = self._context.loop.create_task(fetcher.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Stop following all leaders and cancel requests in flight."""
        fetchers = list(self)
        self._fetchers.clear()
        self._followed.clear()
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers), *self._closing)
