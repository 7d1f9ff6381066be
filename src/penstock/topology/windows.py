"""Windows: the spans of time that a record belongs to, and when such a span closes.

All times and lengths are milliseconds. ``grace_ms`` is how long after its end a window still accepts records
that are out of order: it closes once stream time has passed ``end + grace``. No window starts before 0, as in
Kafka Streams: a window that would is omitted (time windows) or starts at 0 (sliding).
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.topology.errors import TopologyError


def _not_negative(what: str, ms: int) -> None:
    if ms < 0:
        raise TopologyError(f"{what} must be 0 ms or more, not {ms}")


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows of one size that start every ``advance_ms``: tumbling if that is the size, else hopping.

    The end is exclusive. Raises TopologyError for an advance that leaves gaps.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise TopologyError(f"a window's size must be above 0 ms, not {self.size_ms}")
        if not 0 < self.advance_ms <= self.size_ms:
            raise TopologyError(
                f"windows advance by more than 0 ms and at most their size, {self.size_ms} ms; "
                f"found {self.advance_ms}"
            )
        _not_negative("grace", self.grace_ms)

    def starts(self, timestamp_ms: int) -> range:
        """Return the starts of the windows that contain a timestamp, the earliest first."""
        first = max(0, timestamp_ms - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, timestamp_ms + 1, self.advance_ms)

    @property
    def retention_ms(self) -> int:
        """How long after its start a store must keep a window, so that it has every open window."""
        return self.size_ms + self.grace_ms

    @property
    def final_after_ms(self) -> int:
        """A window is final once stream time is at least its end plus this."""
        return self.grace_ms


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows around records (KIP-450), with inclusive ends that are ``difference_ms`` apart.

    One window ends at each record's timestamp; another starts right after it, if it contains other records.
    """

    difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.difference_ms <= 0:
            raise TopologyError(
                f"the time difference of sliding windows must be above 0 ms, not {self.difference_ms}"
            )
        _not_negative("grace", self.grace_ms)

    @property
    def retention_ms(self) -> int:
        """Two lengths plus the grace, because a new window starts from the aggregate of the one before it."""
        return 2 * self.difference_ms + self.grace_ms + 1

    @property
    def final_after_ms(self) -> int:
        """The grace plus 1: the end is inclusive, so a record at ``end + grace`` finds the window open."""
        return self.grace_ms + 1


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Spans of activity: records of a key that are at most ``gap_ms`` apart share one.

    Both ends are timestamps of records, and inclusive.
    """

    gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.gap_ms <= 0:
            raise TopologyError(f"the inactivity gap of sessions must be above 0 ms, not {self.gap_ms}")
        _not_negative("grace", self.grace_ms)

    @property
    def retention_ms(self) -> int:
        """One more than in Kafka Streams: a session that ended exactly ``gap + grace`` ago is still open."""
        return self.gap_ms + self.grace_ms + 1

    @property
    def final_after_ms(self) -> int:
        """After its end, a session can be extended during the gap plus the grace, both inclusive."""
        return self.gap_ms + self.grace_ms + 1


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """The condition for two streams' records to match.

    The other record's timestamp is at most ``before_ms`` earlier and at most ``after_ms`` later than this
    one's. One of the two may be negative.
    """

    before_ms: int
    after_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"a join's window must not be empty: before ({self.before_ms} ms) plus after "
                f"({self.after_ms} ms) must be 0 or more"
            )
        _not_negative("grace", self.grace_ms)

    @property
    def size_ms(self) -> int:
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """One more than in Kafka Streams, which loses a pair at the very edge of the window."""
        return self.size_ms + self.grace_ms + 1
