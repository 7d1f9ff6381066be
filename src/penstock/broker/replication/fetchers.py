"""A node's fetchers: `num.replica.fetchers` for each leader, among which its partitions are dealt out.

A partition goes where Kafka's AbstractFetcherManager has it: by the hash of its topic's name and its number.
One fetcher has a request under way at a time; several help where the way to a leader is long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.broker.replication.fetcher import Fetcher, FollowerContext
from penstock.coordinators.java_strings import java_hash_code

if TYPE_CHECKING:
    from penstock.broker.replication.leader_session import PartitionKey
    from penstock.broker.replication.replicated_partition import ReplicatedPartition

_INT_MAX: Final = 0x7FFFFFFF


def fetcher_number(topic: str, partition: int, per_leader: int) -> int:
    """Which of a leader's fetchers has a partition, counted from 0."""
    mixed = (31 * java_hash_code(topic) + partition) & 0xFFFFFFFF
    signed = mixed - (1 << 32) if mixed > _INT_MAX else mixed
    return (0 if signed == -(1 << 31) else abs(signed)) % per_leader


class Fetchers:
    """Follows leaders in partitions, each by the fetcher it belongs to."""

    def __init__(self, context: FollowerContext, per_leader: int) -> None:
        self._context = context
        self._per_leader = per_leader
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        """By leader and number."""
        self._followed: dict[PartitionKey, tuple[Fetcher, ReplicatedPartition]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(list(self._fetchers.values()))

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._followed

    def follow(self, key: PartitionKey, partition: ReplicatedPartition) -> None:
        """Fetch from the leader that the partition has. Raises KafkaError where it cannot be followed."""
        replica = partition.replica
        number = fetcher_number(replica.topic, replica.partition, self._per_leader)
        place = (replica.leader_id, number)
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = Fetcher(replica.leader_id, self._context, number)
        fetcher.add(partition)
        self._followed[key] = (fetcher, partition)

    def leave(self, key: PartitionKey) -> None:
        """Fetch that partition no longer, if it was."""
        found = self._followed.pop(key, None)
        if found is not None:
            found[0].remove(key)

    def resize(self, per_leader: int) -> list[tuple[PartitionKey, ReplicatedPartition]]:
        """Have so many for each leader; the partitions that were left for it, to be followed anew."""
        if per_leader == self._per_leader:
            return []
        self._per_leader = per_leader
        left = [(key, partition) for key, (_, partition) in self._followed.items()]
        for key, _ in left:
            self.leave(key)
        return left

    def close_idle(self) -> None:
        """After a change was followed: leave the leaders that lead nothing here any more."""
        for place, fetcher in list(self._fetchers.items()):
            if not len(fetcher.following):
                del self._fetchers[place]
                closing = self._context.loop.create_task(fetcher.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Follow nobody any more, with nothing under way."""
        fetchers = list(self)
        self._fetchers.clear()
        self._followed.clear()
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers), *self._closing)
