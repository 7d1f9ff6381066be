"""A cache of recent answers, bounded in age and in number."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEPT_MAX: Final = 10_000
"""Limit on entries: records may name any schema ids, and each one is looked up."""


class Recent(Generic[K, V]):
    """A cache whose entries expire after ``kept_s`` seconds; several threads may use it."""

    def __init__(
        self, kept_s: float, clock: Callable[[], float] = time.monotonic, kept_max: int = KEPT_MAX
    ) -> None:
        self._kept_s = kept_s
        self._kept_max = kept_max
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[K, tuple[float, V]] = {}  # ordered by the time of insertion

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K) -> V | None:
        """Return the value, or None if there is none or it has expired."""
        with self._lock:
            self._forget(self._clock())
            return self._found[key][1] if key in self._found else None

    def put(self, key: K, value: V) -> None:
        now_s = self._clock()
        with self._lock:
            self._found.pop(key, None)
            self._found[key] = now_s, value
            self._forget(now_s)

    def _forget(self, now_s: float) -> None:
        while self._found:
            oldest, (learned_s, _) = next(iter(self._found.items()))
            if now_s - learned_s < self._kept_s and len(self._found) <= self._kept_max:
                return
            del self._found[oldest]
