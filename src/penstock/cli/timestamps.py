"""Parse times and durations on the command line."""

import re
from datetime import UTC, datetime

from penstock.cli.connection import EXIT_USAGE, fail


def parse_timestamp_ms(text: str) -> int:
    """Parse `1700000000000` or `2026-01-31T08:00` (UTC by default) into milliseconds since the epoch."""
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        fail(
            f"expected milliseconds or an ISO 8601 time such as 2026-01-31T08:00, found {text!r}", EXIT_USAGE
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration_ms(text: str) -> int:
    """Parse a duration such as `90s`, `15m`, `2h`, `1d` or `500ms` into milliseconds."""
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text)
    if match is None:
        fail(f"expected a length of time such as 90s, 15m, 2h or 1d, found {text!r}", EXIT_USAGE)
    return int(match[1]) * _UNITS_MS[match[2]]
