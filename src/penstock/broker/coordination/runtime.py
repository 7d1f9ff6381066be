"""The coordinators of one kind on this node: one for each partition of their topic that the node leads.

This node coordinates the keys (groups, transactional ids) of every partition of an internal topic that it
leads. When it becomes the leader of a partition, a worker loads the partition up to the log's end, and the
node serves it once all loaded records are committed; until then clients get a retriable error. If loading
fails, the partition has no coordinator until a retry succeeds. The topic is created when it is first needed.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from penstock.broker.coordination.partition import CoordinatorPartition, Outcome
from penstock.broker.network.answers import Answer
from penstock.coordinators.append_errors import append_error
from penstock.coordinators.partitions import partition_for
from penstock.metadata.controller.topics import internal_topic
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from penstock.broker.coordination.host import CoordinationHost
    from penstock.broker.partitions.replica import Replica
    from penstock.metadata.image.image import MetadataDelta
    from penstock.storage.partition.log import Log

__all__ = ["CoordinatorRuntime", "raise_for"]

log = logging.getLogger(__name__)

CREATE_TIMEOUT_MS = 30_000
WARNING_PAUSE_S = 60.0
"""The pause between two warnings that the topic cannot be created: clients ask several times a second."""
LOAD_RETRY_S = 1.0
LOAD_RETRY_MAX_S = 60.0
"""The longest pause between attempts to load a partition. A read error may be temporary, but each attempt
reads the whole partition."""

P = TypeVar("P", bound=CoordinatorPartition)
R = TypeVar("R")


class CoordinatorRuntime(ABC, Generic[P]):
    """The coordinators by partition number; `_owner` raises KafkaError if this node cannot serve a key."""

    TOPIC: ClassVar[str]
    PARTITION_COUNT_CONFIG: ClassVar[str]
    REPLICATION_FACTOR_CONFIG: ClassVar[str]
    WRITE_TIMEOUT_CONFIG: ClassVar[str]
    """The config with the time that a client waits for the replication of its records."""

    def __init__(self, host: CoordinationHost) -> None:
        self._host = host
        self._partition_count = host.config.get_int(self.PARTITION_COUNT_CONFIG)
        self._loaded: dict[int, P] = {}
        self._elected: dict[int, Replica] = {}
        """The replica from which each partition is loaded, or was to be loaded."""
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._reading: dict[int, asyncio.Future[None]] = {}
        """The partitions in `_loading` whose log is still being read; the others wait for their followers."""
        self._retries: dict[int, asyncio.TimerHandle] = {}
        """The timers of partitions that this node leads but could not load."""
        self._creation: asyncio.Future[None] | None = None
        self._warn_at_s = 0.0
        self._changed: asyncio.Future[None] = host.loop.create_future()
        """Completed at the next change of the image."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._write_timeout_ms = host.config.get_int(self.WRITE_TIMEOUT_CONFIG)

    @abstractmethod
    def _new_owner(self, partition: int, replica: Replica) -> P:
        """Create an empty coordinator for a partition."""

    @abstractmethod
    def _replay(self, owner: P, partition_log: Log, end_offset: int, now_ms: int) -> None:
        """Replay the log below `end_offset` into a new coordinator. Runs in a worker."""

    # -- where keys live -----------------------------------------------------------------------------

    def partition_of(self, key: str) -> int:
        """The partition of the topic that a group or transactional id belongs to.

        It depends on the image's topic, which another node may have created before this node has opened its
        logs.
        """
        topic = self._host.image.topics.by_name.get(self.TOPIC)
        return partition_for(key, self._partition_count if topic is None else len(topic.partitions))

    @property
    def has_topic(self) -> bool:
        """Whether the topic exists and its creation has completed."""
        return self._creation is None and self.TOPIC in self._host.image.topics.by_name

    def _owner(self, key: str) -> P:
        return self._owner_of_partition(partition_for(key, self._partition_count))

    def _owner_of_partition(self, partition: int) -> P:
        owner = self._loaded.get(partition)
        if owner is None:
            if partition in self._loading or self._is_expected(partition):
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return owner

    def _certain_owner(self, key: str) -> P:
        """Return the owner for an answer from memory, which no append confirms. Raises KafkaError.

        A node that stood still or is cut off still gets requests of clients that do not know its successor,
        and would answer with outdated state.
        """
        number = partition_for(key, self._partition_count)
        owner, partition = self._owner_of_partition(number), self._elected[number].replicated
        silence_max_ms = self._host.replication.silence_max_ms
        if partition is not None and not partition.is_surely_leader(silence_max_ms):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return owner

    def _is_expected(self, partition: int) -> bool:
        """Whether the image names this node as the partition's leader, but its log is not open yet."""
        registration = self._host.image.topics.partition(self.TOPIC, partition)
        return (
            registration is not None
            and registration.leader == self._host.node_id
            and self._host.replicas.get(self.TOPIC, partition) is None
            and (self.TOPIC, partition) not in self._host.replicas.failed
        )

    @property
    def uncommitted(self) -> int:
        """The number of appends of all partitions that their followers do not have yet."""
        return sum(owner.uncommitted for owner in list(self._loaded.values()))

    # -- answers -------------------------------------------------------------------------------------

    def _in_line(self, key: str, call: Callable[[P], Answer[R]], *, behind_all: bool = False) -> Answer[R]:
        """Return the answer of `call`, once no record of the key waits for the followers.

        With one replica, that is at once. `behind_all`: wait for all records of the key; otherwise only for
        those that exclude others.
        """
        try:
            owner = self._owner(key)
            place = owner.line_of(key, behind_all=behind_all) if owner.uncommitted else None
            return call(owner) if place is None else self._wait_in_line(key, place, call, behind_all)
        except KafkaError as error:
            return Answer.failed(error)

    def _wait_in_line(
        self,
        key: str,
        place: asyncio.Future[ErrorCode],
        call: Callable[[P], Answer[R]],
        behind_all: bool,
    ) -> Answer[R]:
        async def wait() -> R:
            waited_for: asyncio.Future[ErrorCode] | None = place
            deadline_s = self._host.loop.time() + self._write_timeout_ms / 1000
            while waited_for is not None:
                try:
                    async with asyncio.timeout_at(deadline_s):
                        raise_for(await waited_for)
                except TimeoutError:
                    raise_for(ErrorCode.REQUEST_TIMED_OUT)
                waited_for = self._owner(key).line_of(key, behind_all=behind_all)
            return await call(self._owner(key))

        return Answer.working(wait())

    def _answer(self, outcome: Outcome, response: R) -> Answer[R]:
        """Answer with the response once its records are committed, or with the error if they are not."""

        def response_or_error(error: ErrorCode) -> R:
            raise_for(error)
            return response

        committed = Answer.of(outcome) if isinstance(outcome, ErrorCode) else Answer.of_future(outcome)
        return committed.then(response_or_error)

    # -- the topic -----------------------------------------------------------------------------------

    async def ensure_topic(self) -> None:
        """Create the topic if it does not exist. Raises KafkaError if that fails."""
        if self.has_topic:
            return
        if self._creation is None:
            self._creation = asyncio.ensure_future(self._create_topic())
            self._creation.add_done_callback(self._created)
        await asyncio.shield(self._creation)

    def _created(self, creation: asyncio.Future[None]) -> None:
        self._creation = None
        error = None if creation.cancelled() else creation.exception()
        if error is not None and self._host.loop.time() >= self._warn_at_s:
            self._warn_at_s = self._host.loop.time() + WARNING_PAUSE_S
            log.warning("cannot create an internal topic topic=%s error=%s", self.TOPIC, error)

    async def _create_topic(self) -> None:
        topic = internal_topic(self.TOPIC, self._host.config)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_TIMEOUT_MS)
        response = await self._host.forwarding.ask(request, CreateTopicsResponse)
        result = response.topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            reason = f"{self.TOPIC} cannot be created: {result.error_message}"
            if result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
                reason += f" Set {self.REPLICATION_FACTOR_CONFIG} to at most the number of brokers."
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
        try:
            async with asyncio.timeout(CREATE_TIMEOUT_MS / 1000):
                while self.TOPIC not in self._host.image.topics.by_name:
                    await asyncio.shield(self._changed)  # the controller is ahead of this node
        except TimeoutError:
            message = f"{self.TOPIC} was created, but its metadata has not reached this node"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message) from None

    # -- lifecycle -----------------------------------------------------------------------------------

    def on_image_change(self, delta: MetadataDelta) -> None:
        """Follow leadership changes; call it after the replicas have followed."""
        changed, self._changed = self._changed, self._host.loop.create_future()
        changed.set_result(None)
        topic = self._host.image.topics.by_name.get(self.TOPIC)
        is_deleted = any(deleted.name == self.TOPIC for deleted in delta.deleted_topics)
        if is_deleted:
            self._resign(range(self._partition_count))
            self._partition_count = self._host.config.get_int(self.PARTITION_COUNT_CONFIG)
        if topic is not None:  # the same change may have created it again
            for topic_id, partition in delta.changed_partitions:
                if topic_id == topic.topic_id:
                    self._follow_leadership(partition)
            self._partition_count = len(topic.partitions)

    def close(self) -> None:
        """Stop serving; waiting requests are answered NOT_COORDINATOR."""
        self._resign([*self._loaded, *self._loading, *self._retries])
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Coroutine[object, object, None]) -> None:
        """Start a background task that ends with the node."""
        task = self._host.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_until_loaded(self) -> None:
        """Return when no partition is being read. A partition with followers may still wait for them."""
        while self._reading:
            await asyncio.wait(list(self._reading.values()))

    def _follow_leadership(self, partition: int) -> None:
        replica = self._host.replicas.get(self.TOPIC, partition)
        if replica is None or not replica.is_leader:
            self._resign([partition])
            return
        if self._elected.get(partition) is not replica:
            self._resign([partition])  # its log was reopened
        if partition not in self._loaded and partition not in self._loading:
            self._elect(partition, replica)

    def _elect(self, partition: int, replica: Replica, retry_s: float = LOAD_RETRY_S) -> None:
        self._forget_retry(partition)
        self._elected[partition] = replica
        owner = self._new_owner(partition, replica)
        if replica.log.log_end_offset == replica.log.log_start_offset:
            self._serve(partition, owner)
            return
        self._loading[partition] = asyncio.create_task(self._load(partition, replica, owner, retry_s))
        self._reading[partition] = self._host.loop.create_future()

    async def _load(self, partition: int, replica: Replica, owner: P, retry_s: float) -> None:
        """Load a partition, to which only its coordinator appends, so no record is added meanwhile."""
        task = asyncio.current_task()
        end_offset = replica.log.log_end_offset
        is_lost = False
        try:
            await self._host.run_in_worker(
                self._replay, owner, replica.log, end_offset, self._host.clock_ms()
            )
            is_lost = not await self._has_committed(partition, replica, end_offset)
            if not is_lost:
                self._serve(partition, owner)
        except Exception:
            log.exception(
                "cannot load the partition topic=%s partition=%d retry_s=%g", self.TOPIC, partition, retry_s
            )
            self._retries[partition] = self._host.loop.call_later(
                retry_s, self._elect, partition, replica, min(retry_s * 2, LOAD_RETRY_MAX_S)
            )
        finally:
            if self._loading.get(partition) is task:
                del self._loading[partition]
                self._end_reading(partition)
                if is_lost:
                    self._lost(partition)

    async def _has_committed(self, partition: int, replica: Replica, end_offset: int) -> bool:
        """Wait until the last leader's records are committed; return False if leadership is lost first."""
        if replica.high_watermark >= end_offset:
            return True
        self._end_reading(partition)
        committed: asyncio.Future[ErrorCode] = self._host.loop.create_future()
        replica.when_committed(
            end_offset, lambda error: None if committed.done() else committed.set_result(error)
        )
        return await committed is ErrorCode.NONE

    def _end_reading(self, partition: int) -> None:
        reading = self._reading.pop(partition, None)
        if reading is not None:
            reading.set_result(None)

    def _lost(self, partition: int) -> None:
        """Resign from a partition whose coordinator found that this node does not lead it any more."""
        self._resign([partition])
        # The node may lead the partition again by now, in another epoch.
        self._host.loop.call_soon(self._follow_leadership, partition)

    def _serve(self, partition: int, owner: P) -> None:
        self._loaded[partition] = owner
        owner.start()

    def _resign(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._forget_retry(partition)
            self._elected.pop(partition, None)
            loading = self._loading.pop(partition, None)
            if loading is not None:
                loading.cancel()
                self._end_reading(partition)
            owner = self._loaded.pop(partition, None)
            if owner is not None:
                owner.stop()

    def _forget_retry(self, partition: int) -> None:
        retry = self._retries.pop(partition, None)
        if retry is not None:
            retry.cancel()


def raise_for(error: ErrorCode) -> None:
    """Raise the error that coordinators' clients understand for an error of the log or of a group."""
    if error is not ErrorCode.NONE:
        raise KafkaError(append_error(error))
