"""Applies records to the state, both live and at recovery.

Live, a record means that a decided step is now durable, and replay takes that step. At recovery only the
record is known. It does not contain the last epoch of a producer, so only the coordinator that answered the
first InitProducerId can recognize a repeated one.
"""

from penstock.coordinators.records import Records
from penstock.coordinators.transaction.metadata import TransactionMetadata
from penstock.coordinators.transaction.records import metadata_of
from penstock.coordinators.transaction.shard import Shard, TimerKind
from penstock.coordinators.transaction.states import TransactionState
from penstock.coordinators.transaction.timeouts import retry_later
from penstock.protocol.messages import TransactionLogKey, TransactionLogValue

__all__ = ["fail_append", "replay_transaction"]


def replay_transaction(shard: Shard, transactional_id: str, value: TransactionLogValue | None) -> None:
    decided = shard.decided.pop(transactional_id, None)
    if value is None:
        _forget(shard, transactional_id)
        return
    metadata = metadata_of(transactional_id, value) if decided is None else decided
    shard.transactions[transactional_id] = metadata
    if shard.is_active:
        _act(shard, metadata)


def _forget(shard: Shard, transactional_id: str) -> None:
    if shard.transactions.pop(transactional_id, None) is not None and shard.is_active:
        shard.counters.expired += 1
    shard.timers.cancel((TimerKind.TRANSACTION, transactional_id))
    shard.timers.cancel((TimerKind.COMPLETION, transactional_id))


def _act(shard: Shard, metadata: TransactionMetadata) -> None:
    shard.arm(metadata)
    match metadata.state:
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            shard.send_markers(metadata)
        case TransactionState.COMPLETE_COMMIT:
            shard.counters.committed += 1
        case TransactionState.COMPLETE_ABORT:
            shard.counters.aborted += 1


def fail_append(shard: Shard, records: Records, now_ms: int) -> None:
    """Discard the steps whose records could not be written.

    A client whose request fails retries it. The coordinator must retry the steps that it takes by itself.
    """
    for record in records:
        assert isinstance(record.key, TransactionLogKey)
        transactional_id = record.key.transactional_id
        shard.decided.pop(transactional_id, None)
        metadata = shard.transactions.get(transactional_id)
        if metadata is None:
            continue
        if metadata.state.is_prepared:  # its markers are written, so this record was to complete it
            retry_later(shard, TimerKind.COMPLETION, transactional_id, now_ms)
        elif metadata.deadline_ms is not None and _clock_has_stopped(shard, transactional_id):
            retry_later(shard, TimerKind.TRANSACTION, transactional_id, now_ms)


def _clock_has_stopped(shard: Shard, transactional_id: str) -> bool:
    """Whether the failed record was that of a timeout, whose timer has already fired."""
    return shard.timers.deadline_ms((TimerKind.TRANSACTION, transactional_id)) is None
