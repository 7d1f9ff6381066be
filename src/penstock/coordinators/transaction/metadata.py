"""The metadata of one transactional id, and the steps it can take.

A step changes nothing: it returns the metadata that will be valid once the step's record is in the log.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.coordinators.transaction.states import VALID_PREVIOUS_STATES, TransactionState
from penstock.protocol.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.errors import ErrorCode, KafkaError

__all__ = [
    "EPOCH_BUMP_VERSION",
    "LAST_EPOCH",
    "NO_TIMEOUT_MS",
    "ProducerIdAndEpoch",
    "TopicPartition",
    "TransactionMetadata",
    "is_epoch_exhausted",
]

TopicPartition: TypeAlias = tuple[str, int]
ProducerIdAndEpoch: TypeAlias = tuple[int, int]

MAX_EPOCH = 2**15 - 1
"""The last epoch. No producer gets it, so that the coordinator can still fence the epoch before."""
LAST_EPOCH = MAX_EPOCH - 1
"""The last epoch that a producer gets."""

NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a transaction with an external coordinator (KIP-939), which never times out."""

EPOCH_BUMP_VERSION = 2
"""From this transaction version on, every transaction bumps the epoch (KIP-890)."""

NO_TIMESTAMP = -1


def is_epoch_exhausted(epoch: int) -> bool:
    """Whether no producer may get an epoch after this one."""
    return epoch >= LAST_EPOCH


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """The state of one transactional id, with timestamps in milliseconds.

    The log does not contain `last_producer_epoch`: only the coordinator that set it knows it.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    last_update_timestamp_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The previous epoch, if the producer that had it also has the current one."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last step, mostly the same as the current one."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id with which the producer continues, set while prepared with an exhausted epoch."""
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    client_transaction_version: int = 0
    """The protocol version of the transaction."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def deadline_ms(self) -> int | None:
        """The first moment at which an open transaction has timed out; None if it has no timeout."""
        if self.state is not TransactionState.ONGOING or self.timeout_ms == NO_TIMEOUT_MS:
            return None
        return self.start_timestamp_ms + self.timeout_ms + 1

    # -- InitProducerId ------------------------------------------------------------------------------

    def bump_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> "TransactionMetadata":
        """Start over with the next epoch.

        A producer that continues after an error sends the epoch it has (KIP-360). If that is
        `last_producer_epoch`, the response to its first request was lost, and it gets the epoch that was
        meant for it. This fences no other producer, because the InitProducerId of a new one clears
        `last_producer_epoch`. The same applies to the highest epoch, where Apache Kafka 4.3 answers
        UNKNOWN_SERVER_ERROR. Raises PRODUCER_FENCED for any other epoch.
        """
        epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None and self.producer_epoch != NO_PRODUCER_EPOCH:
            if expected_epoch == self.producer_epoch:
                last_epoch = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
        assert epoch < MAX_EPOCH
        return self._begin(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def rotate_producer_id(
        self, producer_id: int, timeout_ms: int, *, keep_last_epoch: bool, now_ms: int
    ) -> "TransactionMetadata":
        """Start over with a new producer id, because the epochs of the old one are exhausted."""
        last_epoch = self.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH
        return self._begin(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _begin(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> "TransactionMetadata":
        self._check_may_become(TransactionState.EMPTY)
        return replace(
            self,
            state=TransactionState.EMPTY,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_timestamp_ms=NO_TIMESTAMP,
            last_update_timestamp_ms=now_ms,
        )

    # -- a transaction -------------------------------------------------------------------------------

    def add_partitions(
        self, partitions: Iterable[TopicPartition], client_transaction_version: int, now_ms: int
    ) -> "TransactionMetadata":
        """Add these partitions to the transaction; the first ones begin it."""
        self._check_may_become(TransactionState.ONGOING)
        is_open = self.state is TransactionState.ONGOING
        return replace(
            self,
            state=TransactionState.ONGOING,
            previous_producer_id=self.producer_id,
            partitions=self.partitions.union(partitions),
            start_timestamp_ms=self.start_timestamp_ms if is_open else now_ms,
            last_update_timestamp_ms=now_ms,
            client_transaction_version=client_transaction_version,
        )

    def prepare(
        self, *, commit: bool, client_transaction_version: int, next_producer_id: int, now_ms: int
    ) -> "TransactionMetadata":
        """Decide the transaction; from version 2 on its markers carry the next epoch.

        Aborting a transaction that never began sets its start to now, because readers of the log expect one.
        """
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        self._check_may_become(state)
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_transaction_version >= EPOCH_BUMP_VERSION:
            epoch, last_epoch = min(epoch + 1, MAX_EPOCH), epoch
        is_open = self.state is TransactionState.ONGOING
        return replace(
            self,
            state=state,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            start_timestamp_ms=self.start_timestamp_ms if is_open else now_ms,
            last_update_timestamp_ms=now_ms,
            client_transaction_version=client_transaction_version,
        )

    def fence(self) -> "TransactionMetadata":
        """Return the metadata with the epoch bumped, for an abort that the producer did not request."""
        return replace(
            self,
            producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    @property
    def producer_after_completion(self) -> ProducerIdAndEpoch:
        """The producer's id and epoch once the prepared transaction is complete."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    def complete(self, now_ms: int) -> "TransactionMetadata":
        """Complete the transaction, now that every partition has its marker.

        The last epoch stays as the client saw it, even if the producer id changes.
        """
        committed = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        self._check_may_become(state)
        producer_id, epoch = self.producer_after_completion
        return replace(
            self,
            state=state,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=epoch,
            partitions=frozenset(),
            last_update_timestamp_ms=now_ms,
        )

    def _check_may_become(self, state: TransactionState) -> None:
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.transactional_id}: {self.state} to {state}"
