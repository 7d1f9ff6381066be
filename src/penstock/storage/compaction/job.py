"""One clean under way: between the worker that does it and the event loop that owns its log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

from penstock.storage.compaction.cleanable import LogToClean
from penstock.storage.compaction.cleaned_segment import CleanedSegment
from penstock.storage.compaction.errors import CleaningAborted
from penstock.storage.segment import Segment

_ABORT_CHECK_S: Final = 0.1


class CleaningJob:
    """The `Surroundings` of a clean; made on the thread that owns the log, on which `run_on_owner` calls."""

    def __init__(self, found: LogToClean, run_on_owner: Callable[[Callable[[], None]], object]) -> None:
        self.found = found
        self._run_on_owner = run_on_owner
        self._owner = threading.get_ident()
        self._aborted = threading.Event()

    def abort(self) -> None:
        """From now on nothing is installed any more; the worker ends soon."""
        self._aborted.set()

    @property
    def is_aborted(self) -> bool:
        """Also where the log has been deleted, or its topic is no longer to be compacted."""
        log = self.found.log
        return self._aborted.is_set() or log.deleted or not log.config.compacts

    def check(self) -> None:
        if self.is_aborted:
            raise CleaningAborted(str(self.found.log.name))

    def pause(self, pause_s: float) -> None:
        self._aborted.wait(pause_s)

    def install(self, cleaned: CleanedSegment, replaced: Sequence[Segment]) -> None:
        """Called by the worker; waits until the owner has taken the segment in, or never will."""
        installing: Future[None] = Future()
        if threading.get_ident() == self._owner:  # where a simulator runs everything on one thread
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
