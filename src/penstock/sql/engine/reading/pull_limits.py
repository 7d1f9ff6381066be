"""Limits on pull queries: how many a server answers per second, and at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.properties import Values

QPS: Final = "ksql.query.pull.max.qps"
CONCURRENT: Final = "ksql.query.pull.max.concurrent.requests"


class PullLimits:
    """A server's limits on pull queries. Any thread may call it.

    The rate limit is a token bucket of one second's queries, as in ksqlDB: queries that a second didn't use
    may run in the next.
    """

    def __init__(self, values: Values, clock: Callable[[], float] = time.monotonic) -> None:
        self._qps = values.number(QPS)
        self._concurrent = values.number(CONCURRENT)
        self._clock = clock
        self._left = float(self._qps)
        self._counted_s = clock()
        self._running = 0
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Count a query that starts; `leave` must follow. Raises EngineError if it exceeds a limit."""
        with self._lock:
            now_s = self._clock()
            self._left = min(self._qps, self._left + (now_s - self._counted_s) * self._qps)
            self._counted_s = now_s
            if self._left < 1:
                raise EngineError(
                    f"Host is at rate limit for pull queries. Currently set to {self._qps} qps ('{QPS}').",
                    ErrorCode.TOO_MANY_REQUESTS,
                )
            if self._running >= self._concurrent:
                raise EngineError(
                    f"Host is at concurrency limit for pull queries. Currently set to {self._concurrent} "
                    f"maximum concurrent operations ('{CONCURRENT}')."
                )
            self._left -= 1
            self._running += 1

    def leave(self) -> None:
        with self._lock:
            self._running -= 1
