"""The appends of a coordinator that the followers do not have yet, and the requests that wait for them.

Appends are committed in the order of the log, or never: when another node becomes the leader, all remaining
appends fail at once. A deadline ends the wait of a client, not that of the record.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.partitions.commit_waiters import OnCommit

__all__ = ["CommittingLog", "Hold", "Uncommitted"]

log = logging.getLogger(__name__)


class CommittingLog(Protocol):
    """A log that calls back when its high watermark reaches an offset."""

    @property
    def high_watermark(self) -> int: ...
    def when_committed(self, end_offset: int, then: OnCommit) -> None: ...


class Hold(NamedTuple):
    """A record's claim on a key, such as a group, while it is not committed."""

    key: str
    blocks: bool
    """Whether nothing else may be decided for the key meanwhile."""


class _Append:
    __slots__ = ("deadline_s", "end_offset", "holds", "outcome", "replay")

    def __init__(
        self,
        end_offset: int,
        replay: Callable[[], None],
        holds: tuple[Hold, ...],
        outcome: asyncio.Future[ErrorCode],
        deadline_s: float,
    ) -> None:
        self.end_offset = end_offset
        self.replay = replay
        self.holds = holds
        self.outcome = outcome
        self.deadline_s = deadline_s


class Uncommitted:
    """The uncommitted appends of one partition, in the order of its log."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        partition_log: CommittingLog,
        timeout_ms: int,
        replayed: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        """Create it empty.

        `replayed` is called after an append has been replayed, `lost` once if appends never can be.
        """
        self.held: Counter[str] = Counter()
        """The number of appends that hold each key; a key that none holds is absent."""
        self.blocked: Counter[str] = Counter()
        """The number of appends that block each key, so that nothing else may be decided for it."""
        self._loop = loop
        self._log = partition_log
        self._timeout_s = timeout_ms / 1000
        self._replayed = replayed
        self._lost = lost
        self._appends: deque[_Append] = deque()
        self._lines: dict[str, list[asyncio.Future[ErrorCode]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_replaying = False
        self.is_abandoned = False
        """Whether `abandon` was called; a later append fails at once."""

    def __len__(self) -> int:
        return len(self._appends)

    def is_committed(self, end_offset: int) -> bool:
        """Whether an append that ends there may be replayed now: it is committed, and no other is pending."""
        return not self._appends and self._log.high_watermark >= end_offset

    def add(
        self, end_offset: int, replay: Callable[[], None], holds: Iterable[Hold]
    ) -> asyncio.Future[ErrorCode]:
        """Have `replay` called once the append that ends at `end_offset` is committed."""
        outcome: asyncio.Future[ErrorCode] = self._loop.create_future()
        if self.is_abandoned:
            outcome.set_result(ErrorCode.NOT_COORDINATOR)
            return outcome
        deadline_s = self._loop.time() + self._timeout_s
        append = _Append(end_offset, replay, tuple(dict.fromkeys(holds)), outcome, deadline_s)
        for key, blocks in append.holds:
            self.held[key] += 1
            if blocks:
                self.blocked[key] += 1
        self._appends.append(append)
        if self._timer is None:
            self._timer = self._loop.call_at(deadline_s, self._expire)
        if len(self._appends) == 1 and not self._is_replaying:
            self._log.when_committed(end_offset, self._on_commit)
        return outcome

    def settled(self) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Return NONE if nothing is uncommitted, else a future that is done once all current appends are."""
        if not self._appends:
            return ErrorCode.NONE
        return self.add(self._appends[-1].end_offset, _nothing, ())

    def line_of(self, key: str) -> asyncio.Future[ErrorCode]:
        """Return a future that is done once an append that holds this key is committed."""
        place: asyncio.Future[ErrorCode] = self._loop.create_future()
        self._lines.setdefault(key, []).append(place)
        return place

    def abandon(self, error: ErrorCode) -> None:
        """Fail all waiting requests, as this node cannot learn whether the appends are committed."""
        self.is_abandoned = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        appends, self._appends = self._appends, deque()
        lines, self._lines = self._lines, {}
        self.held.clear()
        self.blocked.clear()
        for append in appends:
            _resolve(append.outcome, error)
        for line in lines.values():
            for place in line:
                _resolve(place, error)

    def _on_commit(self, error: ErrorCode) -> None:
        if self.is_abandoned:
            return
        if error is not ErrorCode.NONE:
            log.info("appends lost count=%d error=%s", len(self._appends), error.name)
            self._lost()
            return
        self._is_replaying = True  # replaying may append more, which may be committed at once
        try:
            while self._appends and self._appends[0].end_offset <= self._log.high_watermark:
                self._take(self._appends.popleft())
        finally:
            self._is_replaying = False
        if self._appends:
            self._log.when_committed(self._appends[0].end_offset, self._on_commit)

    def _take(self, append: _Append) -> None:
        error = ErrorCode.NONE
        try:
            append.replay()
        except Exception:
            log.exception("cannot replay a committed record end_offset=%d", append.end_offset)
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        for key, blocks in append.holds:
            self._release(key, blocks)
        self._replayed()
        _resolve(append.outcome, error)

    def _release(self, key: str, blocks: bool) -> None:
        _decrement(self.held, key)
        if blocks:
            _decrement(self.blocked, key)
        for place in self._lines.pop(key, ()):
            _resolve(place, ErrorCode.NONE)

    def _expire(self) -> None:
        """Time out the requests of overdue appends. All have the same timeout, so the oldest expire first."""
        self._timer = None
        now_s = self._loop.time()
        for append in self._appends:
            if append.deadline_s > now_s:
                self._timer = self._loop.call_at(append.deadline_s, self._expire)
                return
            _resolve(append.outcome, ErrorCode.REQUEST_TIMED_OUT)


def _decrement(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def _resolve(waiting: asyncio.Future[ErrorCode], error: ErrorCode) -> None:
    if not waiting.done():
        waiting.set_result(error)


def _nothing() -> None:
    pass
