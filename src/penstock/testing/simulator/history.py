"""Record what clients have seen, and check that one log without losses can explain it.

Each value is written once, by one producer. Clients report here each record that they read or get
acknowledged; two different values at one offset prove a violation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

CONTROL: Final = b"<control>"


class Violation(AssertionError):
    """The cluster broke a guarantee."""


class Partition(NamedTuple):
    """A partition with its topic's id, since a topic that is deleted and recreated is another topic."""

    topic: str
    number: int
    topic_id: bytes = b""

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Decision(Enum):
    """How a transaction ended, as far as its producer knows."""

    OPEN = "open"
    COMMITTING = "commit requested"
    ABORTING = "abort requested"
    COMMITTED = "committed"
    ABORTED = "aborted"
    LOST = "unknown to its producer"


@dataclass
class Transaction:
    name: str
    decision: Decision = Decision.OPEN
    values: dict[bytes, Partition] = field(default_factory=dict)
    """Acknowledged values, with their partitions."""
    offset: int | None = None
    """The offset that it committed for a group."""
    doubtful: dict[bytes, Partition] = field(default_factory=dict)
    """Values whose batch was refused in the end, with their partitions: they may have been written."""


@dataclass
class PartitionHistory:
    seen: dict[int, bytes] = field(default_factory=dict)
    """The committed records that consumers have read, by offset."""
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    high_watermarks: dict[tuple[str, int], int] = field(default_factory=dict)
    """The last high watermark reported by a leader, by consumer and leader epoch."""
    offset_of: dict[bytes, int] = field(default_factory=dict)
    """The known offsets of values."""
    asked_before: int = 0
    """A client has requested to delete the records below this offset."""
    deleted_before: int = 0
    """The records below this offset are deleted for good, and a client got the confirmation."""


class History:
    """Everything that clients have seen.

    `acknowledged_values` includes values whose offsets are unknown to their producers.
    """

    def __init__(self) -> None:
        self.partitions: dict[Partition, PartitionHistory] = {}
        self.acknowledged_values: dict[bytes, Partition] = {}
        self.transactions: list[Transaction] = []
        self.transaction_of: dict[bytes, Transaction] = {}
        self.doomed: dict[bytes, None] = {}
        """Ids of topics that a client has requested to delete; their contents are not checked any more."""
        self.reads = 0
        self._sent: dict[bytes, Partition] = {}
        self._owners: dict[tuple[str, int, Partition], str] = {}
        self._committing: dict[tuple[str, Partition], int] = {}
        self._committed: dict[str, dict[Partition, int]] = {}
        """The highest offset whose commit was acknowledged, by group and partition."""

    def of(self, partition: Partition) -> PartitionHistory:
        return self.partitions.setdefault(partition, PartitionHistory())

    def acknowledged(self, partition: Partition, offset: int, values: Iterable[bytes]) -> None:
        """Note an acknowledgement of records from `offset` on; -1 if the broker no longer knew it."""
        history = self.of(partition)
        for at, value in enumerate(values, offset):
            self.acknowledged_values[value] = partition
            if offset < 0:
                continue
            seen = history.seen.get(at, value)
            earlier = history.acknowledged.get(at, value)
            if seen != value or earlier != value:
                raise Violation(
                    f"{partition} offset {at}: acknowledged {value!r}, read {seen!r}, before {earlier!r}"
                )
            history.acknowledged[at] = value
            history.offset_of[value] = at

    def sending(self, partition: Partition, values: Iterable[bytes]) -> None:
        """Note that these values are sent to that partition and to no other."""
        self._sent.update(dict.fromkeys(values, partition))

    def read(self, partition: Partition, offset: int, value: bytes) -> None:
        """Note that a consumer has read that record."""
        self.reads += 1
        history = self.of(partition)
        if (meant := self._sent.get(value, partition)) != partition:
            raise Violation(
                f"{partition} of {partition.topic_id.hex()} offset {offset}: {value!r} was sent to "
                f"{meant} of {meant.topic_id.hex()}"
            )
        expected = history.acknowledged.get(offset, value)
        before = history.seen.setdefault(offset, value)
        if expected != value or before != value:
            raise Violation(
                f"{partition} offset {offset}: read {value!r}, before {before!r}, acknowledged {expected!r}"
            )
        history.offset_of[value] = offset

    def high_watermark(self, partition: Partition, consumer: str, leader_epoch: int, offset: int) -> None:
        """Note the high watermark that a consumer received from the leader of this epoch."""
        marks = self.of(partition).high_watermarks
        before = marks.get((consumer, leader_epoch), 0)
        if offset < before:
            raise Violation(
                f"{partition}: {consumer} received a high watermark of {before}, then {offset}, "
                f"in epoch {leader_epoch}"
            )
        marks[consumer, leader_epoch] = offset

    # Records that are deleted

    def delete_before(self, partition: Partition, offset: int) -> None:
        """Note a request to delete the records below that offset."""
        history = self.of(partition)
        history.asked_before = max(history.asked_before, offset)

    def deleted_before(self, partition: Partition, offset: int) -> None:
        """Note a confirmed deletion by a leader whose replicas were all in sync."""
        history = self.of(partition)
        history.deleted_before = max(history.deleted_before, offset)

    def log_start(self, partition: Partition, log_start_offset: int, floor: int) -> None:
        """Check a leader's log start offset, requested after all records below `floor` had been deleted."""
        asked_before = self.of(partition).asked_before
        if not floor <= log_start_offset <= asked_before:
            raise Violation(
                f"{partition} starts at {log_start_offset}: records below {floor} were deleted, "
                f"records below {asked_before} may be"
            )

    def may_be_gone(self, partition: Partition, value: bytes) -> bool:
        """Whether that value may have been deleted."""
        if partition.topic_id in self.doomed:
            return True
        history = self.of(partition)
        return history.offset_of.get(value, 0) < history.asked_before  # 0: its offset is unknown

    # Groups

    def owns(self, group_id: str, generation: int, member_id: str, partitions: Iterable[Partition]) -> None:
        """Note an assignment: no other member may own the partitions in the same generation."""
        for partition in partitions:
            owner = self._owners.setdefault((group_id, generation, partition), member_id)
            if owner != member_id:
                raise Violation(
                    f"group {group_id} generation {generation}: {partition} is owned by {owner} "
                    f"and {member_id}"
                )

    def committing(self, group_id: str, partition: Partition, offset: int) -> None:
        """Note that a commit is sent, so that its offset may be found from now on."""
        highest = self._committing.get((group_id, partition), 0)
        self._committing[group_id, partition] = max(offset, highest)

    def committed(self, group_id: str, partition: Partition, offset: int) -> None:
        """Note an acknowledged commit. A group's commits of a partition only grow."""
        offsets = self._committed.setdefault(group_id, {})
        offsets[partition] = max(offset, offsets.get(partition, 0))

    def committed_now(self, group_id: str) -> dict[Partition, int]:
        """The least offsets that an OffsetFetch sent now must return."""
        return dict(self._committed.get(group_id, {}))

    def fetched(self, group_id: str, known: dict[Partition, int], found: dict[Partition, int]) -> None:
        """Check the offsets `found`, given those `known` as acknowledged before the request was sent."""
        for partition, offset in found.items():
            if offset < known.get(partition, 0) and partition.topic_id not in self.doomed:
                raise Violation(
                    f"group {group_id}: {partition} was committed at {known[partition]}, found at {offset}"
                )
            if offset > self._committing.get((group_id, partition), 0):
                raise Violation(
                    f"group {group_id}: {partition} is found at {offset}, which no member committed"
                )

    # The end

    def check_whole(self, partition: Partition, records: dict[int, bytes]) -> None:
        """Check `records`, all that the partition holds at the end, in order, read with read_uncommitted."""
        history = self.of(partition)
        for name, known in (("read", history.seen), ("acknowledged", history.acknowledged)):
            for offset, value in known.items():
                there = records.get(offset)
                if there != value and not (there is None and offset < history.asked_before):
                    raise Violation(f"{partition} offset {offset}: {value!r} was {name}, found {there!r}")
        offsets: dict[bytes, int] = {}
        latest: dict[bytes, int] = {}
        for offset, value in records.items():
            if value == CONTROL:
                continue
            if value in offsets:
                raise Violation(f"{partition}: {value!r} appears twice, at {offsets[value]} and {offset}")
            offsets[value] = offset
            producer, _, number = value.rpartition(b"-")
            if latest.get(producer, -1) >= int(number):
                raise Violation(f"{partition}: {value!r} at {offset} comes after {latest[producer]}")
            latest[producer] = int(number)
        for value, where in self.acknowledged_values.items():
            if where == partition and value not in offsets and not self.may_be_gone(where, value):
                raise Violation(f"{partition}: {value!r} was acknowledged and is missing")

    def check_offset(self, transactions: Iterable[Transaction], found: int) -> None:
        """Check the final offset of a group to which only these transactions committed, in this order."""
        possible = {0}
        for transaction in transactions:
            if transaction.offset is None:
                continue
            if transaction.decision is Decision.COMMITTED:
                possible = {transaction.offset}
            elif transaction.decision is Decision.COMMITTING:
                possible.add(transaction.offset)
        if found not in possible:
            raise Violation(f"transactions left a group at one of {sorted(possible)}, it is at {found}")

    def check_transactions(self, committed: dict[Partition, set[bytes]]) -> None:
        """Check transactions against `committed`, all values read with read_committed, by partition."""
        for transaction in self.transactions:
            there = _in(committed, {**transaction.values, **transaction.doubtful})
            lasting = {
                value: where
                for value, where in transaction.values.items()
                if not self.may_be_gone(where, value)
            }
            whole = len(_in(committed, lasting)) == len(lasting)
            ended = transaction.decision
            is_lost = ended is Decision.COMMITTED and not whole
            is_raised = ended not in (Decision.COMMITTED, Decision.COMMITTING) and bool(there)
            has_more = any(value in transaction.doubtful for value in there)
            if (there and (not whole or has_more)) or is_lost or is_raised:
                raise Violation(
                    f"transaction {transaction.name} ({ended.value}): {len(there)} of "
                    f"{len(transaction.values)} records are committed: {there[:3]!r}"
                )


def _in(committed: dict[Partition, set[bytes]], values: dict[bytes, Partition]) -> list[bytes]:
    return [value for value, where in values.items() if value in committed.get(where, ())]
