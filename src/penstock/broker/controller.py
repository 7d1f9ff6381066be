"""The controller at work: decisions become records, records become durable, then they become the image.

`submit` is the one way in. A decision is made on the controller's own image, which has every record written
so far; its records are appended at once and flushed by a worker, one flush for all that gathered meanwhile
(group commit). Only when `consensus.raft` calls them committed do they reach the broker's image, the
listeners and the caller. A node that loses power forgets nothing it has told anybody.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from penstock.broker.metadata_log import MetadataLog, SnapshotId
from penstock.consensus.raft import BeginEpoch, Commit, Effect, Persist, Raft
from penstock.metadata.configs import SECURITY_PROTOCOLS
from penstock.metadata.controller import brokers, configs, partitions, topics
from penstock.metadata.controller.producer_ids import allocate_producer_ids
from penstock.metadata.controller.state import ControllerState, Decision
from penstock.metadata.image import BrokerRegistration, Endpoint, MetadataDelta, MetadataImage
from penstock.metadata.snapshot import encode_records
from penstock.protocol import messages as m
from penstock.protocol.api_keys import TARGET_METADATA_LEVEL
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import ControlRecordType, encode_control_batch
from penstock.protocol.uuids import uuid_from_text
from penstock.storage.errors import LogError

if TYPE_CHECKING:
    from penstock.broker.node import Broker

log = logging.getLogger(__name__)

R = TypeVar("R")
ImageListener = Callable[[MetadataDelta], Coroutine[object, object, None] | None]

_LEADER_CHANGE_VERSION: Final = 0
"""The only one Kafka writes, and the only one it reads, however the voters are kept."""


def random_uuid() -> bytes:
    """A random id that is none of Kafka's reserved ones."""
    return uuid.uuid4().bytes


@dataclass(slots=True)
class _Pending(Generic[R]):
    """Appended, not yet committed."""

    end_offset: int
    records: Sequence[m.Message]
    response: R
    done: asyncio.Future[R]


class ControllerRuntime:
    """Leader of a quorum of one, over the metadata log of this node.

    `open` recovers the image, `start` leads and registers the broker, `close` ends in good order.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._config = broker.config
        self.image = MetadataImage()
        """What is committed; the same object for good, changed between two turns of the loop."""
        self.broker_epoch = -1
        self._state = ControllerState(self.image, self._config, random_uuid)
        self._log = MetadataLog(self._config.metadata_log_dir, self._config, broker.clock_ms)
        self._raft: Raft | None = None
        self._listeners: list[ImageListener] = []
        self._following: list[asyncio.Task[None]] = []
        self._pending: deque[_Pending[object]] = deque()
        self._flusher: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._recovered: MetadataDelta | None = MetadataDelta()
        """Until `start` is done: all changes so far, for listeners to get at once."""
        self._bytes_since_snapshot = 0
        self._snapshot_timer: asyncio.TimerHandle | None = None
        self._snapshotting = False

    # Life

    async def open(self) -> None:
        """Recover the metadata log and replay it. Raises LogDirectoryError, OSError."""
        assert self._recovered is not None
        await self._broker.run_in_worker(self._log.open, self.image, self._recovered)
        self._state = ControllerState(self.image.copy(), self._config, random_uuid)
        node_id, election = self._broker.node_id, self._log.read_election()
        self._log.check_voters(node_id, election)
        self._raft = Raft.restore(node_id, frozenset((node_id,)), election, self._log.last_epoch)

    async def start(self) -> None:
        """Win the election, write a new cluster's first records, register this broker, tell listeners all."""
        assert self._raft is not None, "open comes first"
        is_new = self.image.metadata_version == 0
        first_records = await self._broker.run_in_worker(self._log.bootstrap) if is_new else []
        await self._carry_out(self._raft.campaign())
        if first_records:
            await self.submit(lambda _: Decision(first_records, None))
        registration = await self.submit(self._register)
        self.broker_epoch = registration.epoch
        await self.submit(lambda state: brokers.unfence_broker(state, self._broker.node_id))
        delta, self._recovered = self._recovered, None
        assert delta is not None
        self._notify(delta)
        await self._listeners_followed()
        self._schedule_snapshot()

    def _register(self, state: ControllerState) -> Decision[BrokerRegistration]:
        listeners = {listener.name: listener for listener in self._config.broker_listeners}
        endpoints = []
        for name, listener in listeners.items():
            host, port = self._broker.advertised(name)
            protocol = SECURITY_PROTOCOLS[listener.security_protocol]
            endpoints.append(Endpoint(name, host, port, protocol))
        directories = [directory.properties for directory in self._broker.logs.directories]
        return brokers.register_broker(
            state,
            broker_id=self._broker.node_id,
            epoch=self._log.end_offset,
            incarnation_id=random_uuid(),
            endpoints=endpoints,
            rack=self._config.rack,
            log_dirs=[uuid_from_text(found.directory_id) for found in directories if found is not None],
        )

    async def close(self) -> None:
        """Note the shutdown, commit what is pending, close the log. Safe at any stage of the start."""
        if self._snapshot_timer is not None:
            self._snapshot_timer.cancel()
        if self.broker_epoch >= 0 and self._failure is None:
            try:
                await self.submit(lambda state: brokers.shut_down_broker(state, self._broker.node_id))
            except KafkaError as error:
                log.error("shutdown not noted in the metadata log error=%s", error)
        if self._flusher is not None:
            await self._flusher
        if self._raft is not None and self._raft.is_leader:
            self._raft.resign()
        try:
            await self._broker.run_in_worker(self._log.close)
        except LogError as error:
            log.error("metadata log not closed cleanly error=%s", error)

    def on_image_change(self, listener: ImageListener) -> None:
        """Call ``listener`` after every commit that changed something, in the turn that changed it.

        The first call, at the end of `start`, brings everything that is there. A listener that needs longer
        returns a coroutine; whoever asked for the change is answered when it's done.
        """
        self._listeners.append(listener)

    # Decisions

    async def submit(self, decide: Callable[[ControllerState], Decision[R]]) -> R:
        """Decide, append and commit; the response, once it is true for good.

        Raises KafkaError if the metadata log cannot be written: then nothing has happened that anyone saw.
        """
        if self._failure is not None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, self._failure)
        if self._raft is None or not self._raft.is_leader:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        decision = decide(self._state)
        if decision.records:
            self._append(decision.records)
        elif not self._pending:
            return decision.response
        done: asyncio.Future[R] = self._broker.loop.create_future()
        pending = _Pending(self._log.end_offset, decision.records, decision.response, done)
        self._pending.append(pending)  # type: ignore[arg-type]
        if self._flusher is None or self._flusher.done():
            self._flusher = self._broker.loop.create_task(self._flush_pending())
        return await done

    async def create_topics(self, request: m.CreateTopicsRequest) -> m.CreateTopicsResponse:
        return await self.submit(partial(topics.create_topics, request=request))

    async def delete_topics(self, request: m.DeleteTopicsRequest) -> m.DeleteTopicsResponse:
        return await self.submit(partial(topics.delete_topics, request=request))

    async def create_partitions(self, request: m.CreatePartitionsRequest) -> m.CreatePartitionsResponse:
        return await self.submit(partial(partitions.create_partitions, request=request))

    async def elect_leaders(self, request: m.ElectLeadersRequest) -> m.ElectLeadersResponse:
        return await self.submit(partial(partitions.elect_leaders, request=request))

    async def alter_configs(self, request: m.AlterConfigsRequest) -> m.AlterConfigsResponse:
        return await self.submit(partial(configs.alter_configs, request=request))

    async def incremental_alter_configs(
        self, request: m.IncrementalAlterConfigsRequest
    ) -> m.IncrementalAlterConfigsResponse:
        return await self.submit(partial(configs.incremental_alter_configs, request=request))

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """A block of producer ids for this broker: the first, and how many."""
        return await self.submit(partial(allocate_producer_ids, broker_id=self._broker.node_id))

    # Appending and committing

    def _append(self, records: Sequence[m.Message]) -> None:
        assert self._raft is not None
        now_ms = self._broker.clock_ms()
        metadata_version = self._state.image.metadata_version or TARGET_METADATA_LEVEL
        # One batch, so that a crash leaves all of a decision or nothing.
        data = encode_records(records, metadata_version, now_ms)
        self._log.append(data, self._raft.epoch)
        self._bytes_since_snapshot += len(data)
        ignored = MetadataDelta()
        for record in records:
            self._state.image.replay(record, ignored)

    async def _flush_pending(self) -> None:
        """Flush until nothing is left; each flush commits all that was appended before it began."""
        assert self._raft is not None
        while self._pending:
            try:
                end_offset = await self._broker.run_in_worker(self._log.flush)
            except (LogError, OSError) as error:
                self._fail(error)
                return
            await self._carry_out(self._raft.flushed(end_offset))
            await self._listeners_followed()
            self._answer()

    async def _carry_out(self, effects: list[Effect]) -> None:
        assert self._raft is not None
        for effect in effects:
            match effect:
                case Persist(election):
                    await self._broker.run_in_worker(self._log.write_election, election)
                    await self._carry_out(self._raft.persisted(election))
                case BeginEpoch():
                    self._raft.appended(self._begin_epoch(effect))
                    end_offset = await self._broker.run_in_worker(self._log.flush)
                    await self._carry_out(self._raft.flushed(end_offset))
                case Commit(high_watermark):
                    self._commit(high_watermark)

    def _begin_epoch(self, begin: BeginEpoch) -> int:
        """Append the LeaderChange of a new epoch; its offset."""
        voter = m.LeaderChangeMessage.Voter
        change = m.LeaderChangeMessage(
            version=_LEADER_CHANGE_VERSION,
            leader_id=self._broker.node_id,
            voters=[voter(voter_id=v) for v in begin.voters],
            granting_voters=[voter(voter_id=v) for v in begin.granting_voters],
        )
        data = encode_control_batch(
            [(ControlRecordType.LEADER_CHANGE, change.encode(_LEADER_CHANGE_VERSION))],
            timestamp=self._broker.clock_ms(),
        )
        log.info("metadata quorum leader epoch=%d", begin.epoch)
        return self._log.append(data, begin.epoch).first_offset

    def _commit(self, high_watermark: int) -> None:
        """Replay what is now committed into the broker's image and tell the listeners."""
        assert self._raft is not None
        delta = MetadataDelta() if self._recovered is None else self._recovered
        for pending in self._pending:
            if pending.end_offset > high_watermark:
                break
            for record in pending.records:
                self.image.replay(record, delta)
            pending.records = ()
        self.image.offset, self.image.epoch = high_watermark - 1, self._raft.epoch
        if self._recovered is None and not delta.empty:
            self._notify(delta)
        if self._bytes_since_snapshot >= self._config.get_int(
            "metadata.log.max.record.bytes.between.snapshots"
        ):
            self._snapshot()

    def _answer(self) -> None:
        """Complete the decisions whose records, and all before them, are committed."""
        assert self._raft is not None
        while self._pending and self._pending[0].end_offset <= self._raft.high_watermark:
            pending = self._pending.popleft()
            if not pending.done.done():
                pending.done.set_result(pending.response)

    def _fail(self, error: Exception) -> None:
        """The log cannot be trusted with more: refuse decisions, go on serving what is committed."""
        self._failure = f"the metadata log cannot be written: {error}"
        log.critical("controller stopped error=%s", error)
        while self._pending:
            pending = self._pending.popleft()
            if not pending.done.done():
                pending.done.set_exception(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, self._failure))

    def _notify(self, delta: MetadataDelta) -> None:
        for listener in self._listeners:
            try:
                following = listener(delta)
            except Exception:
                log.exception("image listener failed offset=%d", self.image.offset)
            else:
                if following is not None:
                    self._following.append(self._broker.loop.create_task(following))

    async def _listeners_followed(self) -> None:
        """Return when all listeners are done with the changes they were told."""
        following, self._following = self._following, []
        for error in await asyncio.gather(*following, return_exceptions=True):
            if isinstance(error, BaseException):
                log.error("image listener failed offset=%d", self.image.offset, exc_info=error)

    # Snapshots

    def _schedule_snapshot(self) -> None:
        interval_ms = self._config.get_int("metadata.log.max.snapshot.interval.ms")
        if interval_ms:
            self._snapshot_timer = self._broker.loop.call_later(interval_ms / 1000, self._snapshot_on_time)

    def _snapshot_on_time(self) -> None:
        self._schedule_snapshot()
        if self._bytes_since_snapshot:
            self._snapshot()

    def _snapshot(self) -> None:
        """Write the committed image to a snapshot file, in a worker, from a copy taken now."""
        if self._snapshotting:
            return
        self._snapshotting = True
        self._bytes_since_snapshot = 0
        at = SnapshotId(self.image.offset + 1, self.image.epoch)
        frozen, timestamp_ms = self.image.copy(), self._log.last_timestamp_ms
        writing = self._broker.run_in_worker(
            lambda: self._log.write_snapshot(at, frozen.records(), frozen.metadata_version, timestamp_ms)
        )
        writing.add_done_callback(partial(self._snapshot_written, at))

    def _snapshot_written(self, at: SnapshotId, writing: asyncio.Future[int]) -> None:
        self._snapshotting = False
        if writing.cancelled():
            return
        error = writing.exception()
        if error is not None:
            log.error("metadata snapshot failed end_offset=%d error=%s", at.end_offset, error)
            return
        try:
            self._log.installed_snapshot(at, self._broker.clock_ms())
        except (LogError, OSError) as failure:
            log.error("metadata log not trimmed end_offset=%d error=%s", at.end_offset, failure)
        log.info("metadata snapshot end_offset=%d epoch=%d bytes=%d", *at, writing.result())
