"""Runs the blocking work of a log manager in its pool of threads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor

from penstock.storage.errors import LogError

log = logging.getLogger(__name__)


def threads(count: int) -> Executor:
    """Make a pool of `count` threads, at least one."""
    return ThreadPoolExecutor(max_workers=max(1, count), thread_name_prefix="log-manager")


class BackgroundWork:
    """The work of one manager in `executor`; a failure is logged."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._periodic: dict[str, Future[None]] = {}

    def run(self, work: Callable[[], None]) -> Future[None]:
        future = self._executor.submit(work)
        future.add_done_callback(_note_failure)
        return future

    def run_once(self, task: str, work: Callable[[], None]) -> None:
        """Run the work of a periodic task unless its last run is unfinished, because a disk may be slow."""
        running = self._periodic.get(task)
        if running is None or running.done():
            self._periodic[task] = self.run(work)


def _note_failure(future: Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()):
        is_bug = not isinstance(error, OSError | LogError)
        log.error("storage work failed error=%s", error, exc_info=error if is_bug else None)
