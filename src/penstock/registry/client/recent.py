"""What was learned lately: kept for a while, and no more of it than so much."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Records may name any ids at all, and each is asked about.
KEPT_MAX: Final = 10_000


class Recent(Generic[K, V]):
    """Safe in several threads."""

    def __init__(
        self, kept_s: float, clock: Callable[[], float] = time.monotonic, kept_max: int = KEPT_MAX
    ) -> None:
        self._kept_s = kept_s
        self._kept_max = kept_max
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[K, tuple[float, V]] = {}  # in the order of their times

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K) -> V | None:
        """None where it was not learned lately."""
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
