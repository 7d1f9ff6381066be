"""The numbers that rows are shuffled by: each one names a group of tasks and leads to a chosen partition."""

from __future__ import annotations

from typing import Final

_PARTITION_BITS: Final = 20
_MASK32: Final = 0xFFFFFFFF
_SEED: Final = 42


def group_of(partition: int, shuffle_partitions: int) -> int:
    """Return a number for a partition that Spark hashes to ``partition % shuffle_partitions``.

    If Spark hashed the bare number, the few groups of a small topic could share one task by chance.
    """
    wanted = partition % shuffle_partitions
    salt = 0
    while True:
        group = salt << _PARTITION_BITS | partition
        if spark_hash(group) % shuffle_partitions == wanted:
            return group
        salt += 1


def partition_of(group: int) -> int:
    return group & ((1 << _PARTITION_BITS) - 1)


def spark_hash(value: int) -> int:
    """Spark's hash of an int column (Murmur3, x86, 32 bits, seed 42), signed."""
    return _finished(_mixed(_SEED, value & _MASK32), 4)


def spark_hash_of_long(value: int) -> int:
    """Spark's hash of a bigint column, signed."""
    low = _mixed(_SEED, value & _MASK32)
    return _finished(_mixed(low, value >> 32 & _MASK32), 8)


def _mixed(h: int, k: int) -> int:
    return _rotate(h ^ _mix_k1(k), 13) * 5 + 0xE6546B64 & _MASK32


def _finished(h: int, size_bytes: int) -> int:
    h ^= size_bytes
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK32
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK32
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _mix_k1(k: int) -> int:
    return _rotate(k * 0xCC9E2D51 & _MASK32, 15) * 0x1B873593 & _MASK32


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK32
