"""The time of a turn of the event loop, and who has to wait for the next.

A turn is over after `TURN_NS_MAX`. Connections that come later wait in line, and so does work that takes
long: a request of a megabyte may name hundreds of thousands of partitions. Whoever looks at each of them says
with a `yield` where that may be interrupted.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, ref

from penstock.broker.loop_lag import MeasuredEventLoop

__all__ = ["Line", "Steps", "in_turns", "line_of", "next_turn"]

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

TURN_NS_MAX: Final = 4_000_000
PIECE_NS: Final = 2_000_000
"""How long one piece of work may take before others have their turn."""

_now_ns = time.perf_counter_ns


class Line:
    """Those who wait for the next turn of one loop; first come, first served."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._turns = loop.turns if isinstance(loop, MeasuredEventLoop) else None
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def deadline_ns(self) -> int:
        """Until when work may begin in this turn; then others have theirs."""
        return (_now_ns() if self._turns is None else self._turns.began_ns) + TURN_NS_MAX

    def wait(self, callback: Callable[[], None]) -> None:
        """Call back in the next turn, or if those that came before fill it, in the one after."""
        self._waiting.append(callback)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        loop = self._loop()
        assert loop is not None, "who waits belongs to the loop"
        self._is_scheduled = True
        loop.call_soon(self._serve)

    def _serve(self) -> None:
        waiting, deadline_ns = self._waiting, self.deadline_ns()
        try:
            for _ in range(len(waiting)):  # before who comes again meanwhile, sockets are asked
                waiting.popleft()()
                if _now_ns() > deadline_ns:
                    break
        finally:
            self._is_scheduled = False
            if waiting:
                self._schedule()


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()


def line_of(loop: asyncio.AbstractEventLoop) -> Line:
    """The one line of a loop."""
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = Line(loop)
    return line


def in_turns(steps: Steps[T]) -> T | Awaitable[T]:
    """What the steps return: at once if they are done in one piece, else later. Raises what they raise."""
    try:
        _take_piece(steps)
    except StopIteration as done:
        result: T = done.value
        return result
    loop = asyncio.get_running_loop()
    line = line_of(loop)
    finished: asyncio.Future[T] = loop.create_future()

    def go_on() -> None:
        if finished.cancelled():
            steps.close()
            return
        try:
            _take_piece(steps)
        except StopIteration as done:
            finished.set_result(done.value)
        except BaseException as error:
            finished.set_exception(error)
        else:
            line.wait(go_on)

    line.wait(go_on)
    return finished


async def next_turn() -> None:
    """Let others have theirs first."""
    loop = asyncio.get_running_loop()
    come: asyncio.Future[None] = loop.create_future()
    line_of(loop).wait(lambda: None if come.done() else come.set_result(None))
    await come


def _take_piece(steps: Steps[T]) -> None:
    """Raises StopIteration with the result when that was the last piece."""
    deadline_ns = _now_ns() + PIECE_NS
    next(steps)
    while _now_ns() < deadline_ns:
        next(steps)
