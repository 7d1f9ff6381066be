"""Limit the rate at which throttled replicas are copied (KIP-73), in measured bytes per second.

Bytes are counted after they are fetched, so the rate overshoots and then pauses. Only replicas that are
listed in `leader.` or `follower.replication.throttled.replicas` are held back, and none that is in sync; the
bytes of all listed replicas count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

NO_LIMIT = 2**63 - 1

ALL_PARTITIONS = None
"""The value for a topic whose list is ``*``."""


class ReplicationThrottle:
    """The throttle of one direction: as leader or as follower.

    Args:
        samples: `replication.quota.window.num`.
        sample_ms: `replication.quota.window.size.seconds`, in milliseconds.
        now_ms: a monotonic clock.
    """

    def __init__(self, samples: int, sample_ms: int, now_ms: Callable[[], float]) -> None:
        self.bytes_per_second_max = NO_LIMIT
        self._samples = samples
        self._sample_ms = sample_ms
        self._now_ms = now_ms
        self._counted: deque[list[float]] = deque()
        """[start, bytes] of each sample, oldest first."""
        self._topics: dict[str, frozenset[int] | None] = {}

    def mark(self, topic: str, replicas: Iterable[str], node_id: int) -> None:
        """Apply a topic's list of `partition:broker`, or ``*``."""
        listed = list(replicas)
        if listed == ["*"]:
            self._topics[topic] = ALL_PARTITIONS
            return
        places = (place.split(":") for place in listed if ":" in place)
        partitions = frozenset(int(partition) for partition, broker in places if int(broker) == node_id)
        if partitions:
            self._topics[topic] = partitions
        else:
            self._topics.pop(topic, None)

    @property
    def is_idle(self) -> bool:
        """Whether no replica is throttled."""
        return not self._topics

    def is_throttled(self, topic: str, partition: int) -> bool:
        """Whether the partition's replica is in the list."""
        if topic not in self._topics:
            return False
        partitions = self._topics[topic]
        return partitions is ALL_PARTITIONS or partition in partitions

    def record(self, size_bytes: int) -> None:
        """Count bytes that were sent or fetched."""
        now_ms = self._now_ms()
        if not self._counted or now_ms - self._counted[-1][0] >= self._sample_ms:
            self._counted.append([now_ms, 0])
        self._counted[-1][1] += size_bytes

    @property
    def bytes_per_second(self) -> float:
        """The rate over the retained samples, measured over at least one whole sample."""
        now_ms = self._now_ms()
        while self._counted and now_ms - self._counted[0][0] >= self._samples * self._sample_ms:
            self._counted.popleft()
        if not self._counted:
            return 0.0
        span_ms = max(now_ms - self._counted[0][0], self._sample_ms)
        return sum(size for _, size in self._counted) * 1000 / span_ms

    @property
    def is_exceeded(self) -> bool:
        """Whether throttled replicas have to pause."""
        return self.bytes_per_second_max != NO_LIMIT and self.bytes_per_second > self.bytes_per_second_max
