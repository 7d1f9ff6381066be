"""The order in which HashMap and HashSet iterate, on which Connect's bytes and assignments depend.

An assignment lists its connectors in the order of a HashSet, and the first workers of a HashMap keep the
resources that do not divide evenly. Workers of one group would agree in any order; this one makes a leader of
ours decide exactly as one of Apache Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

Key = TypeVar("Key")

_SMALLEST_TABLE: Final = 16


def grown(keys: Collection[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Return distinct keys in the order of a HashMap that grew while they were put into it one by one."""
    table = _SMALLEST_TABLE
    while len(keys) > table * 3 // 4:
        table *= 2
    return _by_bucket(keys, hash_of, table)


def copied(keys: Collection[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Return keys in the order of a HashSet made of this collection: once each, and sized for all of them."""
    table = _SMALLEST_TABLE
    while table < len(keys) * 4 // 3 + 1:
        table *= 2
    return _by_bucket(dict.fromkeys(keys), hash_of, table)


def copied_map(keys: Collection[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Return distinct keys in the order of a HashMap made of another map, whose table just fits them."""
    table = 1
    while table < len(keys) * 4 // 3 + 1:
        table *= 2
    return _by_bucket(keys, hash_of, table)


def _by_bucket(keys: Collection[Key], hash_of: Callable[[Key], int], table: int) -> list[Key]:
    """Sort by bucket. Java makes trees of buckets with eight keys, whose first key may then differ."""

    def bucket(key: Key) -> int:
        value = hash_of(key) & 0xFFFFFFFF
        return (value ^ value >> 16) & (table - 1)

    return sorted(keys, key=bucket)
