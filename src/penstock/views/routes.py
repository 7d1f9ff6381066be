"""Routes: which members hold which partition. All processes with the same member list compute the same.

Each partition orders the members in its own way (rendezvous hashing): the first holds it, and the next ones
are its standbys. No member is first for more partitions than its share. When members join or leave, most
partitions stay where they are. The order depends on a partition's number alone, so that the stores of a task
stay together. The functions here are pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b


@dataclass(frozen=True)
class Routes:
    """The holders of partitions among ``members``, which are endpoints.

    ``standbys`` is how many processes hold a partition in addition to the first.
    """

    members: frozenset[str] = frozenset()
    standbys: int = 0

    def holders(self, partition: int, count: int) -> tuple[str, ...]:
        """Return the holders of one of a topic's ``count`` partitions, in the order to query them."""
        return _shared(self.members, count, self.standbys)[partition]

    def held_by(self, member: str, count: int) -> frozenset[int]:
        return frozenset(number for number in range(count) if member in self.holders(number, count))


@lru_cache(maxsize=64)
def _shared(members: frozenset[str], count: int, standbys: int) -> tuple[tuple[str, ...], ...]:
    if not members:
        return ((),) * count
    share = -(-count // len(members))
    load = dict.fromkeys(members, 0)
    shared = []
    for partition in range(count):
        order = _order(members, partition)
        first = next(member for member in order if load[member] < share)
        load[first] += 1
        others = [member for member in order if member != first]
        shared.append((first, *others[:standbys]))
    return tuple(shared)


def _order(members: Iterable[str], partition: int) -> list[str]:
    return sorted(
        members,
        key=lambda member: blake2b(b"%d %s" % (partition, member.encode()), digest_size=8).digest(),
        reverse=True,
    )
