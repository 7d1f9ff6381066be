"""Limit the work in one turn of the event loop, and queue the rest for the next turns.

A turn accepts new work for `TURN_NS_MAX`. Connections that become ready later wait in line, and so does work
that takes long: a request of 1 MB may name hundreds of thousands of partitions. A handler that processes each
of them is a generator, and each `yield` marks a place where it may be interrupted.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, ref

from penstock.broker.network.answers import Answer
from penstock.broker.network.loop_lag import MeasuredEventLoop

__all__ = ["Line", "Steps", "in_turns", "line_of", "next_turn"]

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

TURN_NS_MAX: Final = 4_000_000
PIECE_NS: Final = 2_000_000
"""The time limit of one piece of long work, after which other work gets its turn."""

_now_ns = time.perf_counter_ns


class Line:
    """The callbacks that wait for the next turn of one loop, in the order of their arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._turns = loop.turns if isinstance(loop, MeasuredEventLoop) else None
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def deadline_ns(self) -> int:
        """Return the time until which work may begin in this turn."""
        return (_now_ns() if self._turns is None else self._turns.began_ns) + TURN_NS_MAX

    def wait(self, callback: Callable[[], None]) -> None:
        """Call back in the next turn, or in a later one if earlier callbacks fill it."""
        self._waiting.append(callback)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        loop = self._loop()
        assert loop is not None, "callbacks wait only while their loop exists"
        self._is_scheduled = True
        loop.call_soon(self._serve)

    def _serve(self) -> None:
        waiting, deadline_ns = self._waiting, self.deadline_ns()
        try:
            for _ in range(len(waiting)):  # callbacks added meanwhile wait until the loop has polled sockets
                waiting.popleft()()
                if _now_ns() > deadline_ns:
                    break
        finally:
            self._is_scheduled = False
            if waiting:
                self._schedule()


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()


def line_of(loop: asyncio.AbstractEventLoop) -> Line:
    """Return the line of a loop; each loop has one."""
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = Line(loop)
    return line


def in_turns(steps: Steps[T]) -> Answer[T]:
    """Run the steps and answer with their result: at once if one piece is enough, else later.

    Raises the exceptions of the first piece; later ones fail the answer.
    """
    try:
        _take_piece(steps)
    except StopIteration as done:
        return Answer.of(done.value)
    line = line_of(asyncio.get_running_loop())
    abandoned: list[None] = []
    answer: Answer[T] = Answer.later(blocks=True, on_abandon=lambda: abandoned.append(None))

    def go_on() -> None:
        if abandoned:
            steps.close()
            return
        try:
            _take_piece(steps)
        except StopIteration as done:
            answer.complete(done.value)
        except BaseException as error:
            answer.fail(error)
        else:
            line.wait(go_on)

    line.wait(go_on)
    return answer


async def next_turn() -> None:
    """Wait for the next turn, so that other work runs first."""
    loop = asyncio.get_running_loop()
    come: asyncio.Future[None] = loop.create_future()
    line_of(loop).wait(lambda: None if come.done() else come.set_result(None))
    await come


def _take_piece(steps: Steps[T]) -> None:
    """Run one piece of the steps. Raises StopIteration with the result after the last one."""
    deadline_ns = _now_ns() + PIECE_NS
    next(steps)
    while _now_ns() < deadline_ns:
        next(steps)
