"""Feed the state machine of `consensus` one event at a time, and carry out its effects.

Events that happen meanwhile are queued: an effect may have to wait for the disk, and until it is done no
other event is fed in. A leader's own appends are the exception: they are flushed concurrently, and one flush
covers all that have accumulated.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, ParamSpec, TypeAlias, TypeVar

from penstock.consensus.effects import (
    BeginEpoch,
    Effect,
    Flush,
    InstallSnapshot,
    Persist,
    Reply,
    Send,
    Truncate,
)
from penstock.consensus.errors import CommittedRecordsLost
from penstock.consensus.leader import Leader
from penstock.consensus.messages import Request, Response
from penstock.consensus.raft import Raft
from penstock.protocol.batch import CorruptBatch
from penstock.storage.errors import LogError

if TYPE_CHECKING:
    from penstock.broker.quorum.metadata_log import MetadataLog
    from penstock.broker.quorum.senders import Senders
    from penstock.broker.setup.host import NodeHost

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

Event: TypeAlias = Callable[[int], None]
"""An event to feed to the state machine, called with the time in ms."""

_WORKERS: Final = 2
"""One worker for the effects that the state machine waits for, one for a leader's flushes. The quorum has its
own workers so that it loses no election because the node's workers are busy."""

_FATAL: Final = (LogError, OSError, CommittedRecordsLost, CorruptBatch)


class QuorumStopped(Exception):
    """This node does not take part in the quorum any more; the message gives the reason."""


class Driver:
    """The driver of one `Raft`.

    Args:
        settled: called when all queued events have been handled, in the same turn.
        failed: called once, when an error of the disk or of the log's content makes it impossible to
            continue.
    """

    def __init__(
        self,
        host: NodeHost,
        raft: Raft,
        metadata_log: MetadataLog,
        senders: Senders,
        settled: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.raft = raft
        self._host = host
        self._log = metadata_log
        self._senders = senders
        self._settled = settled
        self._failed = failed
        self._inbox: deque[Event] = deque()
        self._effects: deque[Effect] = deque()
        self._is_busy = False
        self._blocking: asyncio.Future[object] | None = None
        self._flusher: asyncio.Task[None] | None = None
        self._flushed = (-1, -1)
        """The epoch and end offset of the newest flush as the leader."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = inf
        self._replies: dict[int, asyncio.Future[Response]] = {}
        self._token = 0
        self._stopped: str | None = None
        self._workers = host.environment.workers(_WORKERS, "quorum")

    def _in_worker(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        return self._host.loop.run_in_executor(self._workers, partial(function, *args, **kwargs))

    @property
    def is_stopped(self) -> bool:
        return self._stopped is not None

    # Events

    def feed(self, event: Event) -> None:
        """Feed an event to the state machine, now or when the events before it are handled."""
        if self._stopped is not None:
            return
        self._inbox.append(event)
        if not self._is_busy:
            self._work()

    async def ask(self, request: Request) -> Response:
        """Return the state machine's answer to a request, which may take time. Raises QuorumStopped."""
        if self._stopped is not None:
            raise QuorumStopped(self._stopped)
        self._token += 1
        token = self._token
        answer: asyncio.Future[Response] = self._host.loop.create_future()
        self._replies[token] = answer
        self.feed(lambda now_ms: self.raft.receive(token, request, now_ms))
        try:
            return await answer
        finally:
            self._replies.pop(token, None)

    def _now_ms(self) -> int:
        """The time of a monotonic clock, for timeouts."""
        return int(self._host.loop.time() * 1000)

    # Work

    def _work(self) -> None:
        """Work until there is nothing to do or an effect blocks.

        Events that listeners feed in while they are notified are handled after all listeners are notified.
        """
        self._is_busy = True
        try:
            while self._stopped is None:
                if not self._advance():
                    return
                self._flush_appended()
                self._settled()
                if not self._inbox:
                    break
        except _FATAL as error:
            self._fail(error)
        except BaseException:
            self._is_busy = False
            raise
        self._is_busy = False

    def _advance(self) -> bool:
        """Handle all queued events and effects; return False if an effect blocks."""
        while True:
            if self._effects:
                effect = self._effects.popleft()
                blocking = self._carry_out(effect)
                if blocking is not None:
                    self._blocking = blocking
                    blocking.add_done_callback(partial(self._resume, effect))
                    return False
            elif self._inbox:
                self._inbox.popleft()(self._now_ms())
                self._effects.extend(self.raft.take_effects())
            else:
                self._wake_at(self.raft.poll(self._now_ms()))
                self._effects.extend(self.raft.take_effects())
                if not self._effects:
                    return True

    def _carry_out(self, effect: Effect) -> asyncio.Future[object] | None:
        """Carry out an effect, or start it in a worker if it blocks."""
        in_worker = self._in_worker
        match effect:
            case Send():
                self._send(effect)
            case Reply(token, response):
                answer = self._replies.pop(token, None)
                if answer is not None and not answer.done():
                    answer.set_result(response)
            case BeginEpoch():
                log.info("metadata quorum leader epoch=%d", effect.epoch)
                self.raft.begin_epoch(self._now_ms())
                self._effects.extend(self.raft.take_effects())
            case Persist(election):
                return _any(in_worker(self._log.write_election, election))
            case Flush():
                return _any(in_worker(self._log.flush))
            case Truncate(offset):
                return _any(in_worker(self._log.truncate_to, offset))
            case InstallSnapshot():
                return _any(in_worker(self._log.install_snapshot))
        return None

    def _resume(self, effect: Effect, blocking: asyncio.Future[object]) -> None:
        """Continue after a blocking effect is done."""
        self._blocking = None
        if self._stopped is not None or blocking.cancelled():
            return
        error = blocking.exception()
        if error is not None:
            self._fail(error)
            return
        if isinstance(effect, InstallSnapshot) and blocking.result():
            self.raft.snapshot_installed()
        self._work()

    def _fail(self, error: BaseException) -> None:
        self.stop(f"the metadata log cannot be written: {error}")
        if not isinstance(error, _FATAL):
            log.error("metadata quorum failed", exc_info=error)
        self._failed(error if isinstance(error, Exception) else RuntimeError(str(error)))

    # Requests and timers

    def _send(self, send: Send) -> None:
        def answered(response: Response | None) -> None:
            self.feed(
                lambda now_ms: self.raft.receive_response(send.to, send.correlation_id, response, now_ms)
            )

        self._senders.send(send.to, send.request, answered)

    def _wake_at(self, at_ms: float) -> None:
        """Poll again at the given time, unless another event happens before."""
        if at_ms == self._timer_at_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at_ms = at_ms
        if at_ms < inf:
            self._timer = self._host.loop.call_at(at_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._timer, self._timer_at_ms = None, inf
        self.feed(_nothing)

    # A leader's appends

    @property
    def can_append(self) -> bool:
        """Whether this node leads, and its epoch has begun in the log."""
        role = self.raft.role
        return self._stopped is None and isinstance(role, Leader) and role.has_begun

    def appended(self) -> None:
        """Take note that the leader's log has grown."""
        self.feed(self.raft.appended)

    @property
    def _is_unflushed(self) -> bool:
        """Whether records must be flushed.

        A flush in an earlier epoch does not count, because the log may have been truncated since.
        """
        return self._flushed < (self.raft.epoch, self._log.end_offset)

    def _flush_appended(self) -> None:
        if self.can_append and self._is_unflushed and (self._flusher is None or self._flusher.done()):
            self._flusher = self._host.loop.create_task(self._flush())

    async def _flush(self) -> None:
        """Flush until all records are durable; each flush covers those appended before it began."""
        while self.can_append and self._is_unflushed:
            epoch = self.raft.epoch
            try:
                end_offset = await self._in_worker(self._log.flush)
            except _FATAL as error:
                self._fail(error)
                return
            if self.can_append and self.raft.epoch == epoch:  # else they may be truncated by now
                self._flushed = (epoch, end_offset)
                self.feed(partial(self.raft.flushed, end_offset))

    # Stopping

    async def finish(self) -> None:
        """Wait until the appended records are durable and no effect is running."""
        if self._flusher is not None:
            await self._flusher
        if self._blocking is not None:
            await asyncio.wait((self._blocking,))

    def stop(self, reason: str) -> None:
        """Stop taking part, and fail the requests that wait for an answer."""
        if self._stopped is not None:
            return
        self._stopped = reason
        self._workers.shutdown(wait=False)
        self._inbox.clear()
        self._effects.clear()
        if self._timer is not None:
            self._timer.cancel()
        for answer in self._replies.values():
            if not answer.done():
                answer.set_exception(QuorumStopped(reason))
        self._replies.clear()


def _nothing(now_ms: int) -> None:
    """Do nothing: the event only makes the driver poll the state machine."""


def _any(future: asyncio.Future[object]) -> asyncio.Future[object]:
    return future
