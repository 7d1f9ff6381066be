"""The rate that a quota limits, over samples as in Apache Kafka's Rate, and the time to wait for it.

A rate is the sum of the retained samples by the time that they cover. There are `quota.window.num` samples of
`quota.window.size.seconds` each. With few samples the time would be short and the rate too high, so it counts
as if all samples but the last one were complete. Pure: the caller passes the time.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

THROTTLE_MS_MAX: Final = 2**31 - 1
"""The most that `throttle_time_ms` can say. Kafka's wraps around beyond it."""


class Window(NamedTuple):
    """The samples over which a rate is measured."""

    samples: int
    """`quota.window.num`."""
    sample_ms: int
    """`quota.window.size.seconds`, in milliseconds."""

    @property
    def complete_s(self) -> float:
        """The time of all samples but the last one, over which a burst is allowed."""
        return (self.samples - 1) * self.sample_ms / 1000


class _Sample:
    """The sum of the records of one sample."""

    __slots__ = ("began_ms", "last_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.value = 0.0
        self.began_ms = self.last_ms = now_ms


class Rate:
    """The rate per second of a recorded quantity."""

    __slots__ = ("_current", "_samples", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add to the current sample; a negative value takes back what was recorded before."""
        samples, window = self._samples, self._window
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.began_ms >= window.sample_ms:
            # One sample more than counts: the oldest may overlap the beginning of the window.
            self._current = (self._current + 1) % (window.samples + 1)
            if self._current == len(samples):
                samples.append(_Sample(now_ms))
            sample = samples[self._current]
            sample.reset(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time without a record after which the rate is down to the limit; 0 if it is not above."""
        total, oldest_ms = self._expire(now_ms)
        covered_ms = self._covered_ms(oldest_ms, now_ms)
        rate = total / (covered_ms / 1000)
        if rate <= limit:
            return 0
        if limit <= 0:
            return THROTTLE_MS_MAX
        return min(math.floor((rate - limit) / limit * covered_ms + 0.5), THROTTLE_MS_MAX)

    def per_second(self, now_ms: int) -> float:
        """The rate over the samples that count. It changes nothing, so any thread may ask."""
        total, oldest_ms = 0.0, now_ms
        expired_ms = now_ms - self._window.samples * self._window.sample_ms
        for sample in self._samples:
            if sample.last_ms > expired_ms:
                total += sample.value
                oldest_ms = min(oldest_ms, sample.began_ms)
        return total / (self._covered_ms(oldest_ms, now_ms) / 1000)

    def _expire(self, now_ms: int) -> tuple[float, int]:
        """Clear the samples without a record in the window; return the sum, and when the oldest one began."""
        total, oldest_ms = 0.0, now_ms
        expired_ms = now_ms - self._window.samples * self._window.sample_ms
        for sample in self._samples:
            if sample.last_ms <= expired_ms:
                sample.reset(now_ms)
            elif sample.began_ms < oldest_ms:
                oldest_ms = sample.began_ms
            total += sample.value
        return total, oldest_ms

    def _covered_ms(self, oldest_ms: int, now_ms: int) -> int:
        samples, sample_ms = self._window
        elapsed_ms = now_ms - oldest_ms
        complete = elapsed_ms // sample_ms
        if complete < samples - 1:
            elapsed_ms += (samples - 1 - complete) * sample_ms
        return max(elapsed_ms, 1)
