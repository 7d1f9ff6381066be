"""The queue of a herder's requests, which its thread executes one by one, some of them after a delay."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from penstock.connect.errors import ConnectError

Result = TypeVar("Result")


@dataclass(frozen=True, order=True, slots=True)
class _Request:
    """An action in the order of its time and, at the same time, of its submission."""

    at_s: float
    number: int
    run: Callable[[], None]
    fail: Callable[[BaseException], None]


class RequestQueue:
    """Requests of all threads to the herder's thread.

    Args:
        wake: lets the herder's thread call `run_due` soon.
        clock_s: the current time in seconds.
    """

    def __init__(self, wake: Callable[[], None], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._wake = wake
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._waiting: list[_Request] = []
        self._numbers = itertools.count()
        self._is_closed = False

    def submit(self, action: Callable[[], Result], delay_s: float = 0.0) -> Future[Result]:
        """Let the herder's thread execute an action; the future gets its result, or the error it raises.

        A future that is cancelled before its time takes its action with it.
        """
        future: Future[Result] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(action())
                except Exception as error:
                    future.set_exception(error)

        def fail(error: BaseException) -> None:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

        with self._lock:
            request = _Request(self._clock_s() + delay_s, next(self._numbers), run, fail)
            if not self._is_closed:
                heapq.heappush(self._waiting, request)
            is_refused, is_first = self._is_closed, not self._is_closed and self._waiting[0] is request
        if is_refused:
            request.fail(_shutting_down())
        elif is_first:
            self._wake()
        return future

    def run_due(self) -> None:
        """Execute all requests whose time has come, those included that they submit."""
        while (request := self._next_due()) is not None:
            request.run()

    def patience_s(self) -> float | None:
        """Return the time until the next request is due; None if there is none."""
        with self._lock:
            return max(0.0, self._waiting[0].at_s - self._clock_s()) if self._waiting else None

    def close(self) -> None:
        """Fail the requests that wait, and all later ones."""
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = self._waiting, []
        for request in waiting:
            request.fail(_shutting_down())

    def _next_due(self) -> _Request | None:
        with self._lock:
            if self._waiting and self._waiting[0].at_s <= self._clock_s():
                return heapq.heappop(self._waiting)
        return None


def _shutting_down() -> ConnectError:
    return ConnectError("Worker is shutting down")
