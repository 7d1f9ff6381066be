"""The state of one producer id in a log: its epoch, last batches and the start of its open transaction."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.protocol.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    decrement_sequence,
)
from penstock.storage.producers.snapshot_format import SnapshotEntry

NO_OFFSET: Final = -1
BATCHES_RETAINED: Final = 5
_NO_COORDINATOR_EPOCH: Final = -1


class BatchMetadata(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "txn_first_offset")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = _NO_COORDINATOR_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        self.txn_first_offset = NO_OFFSET
        self.batches: list[BatchMetadata] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def append(self, header: BatchHeader, first_offset: int) -> None:
        """Add a batch of the same epoch and transaction, written at `first_offset`."""
        delta = header.last_offset_delta
        self.extend([BatchMetadata(header.last_sequence, first_offset + delta, delta, header.max_timestamp)])
        self.last_timestamp = header.max_timestamp

    def extend(self, batches: list[BatchMetadata]) -> None:
        """Add the batches, and forget all but the last five."""
        self.batches += batches
        del self.batches[:-BATCHES_RETAINED]

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """The retained batch that `header` repeats, or None."""
        if header.producer_epoch == self.epoch:
            last_sequence = header.last_sequence
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                    return batch
        return None

    def to_snapshot(self) -> SnapshotEntry:
        last = self.batches[-1] if self.batches else BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)
        return SnapshotEntry(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.txn_first_offset,
        )

    @classmethod
    def from_snapshot(cls, snapshot: SnapshotEntry) -> ProducerEntry:
        entry = cls(snapshot.producer_id)
        entry.epoch = snapshot.epoch
        entry.coordinator_epoch = snapshot.coordinator_epoch
        entry.last_timestamp = snapshot.timestamp
        entry.txn_first_offset = max(snapshot.txn_first_offset, NO_OFFSET)
        if snapshot.last_offset >= 0:
            entry.batches.append(
                BatchMetadata(
                    snapshot.last_sequence, snapshot.last_offset, snapshot.offset_delta, snapshot.timestamp
                )
            )
        return entry
