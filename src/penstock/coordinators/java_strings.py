"""Java's string functions, as far as Kafka's formats depend on them.

Partition ``abs(hashCode(key)) % partitions`` of the coordinator's topic holds a group or transactional id.
Both the hash and the limit on commit metadata count UTF-16 code units, not characters.
"""

import struct
from functools import lru_cache

__all__ = ["java_hash_code", "partition_for", "utf16_length"]


def java_hash_code(text: str) -> int:
    """``String.hashCode()``: a signed 32-bit polynomial over the UTF-16 code units."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


@lru_cache(maxsize=4096)
def partition_for(coordinator_key: str, partition_count: int) -> int:
    """The partition of a coordinator's topic that holds this group or transactional id."""
    value = java_hash_code(coordinator_key)
    # Kafka's abs: Integer.MIN_VALUE has no positive counterpart and counts as 0.
    return (0 if value == -0x8000_0000 else abs(value)) % partition_count


def utf16_length(text: str) -> int:
    """``String.length()``: characters outside the basic plane count twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
