"""Measure how long the event loop was blocked: the longest turns, and the delay of timers.

A turn lasts from the return of the selector until the loop calls it again; everything that arrives meanwhile
waits. A loop made by `new_event_loop` measures every turn, at a cost of 0.1 µs each. On any other loop, as
in a test that embeds a node, ten timers a second take samples, which see a tenth of the blocking or less.

The log says how a long turn spent its time. A turn includes the time for which the thread was ready to run
but other threads of the machine occupied the processors. Turns that are long for this reason alone are also
counted separately, as only another processor can shorten them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import select
import selectors
import threading
import time
from typing import Final, NamedTuple

log = logging.getLogger(__name__)

INTERVAL_S = 0.1
SLOW_MS: Final = 10.0
SLOW_NS: Final = 10_000_000
LOG_INTERVAL_S: Final = 60.0
"""The pause between log lines about slow turns: a machine with too few processors has many, all alike."""
QUEUED_READ_NS: Final = 1_000_000
"""The maximum age of the queueing time when a turn begins: it takes 2 µs to read, too long for every turn."""

READY_PER_TURN = 16
"""The sockets that one turn serves before timers and other tasks run: a large request takes a third of a
millisecond. The others stay in the kernel's ready list, which is served in rotation."""

_now_ns = time.perf_counter_ns


class _FewAtOnce:
    """A wrapper of `select.epoll`, which can't be subclassed; returns READY_PER_TURN sockets at most."""

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


class SlowTurn(NamedTuple):
    """The times that make up one long turn, in nanoseconds."""

    turn_ns: int
    queued_ns: int
    """The time ready to run without a processor; up to `QUEUED_READ_NS` of it may be from before the turn."""
    garbage_ns: int
    work: str
    """The request that took longest, if any took long."""
    work_ns: int

    def __str__(self) -> str:
        parts = [f"longest_ms={self.turn_ns / 1e6:.1f}"]
        if self.queued_ns > 0:
            parts.append(f"waited_for_processor_ms={self.queued_ns / 1e6:.1f}")
        if self.garbage_ns > 0:
            parts.append(f"collected_garbage_ms={self.garbage_ns / 1e6:.1f}")
        if self.work:
            parts.append(f"longest_request={self.work} request_ms={self.work_ns / 1e6:.1f}")
        return " ".join(parts)


class TurnSelector(selectors.EpollSelector):
    """A selector that measures the time between its calls, and limits it when very many sockets are ready.

    It belongs to the thread that creates it.
    """

    _selector_cls = _FewAtOnce

    def __init__(self) -> None:
        super().__init__()
        self.turn_ns_max = 0
        self.slow_turns = 0
        self.queued_turns = 0
        """The turns that were slow only because the thread waited for a processor."""
        self.worst: SlowTurn | None = None
        """The longest slow turn since this was last set to None."""
        self._queue = _RunQueue()
        self._queued_read_ns = 0
        self._garbage_began_ns = self._garbage_ns = 0
        self._work, self._work_ns = "", 0
        self._thread = threading.get_ident()
        gc.callbacks.append(self._on_garbage)
        self.began_ns = _now_ns()
        """The start of the current turn, by `time.perf_counter_ns`."""

    def close(self) -> None:
        gc.callbacks.remove(self._on_garbage)
        self._queue.close()
        super().close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        turn_ns = _now_ns() - self.began_ns
        if turn_ns > self.turn_ns_max:
            self.turn_ns_max = turn_ns
        if turn_ns > SLOW_NS:
            self._on_slow(turn_ns)
        ready = super().select(timeout)
        now_ns = self.began_ns = _now_ns()
        if now_ns - self._queued_read_ns > QUEUED_READ_NS:
            self._queued_read_ns = now_ns
            self._garbage_ns = self._work_ns = 0
            self._queue.read()
        return ready

    def took(self, work: str, work_ns: int) -> None:
        """Record how long a piece of this turn's work took; callers do so for long ones only."""
        if work_ns > self._work_ns:
            self._work, self._work_ns = work, work_ns

    def forget(self) -> None:
        """Reset the figures, for example after a start: no client waits for the work of a start."""
        self.turn_ns_max = self.slow_turns = self.queued_turns = 0
        self.worst = None
        self.began_ns = _now_ns()

    def _on_slow(self, turn_ns: int) -> None:
        self.slow_turns += 1
        queued_ns = min(self._queue.read(), turn_ns)
        if turn_ns - queued_ns <= SLOW_NS:
            self.queued_turns += 1
        if self.worst is None or turn_ns > self.worst.turn_ns:
            work = self._work if self._work_ns else ""
            self.worst = SlowTurn(turn_ns, queued_ns, self._garbage_ns, work, self._work_ns)

    def _on_garbage(self, phase: str, _info: dict[str, int]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._garbage_began_ns = _now_ns()
        else:
            self._garbage_ns += _now_ns() - self._garbage_began_ns


class _RunQueue:
    """The scheduler's count of the time that this thread was ready to run without a processor."""

    def __init__(self) -> None:
        self._total_ns = 0
        self._fd = -1
        try:
            self._fd = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        except OSError:  # this kernel doesn't count it
            return

    def read(self) -> int:
        """Return the nanoseconds since the last call; 0 if the kernel doesn't count them."""
        if self._fd < 0:
            return 0
        before_ns, self._total_ns = self._total_ns, int(os.pread(self._fd, 80, 0).split()[1])
        return self._total_ns - before_ns

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class MeasuredEventLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop with a selector that measures its turns."""

    def __init__(self) -> None:
        self.turns = TurnSelector()
        super().__init__(self.turns)


def new_event_loop() -> MeasuredEventLoop:
    """Return a measured loop for a node, for use as the `loop_factory` of `asyncio.Runner`."""
    return MeasuredEventLoop()


class LoopLag:
    """The lag of one event loop, in milliseconds, for metrics and the log."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turns = loop.turns if isinstance(loop, MeasuredEventLoop) else None
        self._due_s = 0.0
        self._timer: asyncio.Handle | None = None
        self._late_ms_max = 0.0
        self._slow_samples = 0
        self._logged_s = -LOG_INTERVAL_S
        self._logged_turns = 0
        self.last_ms = 0.0
        """The delay of the last timer."""

    @property
    def max_ms(self) -> float:
        """The longest time that the loop was blocked, as far as it was measured."""
        if self._turns is not None:
            return self._turns.turn_ns_max / 1e6
        return self._late_ms_max

    @property
    def slow_turns(self) -> int:
        """The number of turns, or samples, above the 10 ms for which the loop may block."""
        return self._slow_samples if self._turns is None else self._turns.slow_turns

    @property
    def queued_turns(self) -> int:
        """The slow turns that were slow only because the thread waited for a processor."""
        return 0 if self._turns is None else self._turns.queued_turns

    def took(self, work: str, work_ns: int) -> None:
        """Record a long piece of the turn's work, to be named if the whole turn is slow."""
        if self._turns is not None:
            self._turns.took(work, work_ns)

    def start(self) -> None:
        """Start to measure with the next turn."""
        self._timer = self._loop.call_soon(self._begin)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def forget(self) -> None:
        """Reset the figures: no client waited for the work so far, including that of this turn."""
        if self._turns is not None:
            self._turns.forget()
        self._late_ms_max, self._slow_samples, self._logged_turns = 0.0, 0, 0

    def _begin(self) -> None:
        self.forget()
        self._schedule()

    def _schedule(self) -> None:
        self._due_s = self._loop.time() + INTERVAL_S
        self._timer = self._loop.call_at(self._due_s, self._sample)

    def _sample(self) -> None:
        self.last_ms = max(0.0, (self._loop.time() - self._due_s) * 1000)
        self._late_ms_max = max(self._late_ms_max, self.last_ms)
        if self.last_ms > SLOW_MS:
            self._slow_samples += 1
        if self._turns is not None and self._turns.worst is not None:
            self._log(self._turns, self._turns.worst)
        self._schedule()

    def _log(self, turns: TurnSelector, worst: SlowTurn) -> None:
        now_s = self._loop.time()
        if now_s - self._logged_s < LOG_INTERVAL_S:
            return
        slow_turns = turns.slow_turns - self._logged_turns
        log.info("event loop blocked turns=%d %s", slow_turns, worst)
        self._logged_s, self._logged_turns, turns.worst = now_s, turns.slow_turns, None
