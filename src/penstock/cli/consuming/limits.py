"""When a reader of topics ends by itself."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TypeAlias

Place: TypeAlias = tuple[str, int]
"""A topic and the number of a partition."""

JOIN_ALLOWANCE_S = 15.0
"""Additional time for partitions to be assigned, beside any idle limit."""


class Limits:
    """The reasons to end: enough records, the end of the log, or no record for a while.

    The idle time counts once partitions are assigned.
    """

    def __init__(self, max_messages: int | None, idle_limit_s: float | None, exit_at_end: bool) -> None:
        self._left = max_messages
        self._idle_limit_s = idle_limit_s
        self._exit_at_end = exit_at_end
        self._at_end: set[Place] = set()
        self._assigned: set[Place] = set()
        self._idle_since_s = time.monotonic() + JOIN_ALLOWANCE_S

    def assigned(self, places: Iterable[Place]) -> None:
        """Set the partitions that are read."""
        self._assigned = set(places)
        self._at_end &= self._assigned
        self._idle_since_s = time.monotonic()

    def count(self, place: Place) -> None:
        """Count a record of this partition, before it is printed."""
        self._at_end.discard(place)
        self._idle_since_s = time.monotonic()
        if self._left is not None:
            self._left -= 1

    def reached_end(self, place: Place) -> None:
        """Note that the partition has no more records for now."""
        self._at_end.add(place)

    @property
    def is_full(self) -> bool:
        """Whether there are enough records."""
        return self._left == 0

    @property
    def is_over(self) -> bool:
        """Whether to end now."""
        if self.is_full:
            return True
        if self._exit_at_end and self._assigned and self._at_end >= self._assigned:
            return True
        idle_s = time.monotonic() - self._idle_since_s
        return self._idle_limit_s is not None and idle_s > self._idle_limit_s
