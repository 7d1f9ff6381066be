"""Simulated worker threads: a piece of work happens all at once, some time after it was submitted."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from penstock.testing.simulator.loop import VirtualLoop

P = ParamSpec("P")
T = TypeVar("T")


class _Waited(Future[T]):
    """A future whose work runs at once when code blocks on its result, as a thread may."""

    run: Callable[[], None]

    def result(self, timeout: float | None = None) -> T:
        if not self.done():
            self.run()
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.done():
            self.run()
        return super().exception(0)


class VirtualExecutor(Executor):
    """An executor of ``count`` threads; `duration_s` returns how long the next piece of work takes."""

    def __init__(self, loop: VirtualLoop, count: int, duration_s: Callable[[], float]) -> None:
        self._loop = loop
        self._duration_s = duration_s
        self._free_at_s = [0.0] * max(1, count)
        self._waiting: deque[_Waited[Any]] = deque()

    def schedule(self, work: Callable[[], None]) -> asyncio.TimerHandle:
        """Run the work at the time when a thread would have finished it."""
        loop = self._loop
        begin_s = max(heapq.heappop(self._free_at_s), loop.now_s)
        end_s = begin_s + self._duration_s()
        heapq.heappush(self._free_at_s, end_s)
        return loop.at(end_s, work, machine=loop.current)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: _Waited[T] = _Waited()

        def run() -> None:
            if future.done() or not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        future.run = run
        self._waiting.append(future)
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        self.schedule(run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            if cancel_futures:
                future.cancel()
            elif wait and not future.done():
                future.run()
