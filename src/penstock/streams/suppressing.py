"""Suppress as users write it: ``table.suppress(until_window_closes())``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.streams.durations import Duration, duration_ms
from penstock.topology.suppress import BufferLimit


@dataclass(frozen=True, slots=True)
class Suppressed:
    """What a table holds back: until a time limit, or (``wait_ms`` None) until its windows close."""

    wait_ms: int | None
    limit: BufferLimit


def until_window_closes(*, max_rows: int | None = None, max_bytes: int | None = None) -> Suppressed:
    """Send each window's row once, when it is final.

    What waits is kept in a store. A limit (for each task) stops the application when it is passed: sending
    early would send what is not final.
    """
    return Suppressed(None, BufferLimit(max_rows, max_bytes, "stop"))


def until_time_limit(
    wait: Duration,
    *,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    when_full: Literal["emit", "stop"] = "emit",
) -> Suppressed:
    """Send at most one update of a key within ``wait``: the last one, ``wait`` after the first.

    Beyond a limit (for each task) the oldest go early, or the application stops.
    """
    return Suppressed(duration_ms(wait, "wait"), BufferLimit(max_rows, max_bytes, when_full))
