"""Durations as Spark writes them in options: ``15m``, ``30s``, ``100ms``; a bare number is milliseconds."""

from __future__ import annotations

from typing import Final

from penstock.topology.durations import UNITS_US, parse_ms

_UNITS_US: Final = {**UNITS_US, "us": 1}


def duration_ms(text: str) -> int:
    """Parse whole milliseconds; a fraction of one is dropped. Raises ValueError("what was expected")."""
    found = parse_ms(f"{text}ms" if text.strip().isdecimal() else text, _UNITS_US)
    if found is None:
        raise ValueError("a duration like 500ms, 30s, 15m, 2h or 1d")
    return found
