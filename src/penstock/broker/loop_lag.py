"""How long the event loop stood still: the longest turns, and how late timers were.

A turn lasts from when the selector has told what is ready until the loop asks it again; whatever comes in
meanwhile waits. On a loop made by `new_event_loop` every turn is measured, for a tenth of a microsecond. On
any other, as in a test that embeds a node, ten timers a second take samples, which see a tenth of what
happens or less.

Of a long turn it is told what it was spent on. The time for which the thread was ready to run and had no
processor, because others of the machine did, is counted in a turn like any other; but turns that are long for
no other reason are counted a second time, as it takes another processor to make them shorter.
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
TOLD_EVERY_S: Final = 60.0
"""On a machine with too few processors slow turns are many, and as good as one in a log."""
QUEUED_READ_NS: Final = 1_000_000
"""How old the figure of waiting for a processor may be when a turn begins: reading it takes two
microseconds."""

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


class SlowTurn(NamedTuple):
    """What a long turn was spent on, in nanoseconds."""

    turn_ns: int
    queued_ns: int
    """Ready to run, but without a processor; up to `QUEUED_READ_NS` of what came before is counted in."""
    garbage_ns: int
    work: str
    """The request that took longest, if one took long."""
    work_ns: int

    def __str__(self) -> str:
        parts = [f"{self.turn_ns / 1e6:.1f} ms"]
        if self.queued_ns > 0:
            parts.append(f"waited for a processor {self.queued_ns / 1e6:.1f} ms")
        if self.garbage_ns > 0:
            parts.append(f"collected garbage {self.garbage_ns / 1e6:.1f} ms")
        if self.work:
            parts.append(f"longest request {self.work} {self.work_ns / 1e6:.1f} ms")
        return ", ".join(parts)


class TurnSelector(selectors.EpollSelector):
    """A selector that measures the time between its calls, and keeps it short where very many are ready.

    It belongs to the thread that makes it.
    """

    _selector_cls = _FewAtOnce

    def __init__(self) -> None:
        super().__init__()
        self.turn_ns_max = 0
        self.slow_turns = 0
        self.queued_turns = 0
        """Those that would not have been slow, had the thread not waited for a processor."""
        self.worst: SlowTurn | None = None
        """Of the slow turns since this was last set to None."""
        self._queue = _RunQueue()
        self._queued_read_ns = 0
        self._garbage_began_ns = self._garbage_ns = 0
        self._work, self._work_ns = "", 0
        self._thread = threading.get_ident()
        gc.callbacks.append(self._on_garbage)
        self.began_ns = _now_ns()
        """When the turn under way began, by `time.perf_counter_ns`."""

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
        """A piece of this turn's work took that long: to be called where it is much."""
        if work_ns > self._work_ns:
            self._work, self._work_ns = work, work_ns

    def forget(self) -> None:
        """Begin anew: what a start does, nobody waits for."""
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
    """How long this thread has been ready to run without a processor, as the scheduler counts it."""

    def __init__(self) -> None:
        self._total_ns = 0
        self._fd = -1
        try:
            self._fd = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        except OSError:  # a kernel that doesn't count it
            return

    def read(self) -> int:
        """The nanoseconds since the last call; 0 where nobody counts them."""
        if self._fd < 0:
            return 0
        before_ns, self._total_ns = self._total_ns, int(os.pread(self._fd, 80, 0).split()[1])
        return self._total_ns - before_ns

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


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
        self._told_s = -TOLD_EVERY_S
        self._told_turns = 0
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

    @property
    def queued_turns(self) -> int:
        """Those of them that were slow for no other reason than that the processor had others to serve."""
        return 0 if self._turns is None else self._turns.queued_turns

    def took(self, work: str, work_ns: int) -> None:
        """A piece of the turn's work took long: name it if the turn is."""
        if self._turns is not None:
            self._turns.took(work, work_ns)

    def start(self) -> None:
        """Measure from the next turn on."""
        self._timer = self._loop.call_soon(self._begin)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def forget(self) -> None:
        """Nobody waited for what went before, this turn's work included."""
        if self._turns is not None:
            self._turns.forget()
        self._late_ms_max, self._slow_samples, self._told_turns = 0.0, 0, 0

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
            self._tell(self._turns, self._turns.worst)
        self._schedule()

    def _tell(self, turns: TurnSelector, worst: SlowTurn) -> None:
        now_s = self._loop.time()
        if now_s - self._told_s < TOLD_EVERY_S:
            return
        slow_turns = turns.slow_turns - self._told_turns
        log.info("the event loop stood still %d times, the longest: %s", slow_turns, worst)
        self._told_s, self._told_turns, turns.worst = now_s, turns.slow_turns, None
