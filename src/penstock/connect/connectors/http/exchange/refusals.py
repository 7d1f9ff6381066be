"""Decides what a refusal means: whether and when the same request may succeed."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

_TRANSIENT: Final = frozenset((408, 425, 429))
_NOT_ITS_FAULT: Final = _TRANSIENT | {401, 403, 407, 502, 503, 504}
_RETRY_AFTER_MAX_MS: Final = 24 * 60 * 60 * 1000
"""Limits what Retry-After may ask for; a server that asks for more has a bad clock."""


def is_transient(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status in _TRANSIENT or status >= 500


def blames_request(status: int) -> bool:
    """Whether the server refuses this request and may accept others.

    A status such as 500 belongs here: the server has looked at the request and failed. Redirects, outages,
    overload (429) and missing permissions concern every request.
    """
    return status >= 400 and status not in _NOT_ITS_FAULT


def retry_after_ms(headers: Mapping[str, str], now_s: float | None = None) -> int:
    """Return how long the server asks to wait: Retry-After in seconds or as a date; 0 if it does not ask."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1000, _RETRY_AFTER_MAX_MS)
    try:
        until_s = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0
    left_s = until_s - (time.time() if now_s is None else now_s)
    return min(max(0, round(left_s * 1000)), _RETRY_AFTER_MAX_MS)


def backoff_ms(failures: int, first_ms: int, most_ms: int) -> int:
    """Return the wait after some failures in a row: twice as long each time, with a fifth of jitter."""
    wait_ms = min(first_ms << min(max(failures - 1, 0), 30), most_ms)
    return round(wait_ms * random.uniform(0.8, 1.0))
