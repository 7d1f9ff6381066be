"""Ask a transaction's coordinator before its first batch is appended to a partition (KIP-890).

Clients of transactions version 2 don't report the partitions that they write to: the brokers that lead the
partitions add them. Older clients must add them, and the leaders verify that they did. Either way, no
transaction begins in a log unless its coordinator knows that it must be ended there; see
`storage.producers.verification`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.broker.network.answers import Answer
from penstock.broker.setup.host import NodeHost
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.storage.producers.verification import NOT_REQUIRED, Verification

if TYPE_CHECKING:
    from penstock.broker.partitions.replica import Replica

Codes = dict[tuple[str, int], ErrorCode]
"""The coordinator's answer for each topic and partition."""

COORDINATOR_IS_AWAY = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class ClientSupport(IntEnum):
    """The errors and the protocol that a client understands, by the version of its request."""

    OLDEST_ERRORS = 0
    ABORTABLE_ERROR = 1
    """The client understands TRANSACTION_ABORTABLE."""
    ADD_PARTITION = 2
    """Transactions version 2: brokers add the partitions, and the epoch grows with each transaction."""


class TransactionalProducer(NamedTuple):
    """The producer of a request's transactional batches."""

    transactional_id: str
    producer_id: int
    epoch: int
    support: ClientSupport


class Verified:
    """The result of the verification for each replica that a request appends to."""

    __slots__ = ("_errors", "_judged", "_verifications", "is_enforced")

    def __init__(self, judged: Collection[Replica] = (), *, is_enforced: bool = True) -> None:
        self.is_enforced = is_enforced
        self._judged = judged
        self._verifications: dict[Replica, Verification] = {}
        self._errors: dict[Replica, KafkaError] = {}

    def of(self, replica: Replica) -> Verification | None:
        """The verification for `Replica.append`. Raises KafkaError if the batch must not be appended.

        A replica that began to lead only after the question was not verified: the producer must retry.
        """
        if error := self._errors.get(replica):
            raise error
        if replica not in self._judged:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._verifications.get(replica) if self.is_enforced else NOT_REQUIRED

    def refuse(self, replica: Replica, error: KafkaError) -> None:
        self._errors[replica] = error

    def begin(self, producer: TransactionalProducer, sequences: Mapping[Replica, int]) -> list[Replica]:
        """Begin the verifications, and return the replicas where the transaction is not open yet.

        The coordinator must be asked about these.
        """
        unsure = []
        for replica, sequence in sequences.items():
            try:
                verification = replica.begin_verification(
                    producer.producer_id,
                    producer.epoch,
                    sequence,
                    supports_epoch_bump=producer.support is ClientSupport.ADD_PARTITION,
                )
            except KafkaError as error:
                self.refuse(replica, error)
                continue
            if verification is not None:
                self._verifications[replica] = verification
                unsure.append(replica)
        return unsure

    def take(self, codes: Codes, support: ClientSupport) -> None:
        """Record the coordinator's answer."""
        for replica in self._verifications:
            code = codes[replica.topic, replica.partition]
            if code is not ErrorCode.NONE:
                self.refuse(replica, _error_for_client(code, support))


class TransactionCoordinators(Protocol):
    """The coordinators of all transactional ids, on this node and on others."""

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[tuple[str, int]],
        *,
        verify_only: bool,
    ) -> Answer[Codes]:
        """Add or verify partitions for their leader, which is about to append to them. Raises nothing."""


class VerifyingHost(NodeHost, Protocol):
    """A node that can ask the coordinators of transactions."""

    @property
    def transactions(self) -> TransactionCoordinators: ...


def verify(
    host: VerifyingHost, producer: TransactionalProducer, sequences: Mapping[Replica, int]
) -> Answer[Verified]:
    """Have these partitions verified or added; `sequences` has the first sequence number of each batch.

    The answer is there at once if the coordinator is on this node and has nothing else to do for the
    producer.
    """
    is_enforced = host.config.get_bool("transaction.partition.verification.enable")
    if not is_enforced and producer.support is not ClientSupport.ADD_PARTITION:
        return Answer.of(Verified(sequences, is_enforced=False))
    verified = Verified(sequences, is_enforced=is_enforced)
    unsure = verified.begin(producer, sequences)
    if not unsure:
        return Answer.of(verified)
    codes = _ask(host, producer, unsure)
    if codes.is_done and not _is_worth_a_retry(codes.value, producer.support):
        verified.take(codes.value, producer.support)
        return Answer.of(verified)
    return Answer.working(_verify_patiently(host, producer, sequences, verified, codes))


async def _verify_patiently(
    host: VerifyingHost,
    producer: TransactionalProducer,
    sequences: Mapping[Replica, int],
    verified: Verified,
    answer: Answer[Codes],
) -> Verified:
    """Retry for a while if the producer's last transaction has not ended yet.

    The producer gets the answer to EndTxn before all markers are written. Waiting for them here is faster
    than having the producer send its records again.
    """
    patience_ms = min(
        host.config.get_int("add.partitions.to.txn.retry.backoff.max.ms"),
        host.config.get_int("request.timeout.ms"),
    )
    pause_s = host.config.get_int("add.partitions.to.txn.retry.backoff.ms") / 1000
    give_up_at_s = host.loop.time() + patience_ms / 1000
    while True:
        codes = await answer
        if not _is_worth_a_retry(codes, producer.support) or host.loop.time() >= give_up_at_s:
            verified.take(codes, producer.support)
            return verified
        await asyncio.sleep(pause_s)
        verified = Verified(sequences, is_enforced=verified.is_enforced)
        unsure = verified.begin(producer, sequences)
        if not unsure:
            return verified
        answer = _ask(host, producer, unsure)


def _ask(host: VerifyingHost, producer: TransactionalProducer, replicas: list[Replica]) -> Answer[Codes]:
    return host.transactions.add_partitions(
        producer.transactional_id,
        producer.producer_id,
        producer.epoch,
        [(replica.topic, replica.partition) for replica in replicas],
        verify_only=producer.support is not ClientSupport.ADD_PARTITION,
    )


def _is_worth_a_retry(codes: Codes, support: ClientSupport) -> bool:
    return support is ClientSupport.ADD_PARTITION and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()


def _error_for_client(code: ErrorCode, support: ClientSupport) -> KafkaError:
    """Translate the coordinator's error to one that a producer of this version handles correctly.

    NOT_ENOUGH_REPLICAS makes old producers retry the request without refreshing their metadata first.
    """
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is ClientSupport.OLDEST_ERRORS:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    must_wait = code is ErrorCode.CONCURRENT_TRANSACTIONS and support is not ClientSupport.ADD_PARTITION
    if must_wait or code in COORDINATOR_IS_AWAY:
        message = "Unable to verify the partition has been added to the transaction. Underlying error: "
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, message + code.name)
    return KafkaError(code)
