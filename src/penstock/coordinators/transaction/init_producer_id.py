"""InitProducerId: assigns a transactional id to a producer, and fences the previous one."""

from penstock.coordinators.records import Records
from penstock.coordinators.transaction.end_txn import fence_and_abort
from penstock.coordinators.transaction.metadata import (
    NO_TIMEOUT_MS,
    ProducerIdAndEpoch,
    TransactionMetadata,
    is_epoch_exhausted,
)
from penstock.coordinators.transaction.results import NEEDS_PRODUCER_ID, NeedsProducerId
from penstock.coordinators.transaction.shard import Shard
from penstock.coordinators.transaction.states import TransactionState
from penstock.protocol.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["handle_init_producer_id"]


def handle_init_producer_id(
    shard: Shard, request: InitProducerIdRequest, now_ms: int, new_producer_id: int | None
) -> tuple[Records, InitProducerIdResponse | NeedsProducerId]:
    try:
        expected = _expected_producer(request)
        timeout_ms = _timeout_ms(shard, request)
        return _init_producer_id(shard, request, expected, timeout_ms, now_ms, new_producer_id)
    except KafkaError as error:
        return [], _refusal(error.code)


def _refusal(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


def _expected_producer(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    """The id and epoch of a producer that continues after an error (KIP-360). Raises INVALID_REQUEST."""
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch or not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return (request.producer_id, request.producer_epoch) if has_id else None


def _timeout_ms(shard: Shard, request: InitProducerIdRequest) -> int:
    """The timeout of the producer's transactions. Raises KafkaError for an invalid or unsupported request.

    Transactions with an external coordinator (KIP-939) have no timeout. Apache Kafka 4.3 can open them, but
    cannot keep a prepared one yet.
    """
    if request.enable2_pc and not shard.config.transaction_two_phase_commit_enable:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_txn:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if request.enable2_pc:
        return NO_TIMEOUT_MS
    if not 0 < request.transaction_timeout_ms <= shard.config.transaction_max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    return request.transaction_timeout_ms


def _init_producer_id(
    shard: Shard,
    request: InitProducerIdRequest,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    now_ms: int,
    new_producer_id: int | None,
) -> tuple[Records, InitProducerIdResponse | NeedsProducerId]:
    """Assign the next epoch or a new producer id. Raises PRODUCER_FENCED or CONCURRENT_TRANSACTIONS."""
    assert request.transactional_id is not None
    metadata = shard.transactions.get(request.transactional_id)
    if metadata is None:
        if new_producer_id is None:
            return [], NEEDS_PRODUCER_ID
        metadata = TransactionMetadata(request.transactional_id, new_producer_id, timeout_ms, now_ms)
    if metadata.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_go_on(metadata, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if metadata.state is TransactionState.ONGOING:
        # No producer gets the epoch that fences the open transaction: the client retries once the abort is
        # complete, and then gets an epoch of its own.
        records = fence_and_abort(shard, metadata, now_ms, new_producer_id, "its id was initialized again")
        if isinstance(records, NeedsProducerId):
            return [], records
        return records, _refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.is_epoch_exhausted and (expected is None or expected[1] == metadata.producer_epoch):
        if new_producer_id is None:
            return [], NEEDS_PRODUCER_ID
        metadata = metadata.rotate_producer_id(
            new_producer_id, timeout_ms, keep_last_epoch=expected is not None, now_ms=now_ms
        )
    else:
        metadata = metadata.bump_epoch(timeout_ms, None if expected is None else expected[1], now_ms)
    response = InitProducerIdResponse(
        error_code=ErrorCode.NONE,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
    )
    return shard.decide(metadata), response


def _may_go_on(metadata: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether this producer may request its next epoch; bumping the epoch checks the epoch that it sent.

    It may if it has the current producer id; if it has the previous id with its last epoch, because it never
    received the new one; or if the transactional id is new, because the old one has expired.
    """
    producer_id, epoch = expected
    if metadata.producer_epoch == NO_PRODUCER_EPOCH or producer_id == metadata.producer_id:
        return True
    return producer_id == metadata.previous_producer_id and is_epoch_exhausted(epoch)
