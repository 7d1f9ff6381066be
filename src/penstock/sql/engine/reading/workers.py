"""A few threads for many jobs that each do a little work at a time, in turn."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import Final

log = logging.getLogger(__name__)

_THREADS: Final = 2
"""One thread computes while the other waits for a broker. More would only contend for the interpreter."""


class Job(ABC):
    """A job in small steps. One thread at a time calls ``step``, and again after each `Workers.wake`."""

    def __init__(self) -> None:
        self.is_waiting = False
        self.is_stepping = False
        self.is_woken = False

    @abstractmethod
    def step(self) -> float | None:
        """Do a little work, and return when the next step is due.

        That is after so many seconds (0: at once), or, for None, at the next `Workers.wake`.
        """


class Workers:
    """The threads that run jobs. They start with the first call of `wake`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ready: deque[Job] = deque()
        self._later: list[tuple[float, int, Job]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def wake(self, job: Job) -> None:
        """Schedule the next step of a job that has work to do."""
        with self._changed:
            if job.is_stepping:
                job.is_woken = True
            elif not job.is_waiting:
                self._enqueue(job)
            if not self._threads and not self._is_closed:
                for number in range(_THREADS):
                    name = f"{self._name} {number}"
                    self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
                for thread in self._threads:
                    thread.start()

    def close(self) -> None:
        """Finish the steps that are running, and start no others."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _enqueue(self, job: Job) -> None:
        job.is_waiting = True
        self._ready.append(job)
        self._changed.notify()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                after_s = job.step()
            except Exception:
                log.exception("a job failed workers=%s", self._name)
                after_s = None
            with self._changed:
                job.is_stepping = False
                if job.is_woken or after_s == 0:
                    self._enqueue(job)
                elif after_s is not None:
                    heappush(self._later, (time.monotonic() + after_s, next(self._numbers), job))
                    self._changed.notify()

    def _next(self) -> Job | None:
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                while self._later and self._later[0][0] <= now:
                    job = heappop(self._later)[2]
                    if not job.is_waiting and not job.is_stepping:
                        self._enqueue(job)
                if self._ready:
                    job = self._ready.popleft()
                    job.is_waiting, job.is_stepping, job.is_woken = False, True, False
                    return job
                self._changed.wait(self._later[0][0] - now if self._later else None)
        return None
