"""Durations as Spark writes them in options: ``15m``, ``30s``, ``100ms``; a bare number is milliseconds."""

from __future__ import annotations

import re
from typing import Final

_UNIT_MS: Final = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_PATTERN: Final = re.compile(r"(-?\d+)\s*([a-z]*)")


def duration_ms(text: str) -> int:
    """Parse whole milliseconds; a fraction of one is dropped. Raises ValueError("what was expected")."""
    expected = "a duration like 500ms, 30s, 15m, 2h or 1d"
    match = _PATTERN.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(expected)
    number, unit = int(match[1]), match[2] or "ms"
    if number < 0 or unit not in _UNIT_MS:
        raise ValueError(expected)
    return int(number * _UNIT_MS[unit])
