"""The operations that occupy a herder's thread, so that requests that time out say what they wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from penstock.connect.herding.entities import Stage


class Stages:
    """The last operation of one herder's thread. Any thread may read it."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._clock_ms = clock_ms
        self._last: Stage | None = Stage("awaiting startup", clock_ms())

    @property
    def last(self) -> Stage | None:
        """The present operation, or the last one if it is completed."""
        return self._last

    @contextmanager
    def stage(self, description: str) -> Iterator[None]:
        """Record an operation while it goes on. Within another one, it takes that one's place."""
        self._last = present = Stage(description, self._clock_ms())
        try:
            yield
        finally:
            self._last = replace(present, completed_ms=self._clock_ms())
