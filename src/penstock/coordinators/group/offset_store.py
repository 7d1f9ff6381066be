"""The committed offsets of all groups of one partition, which only replay changes."""

from collections.abc import Iterator

from penstock.protocol.messages import OffsetCommitValue

__all__ = ["CommittedOffset", "OffsetStore"]

NO_TIMESTAMP = -1

Offsets = dict[str, dict[int, "CommittedOffset"]]  # topic → partition → offset


class CommittedOffset:
    """One committed offset; treat it as immutable."""

    __slots__ = (
        "commit_timestamp_ms",
        "expire_timestamp_ms",
        "leader_epoch",
        "metadata",
        "offset",
        "record_offset",
        "topic_id",
    )

    def __init__(
        self,
        offset: int,
        leader_epoch: int,  # -1: unknown
        metadata: str,
        commit_timestamp_ms: int,
        expire_timestamp_ms: int | None,  # set only by commits of old API versions
        topic_id: bytes,
        record_offset: int = -1,  # the offset of the commit's own record
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp_ms = commit_timestamp_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        self.topic_id = topic_id
        self.record_offset = record_offset

    @classmethod
    def from_record(cls, value: OffsetCommitValue, record_offset: int) -> "CommittedOffset":
        expire_ms = value.expire_timestamp
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            None if expire_ms == NO_TIMESTAMP else expire_ms,
            value.topic_id,
            record_offset,
        )


class OffsetStore:
    """Offsets by group, topic and partition, plus the pending offsets of open transactions.

    Offsets committed inside a transaction stay pending under its producer id until its marker is replayed.
    Until then the partition is *unstable* for readers that require stable offsets (KIP-447).
    """

    __slots__ = ("_by_group", "_pending", "_unstable", "count")

    def __init__(self) -> None:
        self._by_group: dict[str, Offsets] = {}
        self._pending: dict[int, dict[tuple[str, str, int], CommittedOffset]] = {}
        self._unstable: dict[str, dict[tuple[str, int], set[int]]] = {}
        self.count = 0

    # -- reading -------------------------------------------------------------------------------------

    def of_group(self, group_id: str) -> Offsets:
        """The group's offsets, which the caller must not change; empty if it has none."""
        return self._by_group.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self._by_group.get(group_id)
        partitions = topics.get(topic) if topics else None
        return partitions.get(partition) if partitions else None

    def groups(self) -> Iterator[tuple[str, Offsets]]:
        return iter(self._by_group.items())

    def pending(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        """Iterate over the group, topic, partition and offset of all pending commits."""
        for offsets in self._pending.values():
            for (group_id, topic, partition), offset in offsets.items():
                yield group_id, topic, partition, offset

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        unstable = self._unstable.get(group_id)
        return unstable is not None and (topic, partition) in unstable

    def unstable_partitions(self, group_id: str) -> list[tuple[str, int]]:
        return list(self._unstable.get(group_id, ()))

    # -- replay --------------------------------------------------------------------------------------

    def put(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        partitions = self._by_group.setdefault(group_id, {}).setdefault(topic, {})
        if partition not in partitions:
            self.count += 1
        partitions[partition] = offset

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, offset: CommittedOffset
    ) -> None:
        self._pending.setdefault(producer_id, {})[group_id, topic, partition] = offset
        unstable = self._unstable.setdefault(group_id, {})
        unstable.setdefault((topic, partition), set()).add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove an offset together with pending commits of open transactions."""
        self._remove_committed(group_id, topic, partition)
        for producer_id in self._unstable.get(group_id, {}).get((topic, partition), set()).copy():
            self._pending[producer_id].pop((group_id, topic, partition), None)
            self._settle(producer_id, group_id, topic, partition)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply or discard the offsets of this producer's transaction.

        A plain commit that follows the transactional one in the log stays: the marker decides whether the
        transaction counts, and the offset of each record decides which commit is the newest.
        """
        for (group_id, topic, partition), offset in self._pending.pop(producer_id, {}).items():
            self._settle(producer_id, group_id, topic, partition)
            current = self.get(group_id, topic, partition)
            if committed and (current is None or offset.record_offset > current.record_offset):
                self.put(group_id, topic, partition, offset)

    def _remove_committed(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._by_group.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        if topics is None or partitions is None or partitions.pop(partition, None) is None:
            return
        self.count -= 1
        if not partitions:
            del topics[topic]
        if not topics:
            del self._by_group[group_id]

    def _settle(self, producer_id: int, group_id: str, topic: str, partition: int) -> None:
        unstable = self._unstable[group_id]
        producers = unstable[topic, partition]
        producers.discard(producer_id)
        if not producers:
            del unstable[topic, partition]
        if not unstable:
            del self._unstable[group_id]
