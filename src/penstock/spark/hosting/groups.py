"""The bigints that a host's rows are shuffled by: whose they are, and of which partition."""

from __future__ import annotations

from typing import Final

from penstock.spark.streams.grouping import spark_hash_of_long

#: Of rows that pass the operator by: outputs of members without state.
PASSING: Final = 0
#: Of the first member; no number is given twice.
FIRST: Final = 1

_PARTITION_BITS: Final = 20
_NUMBER_BITS: Final = 24


def member_group(number: int, partition: int, shuffle_partitions: int) -> int:
    """One that Spark's hash puts on shuffle partition ``(number + partition) % shuffle_partitions``: so the
    first partitions of many members don't share one task."""
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
