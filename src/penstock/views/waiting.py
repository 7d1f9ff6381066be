"""Waiting for changes that the follower makes, by futures that complete once a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock


class Waiting:
    """Conditions and the futures that wait for them. The code that changes a condition calls `check`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[tuple[Callable[[], bool], Future[None]]] = []
        self._error: BaseException | None = None

    def until(self, holds: Callable[[], bool]) -> Future[None]:
        """Return a future that completes when the condition holds. Cancel it to stop waiting."""
        future: Future[None] = Future()
        with self._lock:
            if self._error is not None:
                future.set_exception(self._error)
            elif holds():
                future.set_result(None)
            else:
                self._waiting.append((holds, future))
        return future

    def check(self) -> None:
        """Check all conditions after a change. A condition that raises passes its error to its future."""
        if not self._waiting:
            return
        done: list[tuple[Future[None], Exception | None]] = []
        with self._lock:
            waiting, self._waiting = self._waiting, []
            for holds, future in waiting:
                if future.cancelled():
                    continue
                try:
                    if holds():
                        done.append((future, None))
                    else:
                        self._waiting.append((holds, future))
                except Exception as error:
                    done.append((future, error))
        # Callbacks of the futures may wait for other conditions, so the lock is released first.
        for future, failure in done:
            if not future.set_running_or_notify_cancel():
                continue
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)

    def fail(self, error: BaseException) -> None:
        """Fail all futures, because nothing will change any more."""
        with self._lock:
            self._error = error
            waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
