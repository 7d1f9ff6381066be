"""Run the controller: append the records of its decisions and answer requests once they are committed.

`metadata.controller` decides. Decisions are made on a separate image that has every appended record; the
node's image (`metadata_follower`) has the committed records, and applies them first. Only the leader of the
metadata quorum decides. When this node becomes the leader, the image is at the log's end, and state that is
not in the log (heartbeats, sessions) starts afresh. When it loses the leadership, pending requests fail with
NOT_CONTROLLER, and their senders ask the new leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from penstock.broker.control.broker_watch import BrokerWatch
from penstock.broker.control.controller_tasks import ControllerTasks
from penstock.metadata.controller.activation import activation_records
from penstock.metadata.controller.heartbeats import BrokerHeartbeats
from penstock.metadata.controller.state import ControllerState, Decision, Refusal
from penstock.protocol.api_keys import TARGET_METADATA_LEVEL
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import Message

if TYPE_CHECKING:
    from penstock.broker.control.host import ControlHost
    from penstock.broker.control.metadata_follower import MetadataFollower

log = logging.getLogger(__name__)

R = TypeVar("R")

RECORDS_PER_BATCH: Final = 10_000
"""A decision with more records is split into several batches, unless it must be atomic."""


class MetadataQuorum(Protocol):
    """The parts of `broker.quorum.Quorum` that the controller needs."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def voter_ids(self) -> frozenset[int]: ...

    @property
    def kraft_version(self) -> int: ...

    async def bootstrap_records(self) -> list[Message]: ...

    def append(self, records: Sequence[Message], metadata_version: int) -> int: ...

    def resign(self, epoch: int, reason: str) -> None: ...

    def upgrade_kraft_version(self, kraft_version: int, *, validate_only: bool) -> None: ...


@dataclass(slots=True)
class _Pending:
    """Records that are appended but not committed yet."""

    end_offset: int
    done: asyncio.Future[None]


class Controller:
    """The controller of this node, a `QuorumWatcher`, active while the node leads the metadata quorum."""

    def __init__(self, host: ControlHost, quorum: MetadataQuorum, metadata: MetadataFollower) -> None:
        self._host = host
        self._quorum = quorum
        self._metadata = metadata
        self._state: ControllerState | None = None
        self._epoch = -1
        """The epoch in which this node leads; -1 if it does not."""
        self._activating: asyncio.Task[None] | None = None
        self._pending: deque[_Pending] = deque()
        self._failure: str | None = None
        self._bootstrap: list[Message] = []
        self._tasks = ControllerTasks(host, self)
        self._watch = BrokerWatch(host, self)
        metadata.watch(self)

    async def open(self) -> None:
        """Read the records that a new cluster begins with, if the metadata log is empty.

        Called before the node takes part in the quorum. Raises LogDirectoryError, OSError.
        """
        if self._quorum.log_end_offset == 0:
            self._bootstrap = await self._quorum.bootstrap_records()
        self._watch.start()

    @property
    def is_active(self) -> bool:
        return self._state is not None

    @property
    def now_ms(self) -> int:
        """The time of a monotonic clock, which measures sessions."""
        return int(self._host.loop.time() * 1000)

    def broker_silence_ms(self, broker_id: int) -> int | None:
        """The time since a broker's last heartbeat; None without a session, or if this node is not active."""
        if self._state is None:
            return None
        return self._state.heartbeats.since_last_contact_ms(broker_id, self.now_ms)

    async def submit(
        self, decide: Callable[[ControllerState], Decision[R]], timeout_ms: int | None = None
    ) -> R:
        """Decide, append and commit; return the response once it is final.

        Raises KafkaError:
        - NOT_CONTROLLER if this node is not the active controller, or ceases to be it (the decision may or
          may not take effect);
        - REQUEST_TIMED_OUT if the records are not committed in time (likewise); without any time nothing is
          decided, as in Kafka;
        - the error of a decision that is refused;
        - UNKNOWN_SERVER_ERROR if the metadata log cannot be written.
        """
        loop = self._host.loop
        deadline_s = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        if self._state is None and self._activating is not None:
            await asyncio.wait((self._activating,), timeout=_remaining_s(loop, deadline_s))
        state = self._active_state()
        if deadline_s is not None and deadline_s <= loop.time():
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"nothing was decided within {timeout_ms} ms")
        state.image.offset = self._quorum.log_end_offset - 1
        state.controller_ids, state.kraft_version = self._quorum.voter_ids, self._quorum.kraft_version
        try:
            decision = decide(state)
        except Refusal as refusal:
            raise KafkaError(refusal.code, str(refusal)) from None
        except Exception as error:
            log.exception("a decision of the controller failed")
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller failed: {error!r}") from error
        if decision.records:
            self._append(state, decision)
        elif not self._pending:
            return decision.response
        pending = _Pending(self._quorum.log_end_offset, self._host.loop.create_future())
        self._pending.append(pending)
        await _in_time(pending.done, loop, deadline_s, timeout_ms)
        return decision.response

    async def submit_and_follow(
        self, decide: Callable[[ControllerState], Decision[R]], timeout_ms: int | None = None
    ) -> R:
        """Call `submit`, and wait until this node itself has applied the change.

        So a client that creates a topic on one node can use it there at once, though not necessarily on
        others.
        """
        response = await self.submit(decide, timeout_ms)
        await self._metadata.followed()
        return response

    def _active_state(self) -> ControllerState:
        if self._failure is not None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, self._failure)
        if self._state is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        return self._state

    def _append(self, state: ControllerState, decision: Decision[R]) -> None:
        records = decision.records
        size = len(records) if decision.is_atomic else RECORDS_PER_BATCH
        for start in range(0, len(records), size):
            batch = records[start : start + size]
            metadata_version = state.image.metadata_version or TARGET_METADATA_LEVEL
            end_offset = self._quorum.append(batch, metadata_version)
            state.image.offset = end_offset - len(batch) - 1
            try:
                state.replay(batch)
            except Exception:
                log.critical("controller cannot replay its own records offset=%d", state.image.offset)
                self._quorum.resign(self._epoch, "records of this controller could not be replayed")
                raise

    # QuorumWatcher

    def committed(self, end_offset: int) -> None:
        """Answer the decisions whose records and all earlier ones are committed."""
        while self._pending and self._pending[0].end_offset <= end_offset:
            done = self._pending.popleft().done
            if not done.done():
                done.set_result(None)

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        if leader_id != self._host.node_id:
            self._renounce()
        elif self._state is None:
            self._epoch = epoch
            self._activating = self._host.loop.create_task(self._activate(epoch))
        else:
            self._epoch = epoch

    def failed(self, reason: str) -> None:
        """Refuse decisions because the log is unreliable; committed metadata is still served."""
        self._failure = reason
        self._fail_pending(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, reason))

    async def _activate(self, epoch: int) -> None:
        """Take over, or resign if that fails, because a leader that cannot decide blocks all decisions."""
        try:
            await self._take_over(epoch)
        except Exception as error:
            log.exception("this node cannot be the active controller epoch=%d", epoch)
            if len(self._quorum.voter_ids) > 1:
                self._quorum.resign(epoch, f"it cannot be the active controller: {error}")
            elif self._failure is None:
                self._failure = f"the controller could not take over: {error}"

    async def _take_over(self, epoch: int) -> None:
        """Start to decide with the current image, which is at the log's end."""
        is_new = self._metadata.image.metadata_version == 0
        try:
            if is_new and not self._bootstrap:
                self._bootstrap = await self._quorum.bootstrap_records()
        except Exception as error:
            self._failure = f"bootstrap records cannot be read: {error}"
            raise
        if self._epoch != epoch:
            return
        state = self._new_state()
        records = activation_records(state, self._bootstrap if is_new else [])
        if records:
            self._append(state, Decision(records, None))
        self._state = state
        self._tasks.start()
        self._watch.start()
        log.info("active controller epoch=%d next_offset=%d", epoch, self._quorum.log_end_offset)

    def _new_state(self) -> ControllerState:
        config = self._host.config.with_dynamic({}, {})
        heartbeats = BrokerHeartbeats(config.get_int("broker.session.timeout.ms"))
        state = ControllerState(
            image=self._metadata.image.copy(),
            static_config=config,
            new_uuid=lambda: self._host.environment.uuid().bytes,
            random=self._host.environment.rng,
            cluster_id=self._host.cluster_id,
            heartbeats=heartbeats,
            kraft_version=self._quorum.kraft_version,
            upgrade_kraft_version=self._upgrade_kraft_version,
        )
        last_offset = self._quorum.log_end_offset - 1
        heartbeats.take_over(state.image.brokers.values(), last_offset, self.now_ms)
        own = state.image.brokers.get(self._host.node_id)
        if own is not None and own.incarnation_id != self._host.incarnation_id:
            heartbeats.end_session(own.broker_id)  # of an earlier process of this node, now ended
        return state

    def _upgrade_kraft_version(self, level: int, validate_only: bool) -> str | None:
        try:
            self._quorum.upgrade_kraft_version(level, validate_only=validate_only)
        except KafkaError as error:
            return error.message
        return None

    def _renounce(self) -> None:
        if self._epoch < 0:
            return
        log.info("no longer the active controller epoch=%d", self._epoch)
        self._epoch = -1
        self._state = None
        self._tasks.stop()
        self._fail_pending(KafkaError(ErrorCode.NOT_CONTROLLER, "the active controller has moved"))

    def _fail_pending(self, error: KafkaError) -> None:
        pending, self._pending = self._pending, deque()
        for waiting in pending:
            if not waiting.done.done():
                waiting.done.set_exception(error)

    async def close(self) -> None:
        """Stop deciding. Pending requests fail with NOT_CONTROLLER."""
        if self._activating is not None:
            await asyncio.wait((self._activating,))
        self._watch.stop()
        self._renounce()


def _remaining_s(loop: asyncio.AbstractEventLoop, deadline_s: float | None) -> float | None:
    return None if deadline_s is None else max(0.0, deadline_s - loop.time())


async def _in_time(
    done: asyncio.Future[None],
    loop: asyncio.AbstractEventLoop,
    deadline_s: float | None,
    timeout_ms: int | None,
) -> None:
    """Wait for a commit, or raise KafkaError REQUEST_TIMED_OUT at the deadline."""
    if deadline_s is None:
        return await done
    timer = loop.call_at(deadline_s, _expire, done, timeout_ms)
    try:
        await done
    finally:
        timer.cancel()


def _expire(done: asyncio.Future[None], timeout_ms: int | None) -> None:
    if not done.done():
        text = f"the decision was not committed within {timeout_ms} ms; it may still take effect"
        done.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
