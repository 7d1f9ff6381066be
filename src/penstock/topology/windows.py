"""Windows: which spans of time a record belongs to, and when such a span is closed.

All times and lengths are milliseconds. ``grace_ms`` is how long after its end a window still takes records
that come out of order: stream time must pass ``end + grace`` for it to close. Windows start at 0 or later, as
in Kafka Streams: where one would start earlier it is left out (time windows) or begins at 0 (sliding).
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.topology.errors import TopologyError


def _not_negative(what: str, ms: int) -> None:
    if ms < 0:
        raise TopologyError(f"{what} is 0 ms or more, not {ms}")


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows of one size that start every ``advance_ms``: tumbling where that is the size, else hopping.

    The end is exclusive. Raises TopologyError for an advance that leaves gaps.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise TopologyError(f"a window's size is above 0 ms, not {self.size_ms}")
        if not 0 < self.advance_ms <= self.size_ms:
            raise TopologyError(
                f"windows advance by more than 0 ms and at most their size, {self.size_ms} ms; "
                f"found {self.advance_ms}"
            )
        _not_negative("grace", self.grace_ms)

    def starts(self, timestamp_ms: int) -> range:
        """The starts of the windows that a timestamp lies in, the earliest first."""
        first = max(0, timestamp_ms - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, timestamp_ms + 1, self.advance_ms)

    @property
    def retention_ms(self) -> int:
        """How long a store must keep a window after its start, so that what is open is there."""
        return self.size_ms + self.grace_ms

    @property
    def final_after_ms(self) -> int:
        """A window is final once stream time is at least its end plus this."""
        return self.grace_ms


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows around records (KIP-450): one ends at each record's timestamp, and one starts right after it if
    other records lie in it. Both ends are inclusive, ``difference_ms`` apart.
    """

    difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.difference_ms <= 0:
            raise TopologyError(
                f"the time difference of sliding windows is above 0 ms, not {self.difference_ms}"
            )
        _not_negative("grace", self.grace_ms)

    @property
    def retention_ms(self) -> int:
        """A new window takes over what the one before it had: so two lengths, and the grace."""
        return 2 * self.difference_ms + self.grace_ms + 1

    @property
    def final_after_ms(self) -> int:
        """The end is inclusive: a record at ``end + grace`` finds the window open."""
        return self.grace_ms + 1


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Spans of activity: records of a key that are at most ``gap_ms`` apart share one. Both ends are
    timestamps of records, and inclusive.
    """

    gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.gap_ms <= 0:
            raise TopologyError(f"the inactivity gap of sessions is above 0 ms, not {self.gap_ms}")
        _not_negative("grace", self.grace_ms)

    @property
    def retention_ms(self) -> int:
        """One more than Kafka Streams keeps: a session that ended just ``gap + grace`` ago is open still."""
        return self.gap_ms + self.grace_ms + 1

    @property
    def final_after_ms(self) -> int:
        """After its end a session can be extended for the gap and the grace, both inclusive."""
        return self.gap_ms + self.grace_ms + 1


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """Which records of two streams meet: the other's timestamp is at most ``before_ms`` earlier and at most
    ``after_ms`` later than this one's. One of them may be negative.
    """

    before_ms: int
    after_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"a join's window is not empty: before ({self.before_ms} ms) plus after ({self.after_ms} ms) "
                "is 0 or more"
            )
        _not_negative("grace", self.grace_ms)

    @property
    def size_ms(self) -> int:
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """One more than Kafka Streams keeps, which loses a pair at the very edge of the window."""
        return self.size_ms + self.grace_ms + 1
