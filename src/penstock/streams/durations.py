"""Durations as users write them.

Examples: ``timedelta(minutes=5)``, ``"5 minutes"``, ``"1 hour 30 minutes"``, ``"250 ms"``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

Duration: TypeAlias = timedelta | str
"""A timedelta, or a text of numbers and units: ms, seconds, minutes, hours, days, weeks."""

Time: TypeAlias = datetime | int
"""A datetime with a time zone, or milliseconds since 1970 (UTC)."""

_UNITS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}
_PART: Final = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.ASCII | re.IGNORECASE)
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
    total, position = 0, 0
    while position < len(duration) or not duration:
        part = _PART.match(duration, position)
        unit_ms = None if part is None else _UNITS_MS.get(part[2].lower())
        if part is None or unit_ms is None:
            raise ValueError(f"{what} is text like '10 seconds' or '1 hour 30 minutes', not {duration!r}")
        total += int(part[1]) * unit_ms
        position = part.end()
    return total


def time_ms(time: Time) -> int:
    """Convert a time to milliseconds since 1970. Raises ValueError for a datetime without a time zone."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"a time needs a time zone, like datetime(…, tzinfo=timezone.utc): {time!r}")
        return (time - _EPOCH) // _MS
    return time
