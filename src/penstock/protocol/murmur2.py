"""Murmur2 as in Kafka's default partitioner: a key has the same partition in every client."""

from __future__ import annotations

from typing import Final

from penstock.protocol.batch import Buffer

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK32: Final = 0xFFFFFFFF


def murmur2(data: Buffer) -> int:
    """The 32-bit hash, unsigned (Java shows the same bits as a signed int)."""
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK32
        k ^= k >> 24
        h = (h * _M & _MASK32) ^ (k * _M & _MASK32)
    tail = data[whole:]
    if len(tail):
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK32
    h = (h ^ h >> 13) * _M & _MASK32
    return h ^ h >> 15


def partition_for_key(key: Buffer, partitions: int) -> int:
    """The partition, among `partitions`, of a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
