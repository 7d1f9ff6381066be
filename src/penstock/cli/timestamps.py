"""Parse times and durations on the command line."""

from datetime import UTC, datetime

from penstock.cli.connection import EXIT_USAGE, fail
from penstock.topology.durations import parse_ms


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


def parse_duration_ms(text: str) -> int:
    """Parse a duration such as `90s`, `15m`, `2h`, `1d` or `500ms` into milliseconds."""
    found = parse_ms(text)
    if found is None:
        fail(f"expected a length of time such as 90s, 15m, 2h or 1d, found {text!r}", EXIT_USAGE)
    return found
