"""Those who wait until what they appended to one partition is committed.

A record is committed once the high watermark has passed it: then no election takes it back. With one replica
that is so when the append returns, and nobody ever waits here.
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
"""Called once: with NONE, or why it will never be known here."""


class CommitWaiters:
    """By the offset that the high watermark has to reach; those of one offset in the order they came.

    Callbacks run within `passed` and `failed`. They may append, wait again, or move other partitions' high
    watermarks: whoever calls these has finished his own changes.
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
        """The high watermark has moved here."""
        while self._waiting and self._waiting[0][0] <= high_watermark:
            self._tell(heapq.heappop(self._waiting)[2], ErrorCode.NONE)

    def failed(self, error: ErrorCode) -> None:
        """Nobody learns here any more what becomes of it: another node leads, or the log is gone."""
        waiting, self._waiting = sorted(self._waiting), []
        for _, _, then in waiting:
            self._tell(then, error)

    def _tell(self, then: OnCommit, error: ErrorCode) -> None:
        try:
            then(error)
        except Exception:  # the others must not wait for ever
            log.exception("cannot go on after a commit error=%s", error.name)
