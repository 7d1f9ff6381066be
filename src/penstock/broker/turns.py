"""Long answers in many turns of the event loop.

A request of a megabyte may name hundreds of thousands of partitions. A handler that looks at each of them
says with a `yield` where it may be interrupted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Generator
from typing import Final, TypeAlias, TypeVar

__all__ = ["Steps", "in_turns"]

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

TURN_NS: Final = 2_000_000
"""How long one piece of work may take before others have their turn."""

_now_ns = time.perf_counter_ns


def in_turns(steps: Steps[T]) -> T | Awaitable[T]:
    """What the steps return: at once if they are done in one turn, else later. Raises what they raise."""
    try:
        _take_turn(steps)
    except StopIteration as done:
        result: T = done.value
        return result
    return _go_on(steps)


async def _go_on(steps: Steps[T]) -> T:
    while True:
        await asyncio.sleep(0)
        try:
            _take_turn(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def _take_turn(steps: Steps[T]) -> None:
    """Raises StopIteration with the result when that was the last turn."""
    deadline_ns = _now_ns() + TURN_NS
    while _now_ns() < deadline_ns:
        next(steps)
