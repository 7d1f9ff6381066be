"""The bigints that a host's rows are shuffled by: each one encodes a member and a partition."""

from __future__ import annotations

from typing import Final

from penstock.spark.streams.planning.grouping import spark_hash_of_long

PASSING: Final = 0
"""The group of rows that the operator only passes on: outputs of members without state."""
FIRST: Final = 1
"""The number of the first member; no number is assigned twice."""

_PARTITION_BITS: Final = 20
_NUMBER_BITS: Final = 24


def member_group(number: int, partition: int, shuffle_partitions: int) -> int:
    """Return a group that Spark hashes to shuffle partition ``(number + partition) % shuffle_partitions``.

    This keeps the first partitions of many members out of one task.
    """
    wanted = (number + partition) % shuffle_partitions
    salt = 0
    while True:
        group = (salt << _NUMBER_BITS | number) << _PARTITION_BITS | partition
        if spark_hash_of_long(group) % shuffle_partitions == wanted:
            return group
        salt += 1


def number_of(group: int) -> int:
    return group >> _PARTITION_BITS & ((1 << _NUMBER_BITS) - 1)


def partition_of(group: int) -> int:
    return group & ((1 << _PARTITION_BITS) - 1)
