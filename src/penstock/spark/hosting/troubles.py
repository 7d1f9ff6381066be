"""The failures of members, and the times when they are retried."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

KEPT_MAX: Final = 10
"""The number of failures kept for each member."""
_KEPT_MS: Final = 3_600_000
"""The age up to which failures are reported: one hour."""


class Trouble(NamedTuple):
    """One failure; ``at_ms`` counts from 1970."""

    at_ms: int
    error: str

    @classmethod
    def now(cls, error: str) -> Trouble:
        return cls(_now_ms(), error)


@dataclass(slots=True)
class _Failing:
    """The failures of one member.

    ``in_a_row`` counts failures in quick succession. ``due_s`` is the monotonic time of the next retry, or
    None if none is due.
    """

    troubles: deque[Trouble] = field(default_factory=lambda: deque(maxlen=KEPT_MAX))
    in_a_row: int = 0
    due_s: float | None = None


class Troubles:
    """The failures since the host was started, by the members' names.

    ``rest_s`` returns how long a member pauses after this many failures in a row. Not thread safe.
    """

    def __init__(self, rest_s: Callable[[int], float]) -> None:
        self._rest_s = rest_s
        self._failing: dict[str, _Failing] = {}

    def add(self, name: str, error: str) -> None:
        """Record a failure of a member, which pauses from now on."""
        known, now_ms = self._failing.setdefault(name, _Failing()), _now_ms()
        if known.in_a_row and now_ms - known.troubles[-1].at_ms > 3000 * self._rest_s(known.in_a_row):
            known.in_a_row = 0  # it has run for longer than it had paused
        known.in_a_row += 1
        known.troubles.append(Trouble.now(error))
        known.due_s = time.monotonic() + self._rest_s(known.in_a_row)

    def of(self, name: str) -> tuple[Trouble, ...]:
        """The member's failures of the last hour, at most ten, the latest at the end."""
        since_ms = _now_ms() - _KEPT_MS
        known = self._failing.get(name)
        return () if known is None else tuple(each for each in known.troubles if each.at_ms > since_ms)

    def due(self) -> list[str]:
        """Return the members whose pause is over."""
        now_s = time.monotonic()
        return [
            name for name, each in self._failing.items() if each.due_s is not None and each.due_s <= now_s
        ]

    def settle(self, name: str) -> None:
        """Cancel the member's automatic retry."""
        if name in self._failing:
            self._failing[name].due_s = None

    def reset(self, name: str) -> None:
        """Reset the count of failures in a row, so that the next failure counts as the first."""
        if name in self._failing:
            self._failing[name].in_a_row = 0

    def forget(self, name: str) -> None:
        self._failing.pop(name, None)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
