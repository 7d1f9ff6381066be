"""Durations as users write them.

Examples: ``timedelta(minutes=5)``, ``"5 minutes"``, ``"1 hour 30 minutes"``, ``"250 ms"``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from penstock.topology.durations import parse_ms

Duration: TypeAlias = timedelta | str
"""A timedelta, or a text of numbers and units: ms, seconds, minutes, hours, days, weeks."""

Time: TypeAlias = datetime | int
"""A datetime with a time zone, or milliseconds since 1970 (UTC)."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def duration_ms(duration: Duration, what: str = "a duration") -> int:
    """Convert a duration to milliseconds, 0 or more.

    Raises ValueError, whose text names ``what``, and TypeError for a bare number, which has no unit.
    """
    if isinstance(duration, timedelta):
        ms, rest = divmod(duration, _MS)
        if rest or ms < 0:
            raise ValueError(f"{what} is whole milliseconds, 0 or more, not {duration!r}")
        return ms
    if not isinstance(duration, str):
        raise TypeError(f"{what} is a timedelta or text like '10 seconds', not {duration!r}")
    found = parse_ms(duration)
    if found is None:
        raise ValueError(f"{what} is text like '10 seconds' or '1 hour 30 minutes', not {duration!r}")
    return found


def time_ms(time: Time) -> int:
    """Convert a time to milliseconds since 1970. Raises ValueError for a datetime without a time zone."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"a time needs a time zone, like datetime(…, tzinfo=timezone.utc): {time!r}")
        return (time - _EPOCH) // _MS
    return time
