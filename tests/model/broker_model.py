"""The behaviour required of a node, in a few hundred lines: logs as lists, transactions as a table.

For each request the model gives the errors that the node may return and, if the request is accepted, the
contents of the logs afterwards: every offset of every record and marker. The behaviour is Kafka's:
`test_node_model_kafka.py` runs the same machine against Apache Kafka. Producer epochs are taken from the
responses, not predicted.
"""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, encode_batch

Partition = tuple[str, int]
Member = tuple[str, int]  # member id and generation
Read = tuple[int, bytes | None, bytes | None]  # offset, key, value
Errors = frozenset[ErrorCode]

OK: Errors = frozenset({ErrorCode.NONE})
NOT_IN_SEQUENCE: Errors = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})
NO_TRANSACTION: Errors = frozenset({ErrorCode.INVALID_TXN_STATE})
NOT_IN_TRANSACTION: Errors = frozenset({ErrorCode.TRANSACTION_ABORTABLE})
FENCED: Errors = frozenset({ErrorCode.PRODUCER_FENCED})
OTHER_PRODUCER: Errors = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING})
OLD_EPOCH: Errors = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH})
NO_MEMBER: Errors = frozenset({ErrorCode.UNKNOWN_MEMBER_ID})
OTHER_GENERATION: Errors = frozenset({ErrorCode.ILLEGAL_GENERATION})
UNKNOWN: Errors = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

NOBODY: Member = ("", -1)
BATCHES_REMEMBERED = 5  # newest batches of a producer in which a partition finds duplicates


@dataclass
class Entry:
    """One offset of a log: a record or a marker."""

    key: bytes | None
    value: bytes | None
    producer_id: int = -1
    transactional: bool = False
    is_marker: bool = False
    committed: bool | None = None  # of a transactional record, once its transaction has ended


@dataclass
class Batch:
    """Records of one producer under consecutive sequence numbers, written or still to be written."""

    records: list[tuple[bytes | None, bytes | None]]
    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    codec: int = 0

    @property
    def last_sequence(self) -> int:
        return self.base_sequence + len(self.records) - 1

    def encode(self) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        return encode_batch(
            [Record(index, now_ms, key, value) for index, (key, value) in enumerate(self.records)],
            compression=self.codec,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.base_sequence,
            transactional=self.transactional,
        )


@dataclass
class KnownProducer:
    """A partition's state of a producer; batches are (first sequence, last sequence, base offset)."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))
    certain: int = 0  # newest batches the node surely remembers: a restart keeps one per producer
    transaction_start: int | None = None

    def find(self, batch: Batch) -> int | None:
        """The base offset of the batch if the partition holds it already."""
        if batch.epoch != self.epoch:
            return None
        for first, last, offset in self.batches:
            if (first, last) == (batch.base_sequence, batch.last_sequence):
                return offset
        return None

    def surely_knows(self, offset: int) -> bool:
        return offset in [known[2] for known in list(self.batches)[-self.certain :]]


@dataclass
class PartitionModel:
    """The log of one partition: the index in `entries` is the offset."""

    compacted: bool = False
    entries: list[Entry] = field(default_factory=list)
    log_start_offset: int = 0
    producers: dict[int, KnownProducer] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return len(self.entries)

    @property
    def first_unstable_offset(self) -> int:
        starts = [p.transaction_start for p in self.producers.values() if p.transaction_start is not None]
        return min([*starts, self.end])

    @property
    def last_stable_offset(self) -> int:
        return max(self.first_unstable_offset, self.log_start_offset)

    def stable_offsets(self) -> range:
        """The last stable offsets a node may report: Apache Kafka's may lag behind the log start."""
        return range(self.first_unstable_offset, self.last_stable_offset + 1)

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Return whether this producer has written to the partition in its open transaction."""
        known = self.producers.get(producer_id)
        return known is not None and known.epoch == epoch and known.transaction_start is not None

    def check_sequence(self, batch: Batch, *, is_version_2: bool) -> Errors:
        known = self.producers.get(batch.producer_id)
        if known is None:
            return NOT_IN_SEQUENCE if is_version_2 and batch.base_sequence else OK
        if batch.epoch < known.epoch:
            return OLD_EPOCH
        if batch.epoch > known.epoch:
            return NOT_IN_SEQUENCE if batch.base_sequence else OK
        expected = known.batches[-1][1] + 1 if known.batches else 0
        return OK if batch.base_sequence == expected else NOT_IN_SEQUENCE

    def append(self, batch: Batch) -> int:
        """Append the batch and return its base offset."""
        base = self.end
        for key, value in batch.records:
            self.entries.append(Entry(key, value, batch.producer_id, batch.transactional))
        if batch.producer_id >= 0:
            known = self.producers.get(batch.producer_id)
            if known is None or known.epoch != batch.epoch:
                known = self.producers[batch.producer_id] = KnownProducer(batch.epoch)
            known.batches.append((batch.base_sequence, batch.last_sequence, base))
            known.certain = min(known.certain + 1, BATCHES_REMEMBERED)
            if batch.transactional and known.transaction_start is None:
                known.transaction_start = base
        return base

    def end_transaction(self, producer_id: int, epoch: int, *, commit: bool) -> None:
        """Append a marker, which takes one offset, and commit or abort the transaction's records here."""
        known = self.producers.get(producer_id)
        if known is not None and known.transaction_start is not None:
            for entry in self.entries[known.transaction_start :]:
                if entry.producer_id == producer_id and not entry.is_marker:
                    entry.committed = commit
            known.transaction_start = None
        if known is None or known.epoch != epoch:
            self.producers[producer_id] = KnownProducer(epoch)
        self.entries.append(Entry(None, None, producer_id, is_marker=True))

    def repeat_marker(self) -> None:
        """Append the last marker again: the coordinator died after writing it and before recording that."""
        assert self.entries[-1].is_marker
        self.entries.append(replace(self.entries[-1]))

    def visible(self, offset: int, *, committed: bool) -> Iterator[Read]:
        """The records that a reader gets from an offset on."""
        end = self.last_stable_offset if committed else self.end
        for at in range(max(offset, self.log_start_offset), end):
            entry = self.entries[at]
            if entry.is_marker or (committed and entry.transactional and not entry.committed):
                continue
            yield at, entry.key, entry.value

    def node_restarted(self) -> None:
        for known in self.producers.values():
            known.certain = min(known.certain, 1)


class State(Enum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


@dataclass
class TransactionModel:
    """The coordinator's state of one transactional id."""

    producer_id: int
    epoch: int
    last_epoch: int = -1  # a producer with this epoch may request the current one; a restart forgets it
    state: State = State.EMPTY
    ended_with_bump: bool = False  # every end bumps the epoch, except one by a client of version 1
    partitions: set[Partition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)

    def check_producer(self, producer_id: int, epoch: int) -> Errors:
        if producer_id != self.producer_id:
            return OTHER_PRODUCER
        return OK if epoch == self.epoch else FENCED

    def end_in_version_1(self, producer_id: int, epoch: int, *, commit: bool) -> tuple[Errors, bool]:
        """Return the errors, and whether a transaction ends now."""
        errors = self.check_producer(producer_id, epoch)
        if errors != OK:
            return errors, False
        if self.state is State.ONGOING:
            return OK, True
        repeated = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
        return (OK if self.state is repeated else NO_TRANSACTION), False

    def end_in_version_2(self, producer_id: int, epoch: int, *, commit: bool) -> tuple[Errors, bool]:
        """Return the errors, and whether a transaction ends now.

        The epoch of a repeated request is one behind, unlike that of the next transaction's end. If the last
        end did not bump the epoch, a request with that epoch comes from a fenced producer. Apache Kafka takes
        that for a repeated request, too.
        """
        if producer_id != self.producer_id:
            return OTHER_PRODUCER, False
        complete = self.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
        if complete and epoch + 1 == self.epoch:
            repeated = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
            errors = OK if self.state is repeated else NO_TRANSACTION
            return (errors if self.ended_with_bump else errors | FENCED), False
        if epoch != self.epoch:
            return FENCED, False
        if self.state is State.ONGOING or not commit:
            return OK, True  # there is always something to abort: the epoch is bumped
        return NO_TRANSACTION, False


@dataclass
class GroupModel:
    """The committed offsets of a group; the later commit in the log wins, whenever its transaction ends."""

    committed: dict[Partition, tuple[int, int]] = field(default_factory=dict)  # (position, offset)
    pending: dict[int, dict[Partition, tuple[int, int]]] = field(default_factory=dict)  # by producer id
    member: Member | None = None
    former: Member | None = None
    generation: int = 0

    def identity(self, choice: int) -> Member:
        """Choose an identity to commit as: none, the member, the member a generation ago, or a former one."""
        known = [member for member in (self.member, self.former) if member is not None]
        if self.member is not None:
            known.append((self.member[0], self.generation - 1))
        return [NOBODY, *known][choice % (len(known) + 1)]

    def check_member(self, member: Member, *, transactional: bool) -> Errors:
        if member == NOBODY:
            return OK if transactional or self.member is None else NO_MEMBER
        if self.member is None or member[0] != self.member[0]:
            return NO_MEMBER
        return OK if member[1] == self.generation else OTHER_GENERATION

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        for partition, placed in self.pending.pop(producer_id, {}).items():
            if commit and placed > self.committed.get(partition, (-1, -1)):
                self.committed[partition] = placed

    def offset(self, partition: Partition, *, require_stable: bool) -> tuple[ErrorCode, int]:
        if require_stable and any(partition in offsets for offsets in self.pending.values()):
            return ErrorCode.UNSTABLE_OFFSET_COMMIT, -1
        return ErrorCode.NONE, self.committed.get(partition, (0, -1))[1]


class BrokerModel:
    """The model of a whole node."""

    def __init__(self) -> None:
        self.partitions: dict[Partition, PartitionModel] = {}
        self.transactions: dict[str, TransactionModel] = {}
        self.groups: dict[str, GroupModel] = {}
        self._position = 0

    def next_position(self) -> int:
        """The position in the groups' log of the next commit, to order commits."""
        self._position += 1
        return self._position

    def add_partition(
        self, transactional_id: str, producer_id: int, epoch: int, partition: Partition
    ) -> Errors:
        transaction = self.transactions[transactional_id]
        errors = transaction.check_producer(producer_id, epoch)
        if errors == OK:
            self._begin(transaction)
            transaction.partitions.add(partition)
        return errors

    def add_group(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> Errors:
        transaction = self.transactions[transactional_id]
        errors = transaction.check_producer(producer_id, epoch)
        if errors == OK:
            self._begin(transaction)
            transaction.groups.add(group)
        return errors

    def _begin(self, transaction: TransactionModel) -> None:
        if transaction.state is not State.ONGOING:
            transaction.state = State.ONGOING
            transaction.partitions.clear()
            transaction.groups.clear()

    def check_produce(
        self, partition: Partition, batch: Batch, transactional_id: str | None, *, is_version_2: bool
    ) -> tuple[Errors, int | None]:
        """Return the errors a batch may meet, and the offset of the batch that it is a duplicate of, if any.

        In version 2 this adds the partition to the transaction, whether or not the batch is then accepted.
        """
        log = self.partitions.get(partition)
        if log is None:
            return UNKNOWN, None
        if batch.transactional and not log.is_open(batch.producer_id, batch.epoch):
            assert transactional_id is not None
            transaction = self.transactions[transactional_id]
            if is_version_2:
                errors = self.add_partition(transactional_id, batch.producer_id, batch.epoch, partition)
            else:
                errors = transaction.check_producer(batch.producer_id, batch.epoch)
                if errors == OK and (
                    transaction.state is not State.ONGOING or partition not in transaction.partitions
                ):
                    errors = NOT_IN_TRANSACTION
            if errors != OK:
                return (OLD_EPOCH if errors == FENCED else errors), None
        known = log.producers.get(batch.producer_id)
        if known is not None and (offset := known.find(batch)) is not None:
            return (OK if known.surely_knows(offset) else OK | NOT_IN_SEQUENCE), offset
        return log.check_sequence(batch, is_version_2=is_version_2 and batch.transactional), None

    def end_transaction(self, transactional_id: str, *, commit: bool, epoch: int) -> None:
        """Write markers with `epoch` to every partition of the transaction."""
        transaction = self.transactions[transactional_id]
        if transaction.state is State.ONGOING:
            for partition in transaction.partitions:
                if (log := self.partitions.get(partition)) is not None:
                    log.end_transaction(transaction.producer_id, epoch, commit=commit)
            for group in transaction.groups:
                self.groups[group].end_transaction(transaction.producer_id, commit=commit)
        transaction.state = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
        transaction.ended_with_bump = epoch > transaction.epoch
        transaction.partitions.clear()
        transaction.groups.clear()

    def fence(self, transactional_id: str) -> None:
        """Abort the open transaction, under an epoch that its producer does not have."""
        transaction = self.transactions[transactional_id]
        if transaction.state is State.ONGOING:
            transaction.last_epoch = transaction.epoch
            self.end_transaction(transactional_id, commit=False, epoch=transaction.epoch + 1)
            transaction.epoch += 1

    def bump_epoch(self, transactional_id: str, producer_id: int, epoch: int) -> Errors:
        """Bump the epoch at a producer's request, and abort the open transaction even if it is fenced."""
        transaction = self.transactions[transactional_id]
        if producer_id != transaction.producer_id:
            return FENCED
        self.fence(transactional_id)
        if epoch not in (transaction.epoch, transaction.last_epoch):
            return FENCED
        transaction.state = State.EMPTY
        return OK

    def init_producer(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """Register a producer for a transactional id and abort any open transaction."""
        if transactional_id in self.transactions:
            self.fence(transactional_id)
        self.transactions[transactional_id] = TransactionModel(producer_id, epoch)

    def node_restarted(self) -> None:
        for log in self.partitions.values():
            log.node_restarted()
        for transaction in self.transactions.values():
            transaction.last_epoch = -1
