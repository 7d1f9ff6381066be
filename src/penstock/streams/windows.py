"""Windows as users write them: ``tumbling("5 minutes", grace="30 seconds")``."""

from __future__ import annotations

from penstock.streams.durations import Duration, duration_ms
from penstock.topology.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows

NO_GRACE = "0 ms"


def tumbling(size: Duration, *, grace: Duration = NO_GRACE) -> TimeWindows:
    """Windows of one size, one after the other; the first starts at 1970-01-01 00:00 UTC.

    ``grace`` is how long after its end a window takes records that come late; later ones are dropped.

    >>> tumbling("1 minute").starts(90_000)
    range(60000, 90001, 60000)
    """
    size_ms = duration_ms(size, "a window's size")
    return TimeWindows(size_ms, size_ms, duration_ms(grace, "grace"))


def hopping(size: Duration, *, advance: Duration, grace: Duration = NO_GRACE) -> TimeWindows:
    """Windows of one size that overlap: one starts every ``advance``, so a record is in size / advance of
    them.
    """
    size_ms, advance_ms = duration_ms(size, "a window's size"), duration_ms(advance, "a window's advance")
    return TimeWindows(size_ms, advance_ms, duration_ms(grace, "grace"))


def sliding(difference: Duration, *, grace: Duration = NO_GRACE) -> SlidingWindows:
    """One window for each set of records that are at most ``difference`` apart (KIP-450); both ends are
    inclusive.
    """
    return SlidingWindows(duration_ms(difference, "the time difference"), duration_ms(grace, "grace"))


def sessions(gap: Duration, *, grace: Duration = NO_GRACE) -> SessionWindows:
    """Sessions: a key's records that are at most ``gap`` apart, however long that goes on."""
    return SessionWindows(duration_ms(gap, "the inactivity gap"), duration_ms(grace, "grace"))


def join_windows(
    within: Duration, before: Duration | None, after: Duration | None, grace: Duration
) -> JoinWindows:
    """Which records of two streams meet: at most ``within`` apart, or as ``before`` and ``after`` say."""
    within_ms = duration_ms(within, "within")
    before_ms = within_ms if before is None else duration_ms(before, "before")
    after_ms = within_ms if after is None else duration_ms(after, "after")
    return JoinWindows(before_ms, after_ms, duration_ms(grace, "grace"))
