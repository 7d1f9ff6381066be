"""Windows as users write them: ``tumbling("5 minutes", grace="30 seconds")``."""

from __future__ import annotations

from typing import Literal, TypeAlias

from penstock.streams.durations import Duration, duration_ms
from penstock.topology.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows

NO_GRACE = "0 ms"

AnyWindows: TypeAlias = TimeWindows | SlidingWindows | SessionWindows
Emit: TypeAlias = Literal["on_update", "on_close"]


def tumbling(size: Duration, *, grace: Duration = NO_GRACE) -> TimeWindows:
    """Define consecutive windows of one size; the first starts at 1970-01-01 00:00 UTC.

    ``grace`` is how long after its end a window still accepts late records; later ones are dropped.

    >>> tumbling("1 minute").starts(90_000)
    range(60000, 90001, 60000)
    """
    size_ms = duration_ms(size, "a window's size")
    return TimeWindows(size_ms, size_ms, duration_ms(grace, "grace"))


def hopping(size: Duration, *, advance: Duration, grace: Duration = NO_GRACE) -> TimeWindows:
    """Define overlapping windows of one size, one starting every ``advance``.

    A record is in size / advance of them.
    """
    size_ms, advance_ms = duration_ms(size, "a window's size"), duration_ms(advance, "a window's advance")
    return TimeWindows(size_ms, advance_ms, duration_ms(grace, "grace"))


def sliding(difference: Duration, *, grace: Duration = NO_GRACE) -> SlidingWindows:
    """Define a window for each set of records that are at most ``difference`` apart (KIP-450).

    Both ends of a window are inclusive.
    """
    return SlidingWindows(duration_ms(difference, "the time difference"), duration_ms(grace, "grace"))


def sessions(gap: Duration, *, grace: Duration = NO_GRACE) -> SessionWindows:
    """Define sessions: a key's records, each at most ``gap`` after the previous one, of any length."""
    return SessionWindows(duration_ms(gap, "the inactivity gap"), duration_ms(grace, "grace"))


def join_windows(
    within: Duration, before: Duration | None, after: Duration | None, grace: Duration
) -> JoinWindows:
    """Define the records of two streams that match.

    They are at most ``within`` apart; ``before`` and ``after`` override it for either direction.
    """
    within_ms = duration_ms(within, "within")
    before_ms = within_ms if before is None else duration_ms(before, "before")
    after_ms = within_ms if after is None else duration_ms(after, "after")
    return JoinWindows(before_ms, after_ms, duration_ms(grace, "grace"))
