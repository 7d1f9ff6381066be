"""EndTxn: decides a transaction.

In the first protocol the epoch identifies the producer, and only the state tells a repeated request from a
new one. From version 2 on (KIP-890) the epoch also identifies the transaction: the current epoch means the
current transaction, and the epoch before it means the last one, whose response was lost. While no transaction
is open, the answers are:

    ==============  ==================  ==================  ==================  ==================
    state           abort, last epoch   abort, current      commit, last epoch  commit, current
    ==============  ==================  ==================  ==================  ==================
    Empty           PRODUCER_FENCED     aborts nothing      PRODUCER_FENCED     INVALID_TXN_STATE
    CompleteAbort   answered again      aborts nothing      INVALID_TXN_STATE   INVALID_TXN_STATE
    CompleteCommit  INVALID_TXN_STATE   aborts nothing      answered again      INVALID_TXN_STATE
    ==============  ==================  ==================  ==================  ==================

While the last transaction is still completing, every producer gets CONCURRENT_TRANSACTIONS. The request may
already carry the producer id and epoch that become valid then (`producer_after_completion`), so the producer
must not be rejected as a different one.

"Aborts nothing" writes a record and bumps the epoch like any other end, because a batch that is still in
flight must not begin a transaction that no producer ends.

"Answered again" assumes that the last transaction ended with a bump. If a client of the first protocol has
taken over the id, there was no bump, and the epoch before belongs to the client that was replaced. That
client is fenced. Apache Kafka 4.3 would return its successor's epoch to it, and the two would share a
transaction.
"""

import logging

from penstock.coordinators.records import Records
from penstock.coordinators.transaction.metadata import (
    EPOCH_BUMP_VERSION,
    LAST_EPOCH,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from penstock.coordinators.transaction.results import NEEDS_PRODUCER_ID, NeedsProducerId
from penstock.coordinators.transaction.shard import Shard
from penstock.coordinators.transaction.states import TransactionState
from penstock.protocol.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import EndTxnRequest, EndTxnResponse

__all__ = ["fence_and_abort", "handle_end_txn"]

log = logging.getLogger(__name__)

NOBODY: ProducerIdAndEpoch = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
"""The producer in responses of the first protocol, in which its id and epoch stay the same."""


def handle_end_txn(
    shard: Shard, request: EndTxnRequest, transaction_version: int, now_ms: int, new_producer_id: int | None
) -> tuple[Records, EndTxnResponse | NeedsProducerId]:
    try:
        metadata = shard.known(request.transactional_id)
        if transaction_version < EPOCH_BUMP_VERSION:
            records, producer = _end_v1(shard, metadata, request, now_ms)
        else:
            outcome = _end_v2(shard, metadata, request, transaction_version, now_ms, new_producer_id)
            if isinstance(outcome, NeedsProducerId):
                return [], outcome
            records, producer = outcome
    except KafkaError as error:
        return [], _response(error.code, NOBODY)
    return records, _response(ErrorCode.NONE, producer)


def _response(error: ErrorCode, producer: ProducerIdAndEpoch) -> EndTxnResponse:
    return EndTxnResponse(error_code=error, producer_id=producer[0], producer_epoch=producer[1])


# -- the first protocol ------------------------------------------------------------------------------


def _end_v1(
    shard: Shard, metadata: TransactionMetadata, request: EndTxnRequest, now_ms: int
) -> tuple[Records, ProducerIdAndEpoch]:
    """Decide the transaction without an epoch bump.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or INVALID_TXN_STATE.
    """
    if metadata.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if metadata.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is not TransactionState.ONGOING:
        _check_has_ended(metadata.state, commit=request.committed)
        return [], NOBODY
    prepared = metadata.prepare(
        commit=request.committed,
        client_transaction_version=0,
        next_producer_id=NO_PRODUCER_ID,
        now_ms=now_ms,
    )
    return shard.decide(prepared), NOBODY


def _check_has_ended(state: TransactionState, *, commit: bool) -> None:
    """Check that the last transaction has ended this way. Raises INVALID_TXN_STATE."""
    if state is not (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)


# -- version 2 ---------------------------------------------------------------------------------------


def _end_v2(
    shard: Shard,
    metadata: TransactionMetadata,
    request: EndTxnRequest,
    transaction_version: int,
    now_ms: int,
    new_producer_id: int | None,
) -> tuple[Records, ProducerIdAndEpoch] | NeedsProducerId:
    """Decide the transaction and bump the epoch.

    Raises CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or INVALID_TXN_STATE.
    """
    state, commit = metadata.state, request.committed
    if state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_after_rotation = _is_after_rotation(metadata, request)
    is_repeated = is_after_rotation or _is_before_bump(metadata, request)
    if metadata.producer_id != request.producer_id and not is_after_rotation:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if is_repeated and state not in (TransactionState.EMPTY, TransactionState.ONGOING):
        _check_has_ended(state, commit=commit)
        return [], (metadata.producer_id, metadata.producer_epoch)
    if metadata.producer_epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if commit and state is not TransactionState.ONGOING:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return _prepare_with_bump(
        shard,
        metadata,
        commit=commit,
        transaction_version=transaction_version,
        now_ms=now_ms,
        new_producer_id=new_producer_id,
    )


def _is_after_rotation(metadata: TransactionMetadata, request: EndTxnRequest) -> bool:
    """Whether the producer does not know the new producer id from the end of its last transaction yet."""
    return (
        metadata.previous_producer_id == request.producer_id
        and request.producer_epoch == LAST_EPOCH
        and metadata.producer_epoch == 0
    )


def _is_before_bump(metadata: TransactionMetadata, request: EndTxnRequest) -> bool:
    """Whether the producer does not know the new epoch from the end of its last transaction yet."""
    return (
        metadata.producer_epoch == request.producer_epoch + 1
        and metadata.client_transaction_version >= EPOCH_BUMP_VERSION
    )


def _prepare_with_bump(
    shard: Shard,
    metadata: TransactionMetadata,
    *,
    commit: bool,
    transaction_version: int,
    now_ms: int,
    new_producer_id: int | None,
) -> tuple[Records, ProducerIdAndEpoch] | NeedsProducerId:
    """Return the record, and the producer's id and epoch after completion."""
    if not metadata.is_epoch_exhausted:
        new_producer_id = NO_PRODUCER_ID
    elif new_producer_id is None:
        return NEEDS_PRODUCER_ID
    prepared = metadata.prepare(
        commit=commit,
        client_transaction_version=transaction_version,
        next_producer_id=new_producer_id,
        now_ms=now_ms,
    )
    return shard.decide(prepared), prepared.producer_after_completion


# -- ends that the producer did not request ----------------------------------------------------------


def fence_and_abort(
    shard: Shard, metadata: TransactionMetadata, now_ms: int, new_producer_id: int | None, reason: str
) -> Records | NeedsProducerId:
    """Abort an open transaction that has timed out or whose producer has been replaced.

    The epoch is bumped, so that the producer's next request fails with an error.
    """
    if shard.transaction_version >= EPOCH_BUMP_VERSION:
        outcome = _prepare_with_bump(
            shard,
            metadata,
            commit=False,
            transaction_version=shard.transaction_version,
            now_ms=now_ms,
            new_producer_id=new_producer_id,
        )
        if isinstance(outcome, NeedsProducerId):
            return outcome
        records = outcome[0]
    else:
        prepared = metadata.fence().prepare(
            commit=False, client_transaction_version=0, next_producer_id=NO_PRODUCER_ID, now_ms=now_ms
        )
        records = shard.decide(prepared)
    log.info(
        "aborting a transaction transactional_id=%s producer_id=%d producer_epoch=%d reason=%s",
        metadata.transactional_id,
        metadata.producer_id,
        metadata.producer_epoch,
        reason,
    )
    return records
