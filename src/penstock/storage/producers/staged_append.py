"""Validates an append against the state of its producers before it is written."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from penstock.protocol.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader
from penstock.protocol.records import EndTxnMarker
from penstock.storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from penstock.storage.names import TopicPartition
from penstock.storage.producers.producer_entry import (
    NO_OFFSET,
    BatchMetadata,
    CompletedTransaction,
    ProducerEntry,
)
from penstock.storage.producers.verification import Verification

_MAX_SEQUENCE: Final = 0x7FFFFFFF
_MAX_EPOCH: Final = 0x7FFF
_TRANSACTIONS_V2: Final = 2


class Origin(Enum):
    """The source of an append. Sequences are checked for clients only, epochs for all but replication."""

    CLIENT = auto()
    COORDINATOR = auto()
    REPLICATION = auto()


class StagedAppend:
    """The change that one append would make to one producer's entry; adding batches validates them."""

    def __init__(
        self,
        current: ProducerEntry,
        origin: Origin,
        log_name: TopicPartition,
        verification: Verification | None = None,
    ) -> None:
        self.producer_id = current.producer_id
        self.epoch = current.epoch
        self.coordinator_epoch = current.coordinator_epoch
        self.last_timestamp = current.last_timestamp
        self.txn_first_offset = current.txn_first_offset
        self.batches: list[BatchMetadata] = []
        self.started: list[int] = []
        self.completed: list[CompletedTransaction] = []
        self._current = current
        self._origin = origin
        self._log_name = log_name
        self._verification = verification

    def add_data(self, header: BatchHeader, first_offset: int) -> None:
        self._check_epoch(header.producer_epoch, first_offset)
        if self._origin is Origin.CLIENT:
            self._check_sequence(header, first_offset)
        self._move_to_epoch(header.producer_epoch)
        last_offset = first_offset + header.last_offset_delta
        self.batches.append(
            BatchMetadata(header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp)
        )
        self.last_timestamp = header.max_timestamp
        if header.is_transactional:
            if self.txn_first_offset == NO_OFFSET:
                self.txn_first_offset = first_offset
                self.started.append(first_offset)
        elif self.txn_first_offset != NO_OFFSET and self._origin is not Origin.REPLICATION:
            raise InvalidTransactionState(
                f"{self._where(first_offset)}: the batch is not part of the open transaction, which began at "
                f"offset {self.txn_first_offset}"
            )

    def add_marker(
        self, header: BatchHeader, offset: int, marker: EndTxnMarker, transaction_version: int = 0
    ) -> None:
        if transaction_version >= _TRANSACTIONS_V2:
            self._check_bumped_epoch(header.producer_epoch, offset)
        else:
            self._check_epoch(header.producer_epoch, offset)
        if marker.coordinator_epoch < self.coordinator_epoch and self._origin is not Origin.REPLICATION:
            raise TransactionCoordinatorFenced(
                f"{self._where(offset)}: coordinator epoch {marker.coordinator_epoch} is older than "
                f"{self.coordinator_epoch}"
            )
        if self.txn_first_offset != NO_OFFSET:
            self.completed.append(
                CompletedTransaction(self.producer_id, self.txn_first_offset, offset, not marker.committed)
            )
        self._move_to_epoch(header.producer_epoch)
        self.coordinator_epoch = marker.coordinator_epoch
        self.txn_first_offset = NO_OFFSET
        self.last_timestamp = header.max_timestamp

    def _move_to_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def _check_epoch(self, epoch: int, offset: int) -> None:
        if epoch < self.epoch and self._origin is not Origin.REPLICATION:
            raise InvalidProducerEpoch(
                f"{self._where(offset)}: epoch {epoch} is older than the last seen {self.epoch}"
            )

    def _check_bumped_epoch(self, epoch: int, offset: int) -> None:
        """Check that a marker of transactions version 2 has a higher epoch than the records (KIP-1228).

        So a late marker cannot end a transaction that began meanwhile. A marker of the same epoch is a retry
        if no transaction is open; at the highest epoch, it is allowed because there is no higher one. Raises
        InvalidProducerEpoch.
        """
        if epoch > self.epoch or self._origin is Origin.REPLICATION:
            return
        if epoch == self.epoch and (self.txn_first_offset == NO_OFFSET or epoch == _MAX_EPOCH):
            return
        raise InvalidProducerEpoch(
            f"{self._where(offset)}: the marker's epoch {epoch} is not above the last seen {self.epoch}"
        )

    def _check_sequence(self, header: BatchHeader, offset: int) -> None:
        """Check that sequences continue after the last batch, or begin at 0 in a new epoch.

        A producer without state may begin with any sequence, since its records may have been deleted. This
        cannot be the case in transactions version 2, whose epoch is new. While a batch waits for
        verification, no batch with a higher sequence may overtake it. Raises OutOfOrderSequence.
        """
        sequence = header.base_sequence
        if (verification := self._verification) is not None:
            lowest = verification.lowest_sequence
            if verification.supports_epoch_bump and not self._current.batches:
                lowest = 0
            if sequence > lowest:
                raise OutOfOrderSequence(
                    f"{self._where(offset)}: sequence {sequence} arrived before the expected {lowest}"
                )
        if header.producer_epoch != self.epoch:
            if sequence != 0 and self.epoch != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequence(
                    f"{self._where(offset)}: sequence {sequence} begins epoch {header.producer_epoch} "
                    f"(last seen epoch {self.epoch}), expected 0"
                )
            return
        current = self._current
        if current.epoch == NO_PRODUCER_EPOCH:
            return
        if self.batches:
            last = self.batches[-1].last_sequence
        else:
            last = current.last_sequence if header.producer_epoch == current.epoch else NO_SEQUENCE
        if sequence != last + 1 and not (sequence == 0 and last == _MAX_SEQUENCE):
            raise OutOfOrderSequence(
                f"{self._where(offset)}: sequence {sequence} does not follow the last one, {last}"
            )

    def _where(self, offset: int) -> str:
        return f"{self._log_name}, offset {offset}, producer id {self.producer_id}"
