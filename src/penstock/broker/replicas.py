"""The partitions this node has a replica of, and what leading them means.

A replica joins a log on disk with its place in the cluster: who leads, in which epoch, up to where records
are committed. With one replica a record is committed once it is appended, so the high watermark moves with
the log's end; whoever waits for it is woken from here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from penstock.broker import produce_conversion
from penstock.broker.purgatory import WaitList
from penstock.metadata.image import MetadataDelta, ResourceType
from penstock.protocol.batch import TRANSACTIONAL_MASK, check_batches, set_log_append_time
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import encode_end_txn_marker
from penstock.storage.producer_state import Origin

if TYPE_CHECKING:
    from penstock.broker.topic_settings import TopicSettings
    from penstock.metadata.image import (
        ConfigResource,
        MetadataImage,
        PartitionRegistration,
        TopicImage,
    )
    from penstock.protocol.batch import BatchHeader
    from penstock.storage.log import AppendInfo, Log
    from penstock.storage.log_manager import LogManager
    from penstock.storage.names import TopicPartition
    from penstock.storage.producer_snapshot import SnapshotEntry
    from penstock.storage.verification import Verification

log = logging.getLogger(__name__)

LOG_APPEND_TIME = "LogAppendTime"
NO_EPOCH = -1
NEVER = 2**63 - 1
DELETES_PER_TURN = 16
OPENED_PER_TURN = 64
"""Logs that a worker opens, and replicas that begin to serve, before others have their turn."""

P = ParamSpec("P")
T = TypeVar("T")


class RunInWorker(Protocol):
    """Calls a function that blocks in a worker thread."""

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


class Replica:
    """This node's copy of one partition."""

    __slots__ = (
        "_clock_ms",
        "_opened_at_bytes",
        "_unsynced",
        "appended_bytes",
        "compression_levels",
        "config",
        "high_watermark",
        "is_leader",
        "isr_size",
        "leader_epoch",
        "log",
        "partition",
        "produce_responses",
        "replica_count",
        "sees_every_batch",
        "stable_waiters",
        "stamps_append_time",
        "timestamps_good_until_ms",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        log: Log,
        settings: TopicSettings,
        clock_ms: Callable[[], int],
        unsynced: set[Log] | None = None,
    ) -> None:
        self._clock_ms = clock_ms
        self._unsynced = unsynced
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.log = log
        self.configure(settings)
        self.leader_epoch = NO_EPOCH
        self.is_leader = False
        self.isr_size = 1
        self.replica_count = 1
        self.high_watermark = log.log_end_offset
        log.producer_state.on_high_watermark(log.log_end_offset)
        self.waiters = WaitList()
        self.stable_waiters = WaitList()
        """Those of `read_committed` clients: what an open transaction holds back is no news for them."""
        self.appended_bytes = 0
        self._opened_at_bytes = dict.fromkeys(log.producer_state.open_offsets, 0)
        """`appended_bytes` when each transaction began, by its first offset; the first of them is open."""
        self.produce_responses: dict[int, tuple[bytes, bytes]] = {}
        """By version, what stands around the offsets of a good produce response; see `api.produce`."""

    def configure(self, settings: TopicSettings) -> None:
        """Obey these topic configs from now on."""
        self.config = settings.log
        self.compression_levels = settings.compression_levels
        self.sees_every_batch = produce_conversion.sees_every_batch(settings.log)
        self.stamps_append_time = settings.log.message_timestamp_type == LOG_APPEND_TIME
        self.timestamps_good_until_ms = 0
        self.log.update_config(settings.log)

    def must_convert(self, header: BatchHeader, records: memoryview) -> bool:
        """Whether the records of this batch still have to be looked at before it's appended.

        The clock only goes forward, so what was no time in the future once is none later: most batches are
        judged without asking it.
        """
        if (
            not self.sees_every_batch
            and header.base_timestamp <= header.max_timestamp <= self.timestamps_good_until_ms
        ):
            return False
        now_ms = self._clock_ms()
        self.timestamps_good_until_ms = now_ms + self.config.message_timestamp_after_max_ms
        return produce_conversion.is_needed(self, header, records, now_ms)

    @property
    def last_stable_offset(self) -> int:
        """Up to where a `read_committed` client may read: before the first open transaction."""
        return self.log.last_stable_offset(self.high_watermark)

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise unless this node leads the partition in the epoch that the client believes in (KIP-320)."""
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def append(
        self,
        records: memoryview | bytearray,
        headers: list[BatchHeader],
        *,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        verification: Verification | None = None,
    ) -> AppendInfo:
        """Append as leader; `records` is writable and gets its offsets. Raises KafkaError.

        `verification` lets in the first batch of a transaction; see `begin_verification`.
        """
        if self.stamps_append_time:
            now_ms = self._clock_ms()
            headers = _stamp(records, headers, now_ms)
        info = self.log.append(
            records,
            headers,
            self.leader_epoch,
            origin=origin,
            transaction_version=transaction_version,
            verification=verification,
        )
        if not info.duplicate:
            self.high_watermark = self.log.log_end_offset
            size_bytes = len(records)
            self.appended_bytes += size_bytes
            if self._unsynced is not None:
                self._unsynced.add(self.log)
            if self.waiters.waiting:
                self.waiters.grown(size_bytes)
            if self._opened_at_bytes or headers[0].attributes & TRANSACTIONAL_MASK:
                self._follow_transactions(info.first_offset, size_bytes)
            elif self.stable_waiters.waiting:
                self.stable_waiters.grown(size_bytes)
        return info

    def _follow_transactions(self, first_offset: int, size_bytes: int) -> None:
        """After an append: a transaction may have begun or ended, and the last stable offset moved."""
        state = self.log.producer_state
        state.on_high_watermark(self.high_watermark)
        opened = self._opened_at_bytes
        bytes_before = self.appended_bytes - size_bytes
        stable_before = next(iter(opened.values()), bytes_before)
        if state.is_opened_at(first_offset):
            opened[first_offset] = bytes_before
        undecided = state.first_undecided_offset
        while opened and (oldest := next(iter(opened))) != undecided:
            del opened[oldest]
        grown_bytes = next(iter(opened.values()), self.appended_bytes) - stable_before
        if grown_bytes:
            self.stable_waiters.grown(grown_bytes)

    def wake_all(self) -> None:
        """Something else than an append has happened that waiting fetches must answer."""
        self.waiters.changed()
        self.stable_waiters.changed()

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int,
    ) -> AppendInfo:
        """End the producer's transaction here, if one is open. Raises KafkaError.

        A marker is written even where nothing is open: the coordinator may be repeating itself after a crash.
        """
        self.check_leader()
        self.check_enough_replicas()
        marker = encode_end_txn_marker(
            committed=committed,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._clock_ms(),
        )
        batch = bytearray(marker)
        return self.append(
            batch, check_batches(batch), origin=Origin.COORDINATOR, transaction_version=transaction_version
        )

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool
    ) -> Verification | None:
        """What has to be asked for before this transactional batch is appended; None where nothing.

        Raises KafkaError, INVALID_PRODUCER_EPOCH.
        """
        return self.log.producer_state.begin_verification(
            producer_id, epoch, sequence, supports_epoch_bump, self._clock_ms()
        )

    def active_producers(self) -> Iterator[SnapshotEntry]:
        """What is remembered of each producer that is known now."""
        return (entry.to_snapshot() for entry in list(self.log.producer_state.producers.values()))

    @property
    def flushes_by_count(self) -> bool:
        """Whether `flush.messages` may make an acknowledgement wait."""
        return self.config.flush_messages != NEVER

    def flush_if_due(self, flush: Callable[[Log], Awaitable[object]]) -> Awaitable[object] | None:
        """By `flush.messages` or `penstock.acks.fsync`: the fsync that has to be waited for, or None."""
        unflushed = self.log.log_end_offset - self.log.recovery_point
        if not unflushed or (self._unsynced is None and unflushed < self.config.flush_messages):
            return None
        return flush(self.log)

    def check_enough_replicas(self) -> None:
        """`min.insync.replicas`, for acks=all; never more than the partition has replicas."""
        if self.isr_size < min(self.config.min_insync_replicas, self.replica_count):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch in which the record at `offset` was written, -1 if unknown."""
        return self.log.leader_epochs.epoch_for(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and where it ended; (-1, -1) if unknown."""
        return self.log.end_offset_for_epoch(epoch)


def _stamp(records: memoryview | bytearray, headers: list[BatchHeader], now_ms: int) -> list[BatchHeader]:
    """LogAppendTime: the time of the append goes into each header; records stay as they are."""
    stamped = []
    position = 0
    for header in headers:
        stamped.append(set_log_append_time(records, header, now_ms, position))
        position += header.size_bytes
    return stamped


class ReplicaManager:
    """All replicas of this node, kept in step with the metadata image."""

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        logs: LogManager,
        settings_of: Callable[[str], TopicSettings],
        clock_ms: Callable[[], int],
        run_in_worker: RunInWorker,
        unsynced: set[Log] | None = None,
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._logs = logs
        self._settings_of = settings_of
        self._clock_ms = clock_ms
        self._run_in_worker = run_in_worker
        self._unsynced = unsynced
        """Where replicas note that they were appended to, if anybody waits for them to be durable."""
        self._replicas: dict[tuple[str | bytes, int], Replica] = {}
        """By topic name and partition, and again by topic id and partition."""
        self.failed: set[tuple[str, int]] = set()
        """Partitions whose log could not be opened."""

    def __iter__(self) -> Iterator[Replica]:
        return (replica for key, replica in list(self._replicas.items()) if type(key[0]) is str)

    def __len__(self) -> int:
        return len(self._replicas) // 2

    def get(self, topic: str | bytes, partition: int) -> Replica | None:
        """The replica of a partition by its topic's name or id, led here or not."""
        return self._replicas.get((topic, partition))

    def leader(self, topic: str | bytes, partition: int, current_leader_epoch: int = NO_EPOCH) -> Replica:
        """The replica to read from and write to. Raises KafkaError with what clients expect instead."""
        replica = self._replicas.get((topic, partition))
        if replica is None:
            raise KafkaError(self._why_absent(topic, partition))
        if not replica.is_leader or (
            current_leader_epoch >= 0 and current_leader_epoch != replica.leader_epoch
        ):
            replica.check_leader(current_leader_epoch)
        return replica

    def append(
        self,
        topic: str,
        partition: int,
        records: bytes | bytearray,
        *,
        verification: Verification | None = None,
    ) -> AppendInfo:
        """Append batches that a coordinator on this node has made. Raises KafkaError.

        `verification` as in `Replica.append`, for batches in a transaction.
        """
        replica = self.leader(topic, partition)
        batches = bytearray(records)
        return replica.append(
            batches, check_batches(batches), origin=Origin.COORDINATOR, verification=verification
        )

    def _why_absent(self, topic: str | bytes, partition: int) -> ErrorCode:
        topics = self._image.topics
        image = topics.by_id.get(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
        if image is None:
            return (
                ErrorCode.UNKNOWN_TOPIC_ID
                if isinstance(topic, bytes)
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        if partition not in image.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if (image.name, partition) in self.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def unopened(self) -> MetadataDelta:
        """The partitions whose log could not be opened, as a change to follow once more."""
        topics = self._image.topics.by_name
        return MetadataDelta(
            changed_partitions={
                (topics[topic].topic_id, partition) for topic, partition in self.failed if topic in topics
            }
        )

    def take_offline(self, names: Iterable[TopicPartition]) -> None:
        """Serve these no longer: the log directory they lie in has failed."""
        for topic, partition in names:
            replica = self._replicas.pop((topic, partition), None)
            if replica is None:
                continue
            del self._replicas[replica.topic_id, partition]
            self.failed.add((topic, partition))
            replica.is_leader = False
            replica.wake_all()

    def set_aside_strays(self) -> None:
        """Keep logs that belong to no topic of the image away from topics to come. Raises OSError.

        A node that was killed while it deleted a topic leaves some behind; so does whoever copies data in.
        """
        for found in self._logs:
            topic = self._image.topics.by_name.get(found.name.topic)
            known = topic is not None and found.topic_id in (None, topic.topic_id)
            if topic is None or not known or found.name.partition not in topic.partitions:
                self._logs.set_aside(found.name.topic, found.name.partition)

    async def apply(self, delta: MetadataDelta) -> None:
        """Follow a change of the image: delete, create, change leaders and configurations.

        To be called for one change after the other; logs are created in workers meanwhile. What a later
        change has done to the image already is seen here, and followed again when its turn comes.
        """
        gone = [(topic, partition) for topic in delta.deleted_topics for partition in topic.partitions]
        for number, (topic, partition) in enumerate(gone, 1):
            self._delete(topic, partition)
            if number % DELETES_PER_TURN == 0:
                await asyncio.sleep(0)
        mine: list[tuple[TopicImage, int]] = []
        for topic_id, partition in sorted(delta.changed_partitions):
            changed = self._image.topics.by_id.get(topic_id)
            if changed is None:
                continue
            if self._node_id in changed.partitions[partition].replicas:
                mine.append((changed, partition))
            else:
                self._delete(changed, partition)
        for start in range(0, len(mine), OPENED_PER_TURN):
            if start:
                await asyncio.sleep(0)
            some = mine[start : start + OPENED_PER_TURN]
            await self._open([place for place in some if (place[0].topic_id, place[1]) not in self._replicas])
            for changed, partition in some:
                self._lead_or_follow(changed, partition, changed.partitions[partition])
        self._apply_configs(delta.changed_configs)

    async def _open(self, places: list[tuple[TopicImage, int]]) -> None:
        """Take the logs found at the start, create the others: a worker does, half a millisecond each."""
        if not places:
            return
        settings = {topic.name: self._settings_of(topic.name) for topic, _ in places}
        opened = await self._run_in_worker(self._open_logs, places, settings)
        for topic, partition, found in opened:
            if found is None:
                self.failed.add((topic.name, partition))
                continue
            self.failed.discard((topic.name, partition))
            replica = Replica(
                topic.name,
                topic.topic_id,
                partition,
                found,
                settings[topic.name],
                self._clock_ms,
                self._unsynced,
            )
            self._replicas[topic.name, partition] = replica
            self._replicas[topic.topic_id, partition] = replica

    def _open_logs(
        self, places: list[tuple[TopicImage, int]], settings: dict[str, TopicSettings]
    ) -> list[tuple[TopicImage, int, Log | None]]:
        """Blocks. A log that can't be opened is None here, and named in the node's log."""
        opened: list[tuple[TopicImage, int, Log | None]] = []
        for topic, partition in places:
            config = settings[topic.name].log
            try:
                registration = topic.partitions[partition]
                is_new = not registration.leader_epoch and not registration.partition_epoch
                found = self._logs.create(topic.name, topic.topic_id, partition, config, is_new=is_new)
            except (KafkaError, OSError, ValueError) as error:
                log.error("cannot open log topic=%s partition=%d error=%s", topic.name, partition, error)
                opened.append((topic, partition, None))
            except Exception:  # the others of the change must not go without a log for it
                log.exception("cannot open log topic=%s partition=%d", topic.name, partition)
                opened.append((topic, partition, None))
            else:
                opened.append((topic, partition, found))
        return opened

    def _lead_or_follow(self, topic: TopicImage, partition: int, registration: PartitionRegistration) -> None:
        replica = self._replicas.get((topic.topic_id, partition))
        if replica is None:
            return
        replica.isr_size = len(registration.isr)
        replica.replica_count = len(registration.replicas)
        is_leader = registration.leader == self._node_id
        if registration.leader_epoch != replica.leader_epoch or is_leader != replica.is_leader:
            replica.leader_epoch = registration.leader_epoch
            replica.is_leader = is_leader
            if is_leader:
                replica.log.leader_epochs.assign(registration.leader_epoch, replica.log.log_end_offset)
            replica.wake_all()

    def _delete(self, topic: TopicImage, partition: int) -> None:
        self.failed.discard((topic.name, partition))
        replica = self._replicas.pop((topic.topic_id, partition), None)
        if replica is None:
            return
        del self._replicas[topic.name, partition]
        replica.is_leader = False
        replica.wake_all()
        try:
            self._logs.delete(topic.name, partition)
        except OSError as error:
            log.error("cannot delete log topic=%s partition=%d error=%s", topic.name, partition, error)

    def _apply_configs(self, changed: set[ConfigResource]) -> None:
        topics = {resource.name for resource in changed if resource.type == ResourceType.TOPIC}
        everywhere = any(resource.type == ResourceType.BROKER for resource in changed)
        for replica in self:
            if everywhere or replica.topic in topics:
                replica.configure(self._settings_of(replica.topic))
