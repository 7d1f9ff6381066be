"""What clients have seen, and whether it can be true of one log that nothing is lost from.

Each value is written once, by one producer. Whoever reads or is acknowledged a record tells it here; the
second one to see something else at an offset is the proof of a violation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

CONTROL: Final = b"<control>"


class Violation(AssertionError):
    """A promise was broken."""


class Partition(NamedTuple):
    """With its topic's id: a topic that is deleted and made again is another one."""

    topic: str
    number: int
    topic_id: bytes = b""

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Decision(Enum):
    """How a transaction ended, as its producer was told."""

    OPEN = "open"
    COMMITTING = "commit asked for"
    ABORTING = "abort asked for"
    COMMITTED = "committed"
    ABORTED = "aborted"
    LOST = "its producer never knew"


@dataclass
class Transaction:
    name: str
    decision: Decision = Decision.OPEN
    values: dict[bytes, Partition] = field(default_factory=dict)
    """Acknowledged within it, and where."""
    offset: int | None = None
    """Committed for a group within it."""
    doubtful: dict[bytes, Partition] = field(default_factory=dict)
    """Sent within it, and refused at last: they may be there."""


@dataclass
class PartitionHistory:
    seen: dict[int, bytes] = field(default_factory=dict)
    """By offset, what committed records consumers have read."""
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    high_watermarks: dict[tuple[str, int], int] = field(default_factory=dict)
    """By consumer and leader epoch, the latest it was told by the leader."""
    offset_of: dict[bytes, int] = field(default_factory=dict)
    """Of values, where somebody knows it."""
    asked_before: int = 0
    """Records below it somebody has asked to delete."""
    deleted_before: int = 0
    """Records below it are deleted for good: whoever asked was told so."""


class History:
    """`acknowledged_values` have offsets that their producers may not know."""

    def __init__(self) -> None:
        self.partitions: dict[Partition, PartitionHistory] = {}
        self.acknowledged_values: dict[bytes, Partition] = {}
        self.transactions: list[Transaction] = []
        self.transaction_of: dict[bytes, Transaction] = {}
        self.doomed: dict[bytes, None] = {}
        """Ids of topics whose deletion somebody has asked for: what they hold doesn't count any more."""
        self.reads = 0
        self._sent: dict[bytes, Partition] = {}
        self._owners: dict[tuple[str, int, Partition], str] = {}
        self._committing: dict[tuple[str, Partition], int] = {}
        self._committed: dict[str, dict[Partition, int]] = {}
        """By group, the highest offset whose commit was acknowledged."""

    def of(self, partition: Partition) -> PartitionHistory:
        return self.partitions.setdefault(partition, PartitionHistory())

    def acknowledged(self, partition: Partition, offset: int, values: Iterable[bytes]) -> None:
        """An acknowledgement of records from `offset` on; -1 where their offset is forgotten."""
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
        """These values are for that partition, and for no other."""
        self._sent.update(dict.fromkeys(values, partition))

    def read(self, partition: Partition, offset: int, value: bytes) -> None:
        """A consumer was given that record."""
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
        """A consumer was told the high watermark by the leader of an epoch."""
        marks = self.of(partition).high_watermarks
        before = marks.get((consumer, leader_epoch), 0)
        if offset < before:
            raise Violation(
                f"{partition}: {consumer} was told a high watermark of {before}, then {offset}, "
                f"in epoch {leader_epoch}"
            )
        marks[consumer, leader_epoch] = offset

    # Records that are deleted

    def delete_before(self, partition: Partition, offset: int) -> None:
        """Somebody asks to delete what lies below that offset."""
        history = self.of(partition)
        history.asked_before = max(history.asked_before, offset)

    def deleted_before(self, partition: Partition, offset: int) -> None:
        """Whoever asked was told so, by a leader whose replicas were all there."""
        history = self.of(partition)
        history.deleted_before = max(history.deleted_before, offset)

    def log_start(self, partition: Partition, log_start_offset: int, floor: int) -> None:
        """A leader said where its log starts, when asked after all below `floor` was deleted."""
        asked_before = self.of(partition).asked_before
        if not floor <= log_start_offset <= asked_before:
            raise Violation(
                f"{partition} starts at {log_start_offset}: what lies below {floor} was deleted, "
                f"what lies below {asked_before} may be"
            )

    def may_be_gone(self, partition: Partition, value: bytes) -> bool:
        """Whether that value may have been deleted."""
        if partition.topic_id in self.doomed:
            return True
        history = self.of(partition)
        return history.offset_of.get(value, 0) < history.asked_before  # 0: its offset was never told

    # Groups

    def owns(self, group_id: str, generation: int, member_id: str, partitions: Iterable[Partition]) -> None:
        """A member was assigned partitions: the assignment is committed, so its generation is no other's."""
        for partition in partitions:
            owner = self._owners.setdefault((group_id, generation, partition), member_id)
            if owner != member_id:
                raise Violation(
                    f"group {group_id} generation {generation}: {partition} is owned by {owner} "
                    f"and {member_id}"
                )

    def committing(self, group_id: str, partition: Partition, offset: int) -> None:
        """A commit is sent: from now on it may be found."""
        highest = self._committing.get((group_id, partition), 0)
        self._committing[group_id, partition] = max(offset, highest)

    def committed(self, group_id: str, partition: Partition, offset: int) -> None:
        """A commit was acknowledged. A group's commits of a partition only grow."""
        offsets = self._committed.setdefault(group_id, {})
        offsets[partition] = max(offset, offsets.get(partition, 0))

    def committed_now(self, group_id: str) -> dict[Partition, int]:
        """What an OffsetFetch that is sent now must find at least."""
        return dict(self._committed.get(group_id, {}))

    def fetched(self, group_id: str, known: dict[Partition, int], found: dict[Partition, int]) -> None:
        """`found` was answered, and `known` had been acknowledged before it was asked for."""
        for partition, offset in found.items():
            if offset < known.get(partition, 0) and partition.topic_id not in self.doomed:
                raise Violation(
                    f"group {group_id}: {partition} was committed at {known[partition]}, found at {offset}"
                )
            if offset > self._committing.get((group_id, partition), 0):
                raise Violation(f"group {group_id}: {partition} is found at {offset}, which nobody committed")

    # The end

    def check_whole(self, partition: Partition, records: dict[int, bytes]) -> None:
        """`records` is all that the partition holds at the end, in its order, read_uncommitted."""
        history = self.of(partition)
        for name, known in (("read", history.seen), ("acknowledged", history.acknowledged)):
            for offset, value in known.items():
                there = records.get(offset)
                if there != value and not (there is None and offset < history.asked_before):
                    raise Violation(f"{partition} offset {offset}: {value!r} was {name}, there is {there!r}")
        offsets: dict[bytes, int] = {}
        latest: dict[bytes, int] = {}
        for offset, value in records.items():
            if value == CONTROL:
                continue
            if value in offsets:
                raise Violation(f"{partition}: {value!r} is there twice, at {offsets[value]} and {offset}")
            offsets[value] = offset
            producer, _, number = value.rpartition(b"-")
            if latest.get(producer, -1) >= int(number):
                raise Violation(f"{partition}: {value!r} at {offset} comes after {latest[producer]}")
            latest[producer] = int(number)
        for value, where in self.acknowledged_values.items():
            if where == partition and value not in offsets and not self.may_be_gone(where, value):
                raise Violation(f"{partition}: {value!r} was acknowledged and is gone")

    def check_offset(self, transactions: Iterable[Transaction], found: int) -> None:
        """`found` is what a group has in the end to which these transactions alone committed, in order."""
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
        """`committed` is all that read_committed gives at the end, by partition."""
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
