"""Suppression as users write it: ``table.suppress(until_window_closes())``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.streams.durations import Duration, duration_ms
from penstock.topology.operators.suppress import BufferLimit


@dataclass(frozen=True, slots=True)
class Suppressed:
    """How a table holds back updates: for ``wait_ms``, or until its windows close if ``wait_ms`` is None."""

    wait_ms: int | None
    limit: BufferLimit


def until_window_closes(*, max_rows: int | None = None, max_bytes: int | None = None) -> Suppressed:
    """Send each window's row once, when it is final.

    A store buffers the rows until then. Exceeding a limit, which applies per task, stops the application,
    because sending early would send rows that are not final.
    """
    return Suppressed(None, BufferLimit(max_rows, max_bytes, "stop"))


def until_time_limit(
    wait: Duration,
    *,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    when_full: Literal["emit", "stop"] = "emit",
) -> Suppressed:
    """Send at most one update of a key per ``wait``: the last one, ``wait`` after the first.

    If a limit, which applies per task, is exceeded, the oldest updates are sent early or the application
    stops, as ``when_full`` says.
    """
    return Suppressed(duration_ms(wait, "wait"), BufferLimit(max_rows, max_bytes, when_full))
