"""Fetches that wait for data.

A fetch that found less than `min_bytes` waits until the partitions it asked for have grown by what was
missing, one of them has news of another kind, or `max_wait_ms` is over. Then it is read again, whole.

Waiters that became ready are completed together at the end of the connection's turn that woke them: a
producer's pipelined requests are appended in one turn, and the fetch takes them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable


class WaitList:
    """Those who wait for one partition to grow."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[DelayedFetch, None] = {}

    def grown(self, size_bytes: int) -> None:
        """That many bytes became readable."""
        for waiter in list(self.waiting):
            waiter.missing_bytes -= size_bytes
            if waiter.missing_bytes <= 0:
                waiter.ready()

    def changed(self) -> None:
        """Something else happened that a waiting fetch must answer: truncation, deletion, a new epoch."""
        for waiter in list(self.waiting):
            waiter.ready()


class DelayedFetch:
    """One waiting fetch; `complete` is called once, from the loop."""

    __slots__ = ("_complete", "_lists", "_purgatory", "_timer", "missing_bytes")

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
        self._timer = purgatory.loop.call_later(max_wait_ms / 1000, self._expired)
        purgatory.waiting += 1
        for wait_list in self._lists:
            wait_list.waiting[self] = None

    def ready(self) -> None:
        self._leave()
        self._purgatory.schedule(self)

    def cancel(self) -> None:
        """Forget it: the client is gone."""
        self._leave()
        self._complete = None

    def run(self) -> None:
        complete, self._complete = self._complete, None
        if complete is not None:
            complete()

    def _expired(self) -> None:
        self._purgatory.expired += 1
        self._leave()
        self.run()

    def _leave(self) -> None:
        if self._lists:
            self._timer.cancel()
            self._purgatory.waiting -= 1
            for wait_list in self._lists:
                wait_list.waiting.pop(self, None)
            self._lists = []


class Purgatory:
    """All waiting fetches of the node."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting = 0
        self.expired = 0
        self._ready: list[DelayedFetch] = []
        self._completing = False

    def schedule(self, waiter: DelayedFetch) -> None:
        if not self._ready:
            self.loop.call_soon(self.complete_ready)  # for appends outside of any connection's turn
        self._ready.append(waiter)

    def complete_ready(self) -> None:
        """Answer all who are ready; answering may let others' requests proceed and wake more."""
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
