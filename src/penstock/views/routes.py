"""Who holds which partition: the same for everybody who knows the same list of members. Pure.

Each partition goes to the members in an order of its own (rendezvous hashing): the first holds it, the next
ones are its standbys. No member is first for more partitions than its share. When members come or go, most
partitions stay where they are. A partition's number alone decides, so that the stores of a task are together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b


@dataclass(frozen=True)
class Routes:
    """``members``: endpoints; ``standbys``: how many processes hold a partition besides the first."""

    members: frozenset[str] = frozenset()
    standbys: int = 0

    def holders(self, partition: int, count: int) -> tuple[str, ...]:
        """Who holds a partition of a topic with so many; the first is to be asked first."""
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
