"""The replicas of this node, kept consistent with the metadata image."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from penstock.broker.partitions.replica import NO_EPOCH, Replica
from penstock.broker.partitions.replicated_partition import LeaderContext
from penstock.metadata.image import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, MetadataDelta, ResourceType
from penstock.protocol.batch import check_batches
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.uuids import uuid_from_text
from penstock.storage.producers.staged_append import Origin

if TYPE_CHECKING:
    from penstock.broker.partitions.topic_settings import TopicSettings
    from penstock.broker.setup.host import RunInWorker
    from penstock.metadata.image import (
        ConfigResource,
        MetadataImage,
        PartitionRegistration,
        TopicImage,
    )
    from penstock.storage.directories.log_manager import LogManager
    from penstock.storage.names import TopicPartition
    from penstock.storage.partition.log import AppendInfo, Log
    from penstock.storage.producers.verification import Verification

log = logging.getLogger(__name__)

DELETES_PER_TURN = 16
OPENED_PER_TURN = 64
"""The logs that a worker opens, and the replicas that start to serve, before other tasks get a turn."""

P = ParamSpec("P")
T = TypeVar("T")


class ReplicationOfNode(LeaderContext, Protocol):
    """The replication of this node's partitions with other nodes, as their leader and as their follower."""

    def follow_change(self, replica: Replica, changed: bool) -> None:
        """Start or stop fetching according to the replica's role; `changed` if that role is new."""

    def forget(self, replica: Replica) -> None:
        """Stop replicating a replica that this node no longer serves."""

    def close_idle_fetchers(self) -> None:
        """Close the fetchers of leaders that lead no partition here any more, after a metadata change."""

    def brokers_changed(self) -> None:
        """Recompute the watermarks after brokers were fenced or unfenced."""

    def throttle_topic(self, topic: str, leader_replicas: list[str], follower_replicas: list[str]) -> None:
        """Apply a topic's lists of throttled replicas."""


class ReplicaManager:
    """All replicas of one node, kept consistent with the metadata image."""

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        logs: LogManager,
        settings_of: Callable[[str], TopicSettings],
        clock_ms: Callable[[], int],
        run_in_worker: RunInWorker,
        unsynced: dict[Log, None] | None,
        replication: ReplicationOfNode,
    ) -> None:
        self._replication = replication
        self._node_id = node_id
        self._image = image
        self._logs = logs
        self._settings_of = settings_of
        self._clock_ms = clock_ms
        self._run_in_worker = run_in_worker
        self._unsynced = unsynced
        """The logs with unsynced appends; None unless acknowledgements wait until appends are durable."""
        self._replicas: dict[tuple[str | bytes, int], Replica] = {}
        """Each replica twice: by topic name and partition, and by topic id and partition."""
        self.failed: set[tuple[str, int]] = set()
        """Partitions whose log could not be opened."""
        self.refused_appends: Counter[int] = Counter()
        """Batches of producers that were answered with an error, by its code."""

    def __iter__(self) -> Iterator[Replica]:
        return (replica for key, replica in list(self._replicas.items()) if type(key[0]) is str)

    def __len__(self) -> int:
        return len(self._replicas) // 2

    def get(self, topic: str | bytes, partition: int) -> Replica | None:
        """The replica of a partition by its topic's name or id, whether this node leads it or not."""
        return self._replicas.get((topic, partition))

    def leader(self, topic: str | bytes, partition: int, current_leader_epoch: int = NO_EPOCH) -> Replica:
        """The replica if this node leads it. Raises KafkaError with the code that clients expect if not."""
        replica = self._replicas.get((topic, partition))
        if replica is None:
            raise KafkaError(self._why_absent(topic, partition))
        if not replica.is_leader or (
            current_leader_epoch >= 0 and current_leader_epoch != replica.leader_epoch
        ):
            replica.check_leader(current_leader_epoch)
        return replica

    def readable(self, topic: str | bytes, partition: int, current_leader_epoch: int = NO_EPOCH) -> Replica:
        """The replica to read committed records from, leader or follower (KIP-392). Raises KafkaError."""
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
        """Append batches of a coordinator on this node. Raises KafkaError.

        `verification` is for batches of a transaction, as in `Replica.append`.
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
        """The partitions whose log could not be opened, as a change to `apply` again."""
        topics = self._image.topics.by_name
        return MetadataDelta(
            changed_partitions={
                (topics[topic].topic_id, partition) for topic, partition in self.failed if topic in topics
            }
        )

    def take_offline(self, names: Iterable[TopicPartition]) -> None:
        """Stop serving these partitions, because their log directory has failed."""
        for topic, partition in names:
            replica = self._replicas.pop((topic, partition), None)
            if replica is None:
                continue
            del self._replicas[replica.topic_id, partition]
            self.failed.add((topic, partition))
            self._stop(replica)

    def _stop(self, replica: Replica) -> None:
        """Stop serving a replica, and wake all requests that wait for it so that they fail."""
        replica.is_leader = False
        self._replication.forget(replica)
        replica.wake_all()

    def set_aside_strays(self) -> None:
        """Set aside logs of no replica in the image, so that no later topic uses them. Raises OSError.

        A node that is killed while it deletes a topic leaves such logs, and so may an operator who copies
        data. A partition may also have been reassigned to other nodes while this one was down.
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
        """Apply a change of the image: delete and create replicas, change leaders and configurations.

        Must be called for one change at a time, as workers create logs meanwhile. The image may already
        contain later changes: they take effect here, and are applied again in their own turn.
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
        """Open the logs found at the start and create the others, in a worker: half a millisecond each."""
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
        """The high watermark of a log whose end other replicas may lack: that of the checkpoint, else 0.

        None if the partition has a single replica.
        """
        if len(topic.partitions[partition].replicas) == 1:
            return None
        return self._logs.checkpointed_high_watermark(topic.name, partition) or 0

    def _open_logs(
        self, places: list[tuple[TopicImage, int]], settings: dict[str, TopicSettings]
    ) -> list[tuple[TopicImage, int, Log | None]]:
        """Open or create logs. Blocks. A log that can't be opened is None here, and its error is logged."""
        opened: list[tuple[TopicImage, int, Log | None]] = []
        for topic, partition in places:
            config = settings[topic.name].log
            try:
                is_new = self._may_begin_empty(topic.partitions[partition])
                found = self._logs.create(topic.name, topic.topic_id, partition, config, is_new=is_new)
            except (KafkaError, OSError, ValueError) as error:
                log.error("cannot open log topic=%s partition=%d error=%s", topic.name, partition, error)
                opened.append((topic, partition, None))
            except Exception:  # the other partitions of the change must still get their logs
                log.exception("cannot open log topic=%s partition=%d", topic.name, partition)
                opened.append((topic, partition, None))
            else:
                opened.append((topic, partition, found))
        return opened

    def _may_begin_empty(self, registration: PartitionRegistration) -> bool:
        """Whether a missing log may start empty, as the cluster relies on no copy in an offline directory.

        A changed epoch alone does not prove that this node had a log: other replicas may have changed the
        partition before this node learned of it. If the controller knows the directory of this replica, the
        directory must be online. If it does not, this node reports the replica as lost
        (`directory_assignments`). Once the controller relies on other replicas instead, and this one is
        neither in the ISR nor in the ELR, it may start empty.
        """
        if not registration.leader_epoch and not registration.partition_epoch:
            return True
        registered = registration.directory(self._node_id)
        if registered in (UNASSIGNED_DIRECTORY, LOST_DIRECTORY):
            return self._node_id not in (*registration.isr, *registration.elr)
        return any(registered == uuid_from_text(online) for online in self._logs.directory_ids())

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
