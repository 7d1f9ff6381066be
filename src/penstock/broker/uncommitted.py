"""What a coordinator has appended and the followers do not have yet, and who waits for it.

Appends are committed in the order of the log, or never: when another node begins to lead, all that is left
here fails at once. A deadline ends the wait of a client, not that of the record.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.commit_waiters import OnCommit

__all__ = ["CommittingLog", "Hold", "Uncommitted"]

log = logging.getLogger(__name__)


class CommittingLog(Protocol):
    """A log whose high watermark can be waited for."""

    @property
    def high_watermark(self) -> int: ...
    def when_committed(self, end_offset: int, then: OnCommit) -> None: ...


class Hold(NamedTuple):
    """A record's claim on a key, such as a group, while it is not committed."""

    key: str
    blocks: bool
    """Whether nothing else of the key may be decided meanwhile."""


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
    """Appends of one partition, in the order of its log."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        partition_log: CommittingLog,
        timeout_ms: int,
        replayed: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        """`replayed` is called after appends have been replayed, `lost` once if they never can be."""
        self.held: Counter[str] = Counter()
        """Keys by how many appends hold them; those that none does are not in it."""
        self.blocked: Counter[str] = Counter()
        """Those of them of which nothing else may be decided."""
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
        """Whether nothing is waited for here any more."""

    def __len__(self) -> int:
        return len(self._appends)

    def is_committed(self, end_offset: int) -> bool:
        """Whether an append that ends there may be replayed at once: it is, and nothing goes before it."""
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
        """When all that is here by now is committed."""
        if not self._appends:
            return ErrorCode.NONE
        return self.add(self._appends[-1].end_offset, _nothing, ())

    def line_of(self, key: str) -> asyncio.Future[ErrorCode]:
        """Done when something of a key that is held has been committed."""
        place: asyncio.Future[ErrorCode] = self._loop.create_future()
        self._lines.setdefault(key, []).append(place)
        return place

    def abandon(self, error: ErrorCode) -> None:
        """None of these will be known to be committed here: all that wait are told."""
        self.is_abandoned = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        appends, self._appends = self._appends, deque()
        lines, self._lines = self._lines, {}
        self.held.clear()
        self.blocked.clear()
        for append in appends:
            _tell(append.outcome, error)
        for line in lines.values():
            for place in line:
                _tell(place, error)

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
        _tell(append.outcome, error)

    def _release(self, key: str, blocks: bool) -> None:
        _decrement(self.held, key)
        if blocks:
            _decrement(self.blocked, key)
        for place in self._lines.pop(key, ()):
            _tell(place, ErrorCode.NONE)

    def _expire(self) -> None:
        """Clients of overdue appends wait no longer. All have the same time: the oldest are overdue first."""
        self._timer = None
        now_s = self._loop.time()
        for append in self._appends:
            if append.deadline_s > now_s:
                self._timer = self._loop.call_at(append.deadline_s, self._expire)
                return
            _tell(append.outcome, ErrorCode.REQUEST_TIMED_OUT)


def _decrement(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def _tell(waiting: asyncio.Future[ErrorCode], error: ErrorCode) -> None:
    if not waiting.done():
        waiting.set_result(error)


def _nothing() -> None:
    pass
