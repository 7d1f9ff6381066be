"""What the coordinator knows of one transactional id, and the steps it can take.

A step does not change anything: it gives the metadata as they will be, once their record is in the log.
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

#: The last epoch there is. Producers never get it: with it the coordinator can still fence the one before.
MAX_EPOCH = 2**15 - 1
#: The last one that a producer gets.
LAST_EPOCH = MAX_EPOCH - 1

#: The timeout of a transaction that somebody else coordinates (KIP-939): it never times out.
NO_TIMEOUT_MS = 2**31 - 1

#: From this transaction version on, the epoch is bumped with every transaction (KIP-890).
EPOCH_BUMP_VERSION = 2

NO_TIMESTAMP = -1


def is_epoch_exhausted(epoch: int) -> bool:
    """Whether no epoch after this one may be given to a producer."""
    return epoch >= LAST_EPOCH


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """Timestamps are in milliseconds. `last_producer_epoch` is not in the log: only who set it knows it."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    last_update_timestamp_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    #: The epoch before, if the producer that had it is the one that has the current epoch.
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    #: The producer id before the last step, which is mostly the same.
    previous_producer_id: int = NO_PRODUCER_ID
    #: While prepared with a used-up epoch: the id that the producer goes on with.
    next_producer_id: int = NO_PRODUCER_ID
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    #: The version of the protocol that the transaction is run by.
    client_transaction_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def deadline_ms(self) -> int | None:
        """The first moment at which an open transaction has taken too long; None if it may take forever."""
        if self.state is not TransactionState.ONGOING or self.timeout_ms == NO_TIMEOUT_MS:
            return None
        return self.start_timestamp_ms + self.timeout_ms + 1

    # -- InitProducerId ------------------------------------------------------------------------------

    def bump_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> "TransactionMetadata":
        """Begin anew with the next epoch.

        A producer that goes on after an error says which epoch it expects (KIP-360). If it is the last one,
        the answer to its first try was lost: it gets the epoch that was meant for it. Nobody else can be
        fenced by that, for a newcomer's InitProducerId leaves no last epoch. It is so with the last of all
        epochs too, where Apache Kafka 4.3 answers UNKNOWN_SERVER_ERROR. Raises PRODUCER_FENCED.
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
        """Begin anew with a new producer id, because the epochs of the old one are used up."""
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
        """Take these partitions into the transaction; the first ones begin it."""
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
        """Decide the transaction; from version 2 on its markers have the next epoch.

        An abort of what never began has no start either, but readers of the log expect one.
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
        """The same with the epoch bumped, for an abort that the producer has not asked for."""
        return replace(
            self,
            producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    @property
    def producer_after_completion(self) -> ProducerIdAndEpoch:
        """Who the producer is once the prepared transaction is complete."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    def complete(self, now_ms: int) -> "TransactionMetadata":
        """Every partition has its marker. What the client saw of the last epoch stays, whatever follows."""
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
