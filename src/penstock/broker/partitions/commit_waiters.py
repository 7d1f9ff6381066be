"""Callbacks that wait until appended records of one partition are committed.

A record is committed once the high watermark has passed it; then no election takes it back. With one replica,
records are committed when the append returns, so no callback ever waits here.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Callable

from penstock.protocol.errors import ErrorCode

__all__ = ["CommitWaiters", "OnCommit"]

log = logging.getLogger(__name__)

OnCommit = Callable[[ErrorCode], None]
"""Called once: with NONE, or with the reason why the commit will never be known here."""


class CommitWaiters:
    """The callbacks of one partition, ordered by offset, and by arrival for the same offset.

    Callbacks run within `passed` and `failed`. They may append, wait again, or move other partitions' high
    watermarks. So the caller of these methods must have finished its own changes.
    """

    __slots__ = ("_sequence", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, OnCommit]] = []
        self._sequence = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, end_offset: int, then: OnCommit) -> None:
        """Call `then` once the high watermark is `end_offset` or more."""
        heapq.heappush(self._waiting, (end_offset, next(self._sequence), then))

    def passed(self, high_watermark: int) -> None:
        """Run the callbacks up to the new high watermark."""
        while self._waiting and self._waiting[0][0] <= high_watermark:
            self._call(heapq.heappop(self._waiting)[2], ErrorCode.NONE)

    def failed(self, error: ErrorCode) -> None:
        """Fail all callbacks, because another node leads or the log was removed."""
        waiting, self._waiting = sorted(self._waiting), []
        for _, _, then in waiting:
            self._call(then, error)

    def _call(self, then: OnCommit, error: ErrorCode) -> None:
        try:
            then(error)
        except Exception:  # the other callbacks must still run
            log.exception("commit callback failed error=%s", error.name)
