"""The parser of durations that users write: `5 minutes`, `1 hour 30 minutes`, `250ms`, `15m`.

SQL has its own durations, since ksqlDB accepts exactly a number and one of its keywords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

UNITS_US: Final[Mapping[str, int]] = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000_000),
}
"""The units in microseconds, the smallest unit of any caller."""
_PART: Final = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.ASCII | re.IGNORECASE)


def parse_ms(text: str, units_us: Mapping[str, int] = UNITS_US) -> int | None:
    """Parse numbers with their units into whole milliseconds; None if the text is no duration."""
    total_us, position = 0, 0
    while position < len(text) or not text:
        part = _PART.match(text, position)
        unit_us = None if part is None else units_us.get(part[2].lower())
        if part is None or unit_us is None:
            return None
        total_us += int(part[1]) * unit_us
        position = part.end()
    return total_us // 1_000
