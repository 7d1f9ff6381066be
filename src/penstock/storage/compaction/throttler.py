"""Limits the rate at which all cleaners together read and write bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

_CHECK_INTERVAL_S: Final = 0.3
_SLOWEST_BYTES_PER_SECOND: Final = 0.01


class Throttler:
    """A throttler that counts bytes and computes pauses; threads share it. `clock_s` must be monotonic."""

    def __init__(self, bytes_per_second: float, clock_s: Callable[[], float]) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._period_start_s = clock_s()
        self._observed_bytes = 0

    def pause_s(self, size_bytes: int) -> float:
        """The seconds to wait after `size_bytes` were read or written; 0 if the rate is within the limit."""
        with self._lock:
            self._observed_bytes += size_bytes
            elapsed_s = self._clock_s() - self._period_start_s
            if elapsed_s < _CHECK_INTERVAL_S:
                return 0.0
            pause_s = -elapsed_s
            if self.bytes_per_second >= 0:  # as in Kafka: below 0 is no limit, 0 stops running cleans
                pause_s += self._observed_bytes / max(self.bytes_per_second, _SLOWEST_BYTES_PER_SECOND)
            self._period_start_s += elapsed_s + max(pause_s, 0.0)
            self._observed_bytes = 0
            return max(pause_s, 0.0)
