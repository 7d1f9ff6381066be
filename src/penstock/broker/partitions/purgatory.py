"""The purgatory holds requests that wait: fetches for data, produce requests for their replicas.

A fetch that found less than `min_bytes` waits until its partitions have grown by the missing bytes, one of
them has changed otherwise, or `max_wait_ms` is over. Then all its partitions are read again.

Waiters that become ready are completed together, at the end of the connection's turn that woke them: a
producer's pipelined requests are appended in one turn, and the fetch returns them all.

Nearly every wait ends before its deadline. So deadlines are rounded to coarse ticks with a single timer for
the earliest, and a waiter leaves by its removal from a dictionary. A timer for each waiter would cost the
loop more than the fetch itself.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from typing import Protocol

TICK_S = 0.005
"""The maximum delay of a fetch's answer after its deadline; it is never answered before."""


class WaitList:
    """The fetches that wait for one partition to grow."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[DelayedFetch, None] = {}

    def grown(self, size_bytes: int) -> None:
        """Count this many newly readable bytes, and wake the fetches that have enough now."""
        for waiter in list(self.waiting):
            waiter.missing_bytes -= size_bytes
            if waiter.missing_bytes <= 0:
                waiter.ready()

    def changed(self) -> None:
        """Wake all fetches for another event that they must answer: a truncation, deletion or new epoch."""
        for waiter in list(self.waiting):
            waiter.ready()


class Waiter(Protocol):
    """A request that waits in the purgatory."""

    @property
    def tick(self) -> int:
        """The tick of its deadline, from `Purgatory.enter`."""

    def run(self) -> None:
        """Complete the request, because the awaited event has happened."""

    def expire(self) -> None:
        """Leave the purgatory and complete the request, because its time is over."""


class DelayedFetch:
    """One waiting fetch; `complete` is called once, from the loop."""

    __slots__ = ("_complete", "_lists", "_purgatory", "missing_bytes", "tick")

    def __init__(
        self,
        purgatory: Purgatory,
        lists: Iterable[WaitList],
        missing_bytes: int,
        max_wait_ms: int,
        complete: Callable[[], None],
    ) -> None:
        self._purgatory = purgatory
        self._lists = list(lists)
        self._complete: Callable[[], None] | None = complete
        self.missing_bytes = missing_bytes
        self.tick = purgatory.enter(self, max_wait_ms)
        for wait_list in self._lists:
            wait_list.waiting[self] = None

    def ready(self) -> None:
        self._leave()
        self._purgatory.schedule(self)

    def cancel(self) -> None:
        """Discard the fetch, because the client has disconnected."""
        self._leave()
        self._complete = None

    def run(self) -> None:
        complete, self._complete = self._complete, None
        if complete is not None:
            complete()

    def expire(self) -> None:
        """Answer with the data that there is, because the time is over."""
        self._leave()
        self.run()

    def _leave(self) -> None:
        if self._lists:
            self._purgatory.leave(self)
            for wait_list in self._lists:
                wait_list.waiting.pop(self, None)
            self._lists = []


class Purgatory:
    """All waiting requests of the node."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting = 0
        self.expired = 0
        self._ready: list[Waiter] = []
        self._completing = False
        self._due: dict[int, dict[Waiter, None]] = {}
        """Waiters by the tick of their deadline."""
        self._ticks: list[int] = []
        """A heap of the keys of `_due`."""
        self._timer: asyncio.TimerHandle | None = None
        self._armed_tick = 0

    def enter(self, waiter: Waiter, max_wait_ms: int) -> int:
        """Schedule the expiry of `waiter` and return its tick."""
        self.waiting += 1
        tick = int((self.loop.time() + max_wait_ms / 1000) / TICK_S) + 1
        due = self._due.get(tick)
        if due is None:
            due = self._due[tick] = {}
            heapq.heappush(self._ticks, tick)
        due[waiter] = None
        if self._timer is None or tick < self._armed_tick:
            self._arm(tick)
        return tick

    def leave(self, waiter: Waiter) -> None:
        self.waiting -= 1
        due = self._due.get(waiter.tick)
        if due is not None:  # else the waiters of this tick are being expired
            due.pop(waiter, None)

    def _arm(self, tick: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_tick = tick
        self._timer = self.loop.call_at(tick * TICK_S, self._on_tick)

    def _on_tick(self) -> None:
        """Expire the overdue waiters, then arm the timer for the next tick that has waiters."""
        self._timer = None
        now_tick = int(self.loop.time() / TICK_S + 1e-6)
        while self._ticks and (self._ticks[0] <= now_tick or not self._due[self._ticks[0]]):
            for waiter in self._due.pop(heapq.heappop(self._ticks)):
                self.expired += 1
                waiter.expire()
        if self._ticks and self._timer is None:
            self._arm(self._ticks[0])

    def schedule(self, waiter: Waiter) -> None:
        if not self._ready:
            self.loop.call_soon(self.complete_ready)  # for appends outside a connection's turn
        self._ready.append(waiter)

    def complete_ready(self) -> None:
        """Complete all ready waiters; an answer may let other requests proceed and wake more waiters."""
        if self._completing:
            return
        self._completing = True
        try:
            while self._ready:
                ready, self._ready = self._ready, []
                for waiter in ready:
                    waiter.run()
        finally:
            self._completing = False
