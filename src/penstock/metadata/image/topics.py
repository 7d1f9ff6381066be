"""Topics and their partitions, as recorded in the metadata log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.protocol.messages import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord

NO_LEADER: Final = -1
LEADER_UNCHANGED: Final = -2
"""In a PartitionChangeRecord: the leader and the leader epoch stay the same."""
RECOVERY_UNCHANGED: Final = -1

UNASSIGNED_DIRECTORY: Final = bytes(15) + b"\x01"
"""No log directory has been chosen for a replica yet (KIP-858)."""
LOST_DIRECTORY: Final = bytes(15) + b"\x02"
"""The directory of a replica is offline (KIP-858)."""
MIGRATING_DIRECTORY: Final = bytes(16)
"""The replica is older than directory ids (KIP-858)."""
RESERVED_DIRECTORIES: Final = 100
"""Ids below this number are reserved and name no directory (KIP-858)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRegistration:
    """The replicas and the leader of a partition; immutable, so a change creates a new object."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionRegistration:
        replicas = tuple(record.replicas)
        return cls(
            replicas=replicas,
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories) or (MIGRATING_DIRECTORY,) * len(replicas),
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            leader_recovery_state=record.leader_recovery_state,
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )

    def to_record(self, topic_id: bytes, partition_id: int) -> PartitionRecord:
        return PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )

    def merge(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """Apply a change; a record that names a leader raises the leader epoch, even if the leader stays."""
        elected = record.leader != LEADER_UNCHANGED
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        return replace(
            self,
            replicas=replicas,
            isr=self.isr if record.isr is None else tuple(record.isr),
            leader=record.leader if elected else self.leader,
            leader_epoch=self.leader_epoch + 1 if elected else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            directories=self._merged_directories(replicas, record),
            removing_replicas=_merged(record.removing_replicas, self.removing_replicas),
            adding_replicas=_merged(record.adding_replicas, self.adding_replicas),
            leader_recovery_state=(
                self.leader_recovery_state
                if record.leader_recovery_state == RECOVERY_UNCHANGED
                else record.leader_recovery_state
            ),
            elr=_merged(record.eligible_leader_replicas, self.elr),
            last_known_elr=_merged(record.last_known_elr, self.last_known_elr),
        )

    @property
    def preferred_replica(self) -> int:
        """The first replica, which leads whenever it can."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def has_preferred_leader(self) -> bool:
        return self.leader == self.preferred_replica

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are being added or removed (KIP-455)."""
        return bool(self.adding_replicas or self.removing_replicas)

    def directory(self, replica: int) -> bytes | None:
        """The log directory of a replica; None if the broker has no replica."""
        return dict(zip(self.replicas, self.directories, strict=True)).get(replica)

    def _merged_directories(
        self, replicas: tuple[int, ...], record: PartitionChangeRecord
    ) -> tuple[bytes, ...]:
        if record.directories is not None:
            return tuple(record.directories)
        known = dict(zip(self.replicas, self.directories, strict=True))
        return tuple(known.get(replica, UNASSIGNED_DIRECTORY) for replica in replicas)


def _merged(changed: list[int] | None, now: tuple[int, ...]) -> tuple[int, ...]:
    return now if changed is None else tuple(changed)


@dataclass(slots=True)
class TopicImage:
    """One topic; ``partitions`` maps partition ids, which start at 0 and have no gaps."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)


class TopicsImage:
    """All topics, by name and by id."""

    def __init__(self) -> None:
        self.by_name: dict[str, TopicImage] = {}
        self.by_id: dict[bytes, TopicImage] = {}

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[TopicImage]:
        return iter(self.by_name.values())

    def copy(self) -> TopicsImage:
        twin = TopicsImage()
        for image in self:
            copied = TopicImage(image.name, image.topic_id, dict(image.partitions))
            twin.by_name[image.name] = twin.by_id[image.topic_id] = copied
        return twin

    def partition(self, topic: str, partition_id: int) -> PartitionRegistration | None:
        image = self.by_name.get(topic)
        return None if image is None else image.partitions.get(partition_id)

    def create(self, record: TopicRecord) -> TopicImage:
        assert record.name not in self.by_name, f"topic {record.name} is there already"
        image = TopicImage(record.name, record.topic_id)
        self.by_name[record.name] = self.by_id[record.topic_id] = image
        return image

    def remove(self, record: RemoveTopicRecord) -> TopicImage:
        image = self.by_id.pop(record.topic_id)
        del self.by_name[image.name]
        return image

    def put_partition(self, record: PartitionRecord) -> TopicImage:
        image = self.by_id[record.topic_id]
        image.partitions[record.partition_id] = PartitionRegistration.from_record(record)
        return image

    def change_partition(self, record: PartitionChangeRecord) -> TopicImage:
        image = self.by_id[record.topic_id]
        image.partitions[record.partition_id] = image.partitions[record.partition_id].merge(record)
        return image

    def clear_elr(self, topic_name: str) -> list[tuple[bytes, int]]:
        """Clear the eligible leader replicas (KIP-966) of one topic, or of all if the name is empty.

        Returns the topic id and partition id of every partition that had some and has thus changed.
        """
        changed = []
        for image in [self.by_name[topic_name]] if topic_name else self:
            for partition_id, partition in image.partitions.items():
                if partition.elr or partition.last_known_elr:
                    image.partitions[partition_id] = partition.merge(
                        PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
                    )
                    changed.append((image.topic_id, partition_id))
        return changed

    def records(self) -> Iterator[TopicRecord | PartitionRecord]:
        for image in self:
            yield TopicRecord(name=image.name, topic_id=image.topic_id)
            for partition_id, partition in sorted(image.partitions.items()):
                yield partition.to_record(image.topic_id, partition_id)
