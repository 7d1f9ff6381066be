"""The partition of a coordinator's topic that holds a group or a transactional id."""

from functools import lru_cache

from penstock.java.strings import hash_code

__all__ = ["partition_for"]


@lru_cache(maxsize=4096)
def partition_for(coordinator_key: str, partition_count: int) -> int:
    """Return ``abs(hashCode(key)) % partition_count``, as Kafka computes it."""
    value = hash_code(coordinator_key)
    # Kafka's abs: Integer.MIN_VALUE has no positive counterpart and counts as 0.
    return (0 if value == -0x8000_0000 else abs(value)) % partition_count
