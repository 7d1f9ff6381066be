"""Times on the command line."""

from datetime import UTC, datetime

from penstock.cli.connection import EXIT_USAGE, fail


def parse_timestamp_ms(text: str) -> int:
    """Milliseconds since the epoch, from `1700000000000` or `2026-01-31T08:00` (UTC if no zone is named)."""
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
