"""The partitions this node has a replica of, kept in step with the metadata image."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from penstock.broker.replica import NO_EPOCH, Replica
from penstock.metadata.image import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, MetadataDelta, ResourceType
from penstock.protocol.batch import check_batches
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.uuids import uuid_from_text
from penstock.storage.staged_append import Origin

if TYPE_CHECKING:
    from penstock.broker.replication.replication import Replication
    from penstock.broker.topic_settings import TopicSettings
    from penstock.metadata.image import (
        ConfigResource,
        MetadataImage,
        PartitionRegistration,
        TopicImage,
    )
    from penstock.storage.log import AppendInfo, Log
    from penstock.storage.log_manager import LogManager
    from penstock.storage.names import TopicPartition
    from penstock.storage.verification import Verification

log = logging.getLogger(__name__)

DELETES_PER_TURN = 16
OPENED_PER_TURN = 64
"""Logs that a worker opens, and replicas that begin to serve, before others have their turn."""

P = ParamSpec("P")
T = TypeVar("T")


class RunInWorker(Protocol):
    """Calls a function that blocks in a worker thread."""

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


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
        unsynced: dict[Log, None] | None,
        replication: Replication,
    ) -> None:
        self._replication = replication
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

    def readable(self, topic: str | bytes, partition: int, current_leader_epoch: int = NO_EPOCH) -> Replica:
        """The replica to read committed records from, led here or not (KIP-392). Raises KafkaError."""
        replica = self._replicas.get((topic, partition))
        if replica is None:
            raise KafkaError(self._why_absent(topic, partition))
        if current_leader_epoch >= 0 and current_leader_epoch != replica.leader_epoch:
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
            self._stop(replica)

    def _stop(self, replica: Replica) -> None:
        """Whoever waits for a replica that is served no longer shall look elsewhere."""
        replica.is_leader = False
        self._replication.forget(replica)
        replica.wake_all()

    def set_aside_strays(self) -> None:
        """Keep logs that belong to no topic of the image away from topics to come. Raises OSError.

        A node that was killed while it deleted a topic leaves some behind; so does whoever copies data in. A
        partition may have been reassigned to other nodes while this one was down.
        """
        self._logs.settle_rivals(self._topic_id_of)
        for found in self._logs:
            topic = self._image.topics.by_name.get(found.name.topic)
            known = topic is not None and found.topic_id in (None, topic.topic_id)
            registration = None if topic is None else topic.partitions.get(found.name.partition)
            if not known or registration is None or self._node_id not in registration.replicas:
                self._logs.set_aside(found.name.topic, found.name.partition)

    def _topic_id_of(self, name: str) -> bytes | None:
        topic = self._image.topics.by_name.get(name)
        return None if topic is None else topic.topic_id

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
        self._replication.close_idle_fetchers()
        if delta.brokers_changed:
            self._replication.brokers_changed()

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
                self._first_high_watermark(topic, partition),
            )
            self._replicas[topic.name, partition] = replica
            self._replicas[topic.topic_id, partition] = replica

    def _first_high_watermark(self, topic: TopicImage, partition: int) -> int | None:
        """Of a partition with several replicas, which may not all have what this one has; None with one."""
        if len(topic.partitions[partition].replicas) == 1:
            return None
        return self._logs.checkpointed_high_watermark(topic.name, partition) or 0

    def _open_logs(
        self, places: list[tuple[TopicImage, int]], settings: dict[str, TopicSettings]
    ) -> list[tuple[TopicImage, int, Log | None]]:
        """Blocks. A log that can't be opened is None here, and named in the node's log."""
        opened: list[tuple[TopicImage, int, Log | None]] = []
        for topic, partition in places:
            config = settings[topic.name].log
            try:
                is_new = self._may_begin_empty(topic.partitions[partition])
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

    def _may_begin_empty(self, registration: PartitionRegistration) -> bool:
        """Whether nobody counts on records that this node might have in a log directory that is offline.

        Other replicas may have changed a partition before this node hears that there is one. The controller
        may know where this node's replica lies; if it does not, it hears that it is lost
        (`penstock.broker.directory_assignments`), and once it counts on others the replica begins anew.
        """
        if not registration.leader_epoch and not registration.partition_epoch:
            return True
        told = registration.directory(self._node_id)
        if told in (UNASSIGNED_DIRECTORY, LOST_DIRECTORY):
            return self._node_id not in (*registration.isr, *registration.elr)
        return any(told == uuid_from_text(online) for online in self._logs.directory_ids())

    def _lead_or_follow(self, topic: TopicImage, partition: int, registration: PartitionRegistration) -> None:
        replica = self._replicas.get((topic.topic_id, partition))
        if replica is None:
            return
        changed = replica.lead_or_follow(registration, self._node_id, self._replication)
        if changed or replica.replicated is not None:
            self._replication.follow_change(replica, changed)

    def _delete(self, topic: TopicImage, partition: int) -> None:
        self.failed.discard((topic.name, partition))
        replica = self._replicas.pop((topic.topic_id, partition), None)
        if replica is None:
            return
        del self._replicas[topic.name, partition]
        self._stop(replica)
        try:
            self._logs.delete(topic.name, partition)
        except OSError as error:
            log.error("cannot delete log topic=%s partition=%d error=%s", topic.name, partition, error)

    def _apply_configs(self, changed: set[ConfigResource]) -> None:
        topics = {resource.name for resource in changed if resource.type == ResourceType.TOPIC}
        for topic in topics:
            overrides = self._image.configs.of(ResourceType.TOPIC, topic)
            self._replication.throttle_topic(
                topic,
                overrides.get("leader.replication.throttled.replicas", "").split(","),
                overrides.get("follower.replication.throttled.replicas", "").split(","),
            )
        everywhere = any(resource.type == ResourceType.BROKER for resource in changed)
        for replica in self:
            if everywhere or replica.topic in topics:
                replica.configure(self._settings_of(replica.topic))
