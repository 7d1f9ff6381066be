"""How long the event loop stood still: the longest turns, and how late timers were.

A turn lasts from when the selector has told what is ready until the loop asks it again; whatever comes in
meanwhile waits. On a loop made by `new_event_loop` every turn is measured, for a tenth of a microsecond. On
any other, as in a test that embeds a node, ten timers a second take samples, which see a tenth of what
happens or less.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import time

INTERVAL_S = 0.1
SLOW_MS = 10.0

READY_PER_TURN = 16
"""Sockets that are served before timers and others have their turn: a large request takes a third of a
millisecond. Those beyond stay in the kernel's line, which goes round."""

_now_ns = time.perf_counter_ns


class _FewAtOnce:
    """In place of `select.epoll`, which can't be subclassed; tells of at most READY_PER_TURN at once."""

    def __init__(self) -> None:
        epoll = select.epoll()
        self.register = epoll.register
        self.modify = epoll.modify
        self.unregister = epoll.unregister
        self.fileno = epoll.fileno
        self.close = epoll.close
        self._poll = epoll.poll

    def poll(self, timeout: float | None, maxevents: int) -> list[tuple[int, int]]:
        return self._poll(timeout, min(maxevents, READY_PER_TURN))


class TurnSelector(selectors.EpollSelector):
    """A selector that measures the time between its calls, and keeps it short where very many are ready."""

    _selector_cls = _FewAtOnce

    def __init__(self) -> None:
        super().__init__()
        self.turn_ns_max = 0
        self.slow_turns = 0
        self._slow_ns = int(SLOW_MS * 1e6)
        self.began_ns = _now_ns()
        """When the turn under way began, by `time.perf_counter_ns`."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        turn_ns = _now_ns() - self.began_ns
        if turn_ns > self.turn_ns_max:
            self.turn_ns_max = turn_ns
        if turn_ns > self._slow_ns:
            self.slow_turns += 1
        ready = super().select(timeout)
        self.began_ns = _now_ns()
        return ready

    def forget(self) -> None:
        """Begin anew: what a start does, nobody waits for."""
        self.turn_ns_max = self.slow_turns = 0
        self.began_ns = _now_ns()


class MeasuredEventLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, on a selector that measures its turns."""

    def __init__(self) -> None:
        self.turns = TurnSelector()
        super().__init__(self.turns)


def new_event_loop() -> MeasuredEventLoop:
    """A loop for a node, to be given to `asyncio.Runner`."""
    return MeasuredEventLoop()


class LoopLag:
    """Figures in milliseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turns = loop.turns if isinstance(loop, MeasuredEventLoop) else None
        self._due_s = 0.0
        self._timer: asyncio.Handle | None = None
        self._late_ms_max = 0.0
        self._slow_samples = 0
        self.last_ms = 0.0
        """How late the last timer was."""

    @property
    def max_ms(self) -> float:
        """The longest that anything had to wait for the loop, as far as it was measured."""
        if self._turns is not None:
            return self._turns.turn_ns_max / 1e6
        return self._late_ms_max

    @property
    def slow_turns(self) -> int:
        """How often it was beyond the 10 ms for which the loop may block."""
        return self._slow_samples if self._turns is None else self._turns.slow_turns

    def start(self) -> None:
        """Measure from the next turn on."""
        self._timer = self._loop.call_soon(self._begin)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        if self._turns is not None:
            self._turns.forget()
        self._late_ms_max, self._slow_samples = 0.0, 0
        self._schedule()

    def _schedule(self) -> None:
        self._due_s = self._loop.time() + INTERVAL_S
        self._timer = self._loop.call_at(self._due_s, self._sample)

    def _sample(self) -> None:
        self.last_ms = max(0.0, (self._loop.time() - self._due_s) * 1000)
        self._late_ms_max = max(self._late_ms_max, self.last_ms)
        if self.last_ms > SLOW_MS:
            self._slow_samples += 1
        self._schedule()
