"""Connects the worker that runs a clean with the event loop that owns the log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

from penstock.storage.compaction.cleanable import LogToClean
from penstock.storage.errors import CleaningAborted
from penstock.storage.segments.cleaned_segment import CleanedSegment
from penstock.storage.segments.segment import Segment

_ABORT_CHECK_S: Final = 0.1


class CleaningJob:
    """One running clean, and its `Surroundings`.

    It is created on the thread that owns the log; `run_on_owner` calls a function on that thread.
    """

    def __init__(self, found: LogToClean, run_on_owner: Callable[[Callable[[], None]], object]) -> None:
        self.found = found
        self._run_on_owner = run_on_owner
        self._owner = threading.get_ident()
        self._aborted = threading.Event()

    def abort(self) -> None:
        """Stop the clean: nothing more is installed, and the worker ends soon."""
        self._aborted.set()

    @property
    def is_aborted(self) -> bool:
        """Whether the clean was aborted, its log deleted, or its topic is no longer compacted."""
        log = self.found.log
        return self._aborted.is_set() or log.deleted or not log.config.compacts

    def check(self) -> None:
        if self.is_aborted:
            raise CleaningAborted(str(self.found.log.name))

    def pause(self, pause_s: float) -> None:
        self._aborted.wait(pause_s)

    def install(self, cleaned: CleanedSegment, replaced: Sequence[Segment]) -> None:
        """Wait until the owner has installed the segment, or the clean is aborted. Runs in the worker."""
        installing: Future[None] = Future()
        if threading.get_ident() == self._owner:  # a simulator runs everything on one thread
            self._install_now(installing, cleaned, replaced)
        else:
            self._run_on_owner(lambda: self._install_now(installing, cleaned, replaced))
        while not installing.done():
            try:
                installing.result(_ABORT_CHECK_S)
            except TimeoutError:
                if self.is_aborted and installing.cancel():
                    raise CleaningAborted(str(self.found.log.name)) from None
        installing.result()

    def _install_now(
        self, installing: Future[None], cleaned: CleanedSegment, replaced: Sequence[Segment]
    ) -> None:
        if not installing.set_running_or_notify_cancel():
            return
        try:
            self.check()
            self.found.log.replace_segments(replaced, cleaned)
        except BaseException as error:
            installing.set_exception(error)
        else:
            installing.set_result(None)
