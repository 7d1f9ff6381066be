"""Why members failed, and when they are due to try again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

KEPT_MAX: Final = 10
_KEPT_MS: Final = 3_600_000


class Trouble(NamedTuple):
    """``at_ms``: since 1970."""

    at_ms: int
    error: str

    @classmethod
    def now(cls, error: str) -> Trouble:
        return cls(_now_ms(), error)


@dataclass(slots=True)
class _Failing:
    """``in_a_row``: failures that came soon after each other; ``due_s``: a monotonic time, None: it runs."""

    troubles: deque[Trouble] = field(default_factory=lambda: deque(maxlen=KEPT_MAX))
    in_a_row: int = 0
    due_s: float | None = None


class Troubles:
    """By members' names, since the host was started. ``rest_s``: how long one rests that has failed so many
    times in a row. Belongs to one thread at a time.
    """

    def __init__(self, rest_s: Callable[[int], float]) -> None:
        self._rest_s = rest_s
        self._failing: dict[str, _Failing] = {}

    def add(self, name: str, error: str) -> None:
        """It has failed, and rests from now on."""
        known, now_ms = self._failing.setdefault(name, _Failing()), _now_ms()
        if known.in_a_row and now_ms - known.troubles[-1].at_ms > 3000 * self._rest_s(known.in_a_row):
            known.in_a_row = 0  # it has run for longer than it rested
        known.in_a_row += 1
        known.troubles.append(Trouble.now(error))
        known.due_s = time.monotonic() + self._rest_s(known.in_a_row)

    def of(self, name: str) -> tuple[Trouble, ...]:
        """Those of the last hour, ten at most; the latest at the end."""
        since_ms = _now_ms() - _KEPT_MS
        known = self._failing.get(name)
        return () if known is None else tuple(each for each in known.troubles if each.at_ms > since_ms)

    def due(self) -> list[str]:
        """Those that have rested."""
        now_s = time.monotonic()
        return [
            name for name, each in self._failing.items() if each.due_s is not None and each.due_s <= now_s
        ]

    def settle(self, name: str) -> None:
        """It is not to be tried again by itself."""
        if name in self._failing:
            self._failing[name].due_s = None

    def begin_anew(self, name: str) -> None:
        """What fails now has not failed before."""
        if name in self._failing:
            self._failing[name].in_a_row = 0

    def forget(self, name: str) -> None:
        self._failing.pop(name, None)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
