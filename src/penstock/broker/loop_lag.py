"""How late the event loop is: the time between when a timer is due and when it runs."""

from __future__ import annotations

import asyncio

INTERVAL_S = 0.1
SLOW_MS = 10.0


class LoopLag:
    """Samples the loop ten times a second; figures in milliseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.last_ms = 0.0
        self.max_ms = 0.0
        self.slow_samples = 0
        """Samples beyond the 10 ms for which the loop may block."""

    def start(self) -> None:
        self._due_s = self._loop.time() + INTERVAL_S
        self._timer = self._loop.call_at(self._due_s, self._sample)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sample(self) -> None:
        self.last_ms = max(0.0, (self._loop.time() - self._due_s) * 1000)
        self.max_ms = max(self.max_ms, self.last_ms)
        if self.last_ms > SLOW_MS:
            self.slow_samples += 1
        self.start()
