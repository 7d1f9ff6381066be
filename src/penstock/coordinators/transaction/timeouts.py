"""Timeouts of transactional ids: open transactions are aborted, and idle ids expire."""

from penstock.coordinators.records import Records
from penstock.coordinators.transaction.end_txn import fence_and_abort
from penstock.coordinators.transaction.metadata import TransactionMetadata
from penstock.coordinators.transaction.records import transaction_tombstone
from penstock.coordinators.transaction.results import NeedsProducerId, TimedOut
from penstock.coordinators.transaction.shard import Shard, TimerKind
from penstock.coordinators.transaction.states import TransactionState

__all__ = [
    "EXPIRATION_KEY",
    "abort_timed_out",
    "on_expiration",
    "on_transaction_timeout",
    "retry_later",
    "schedule_expiration",
]

EXPIRATION_KEY = (TimerKind.EXPIRATION, "")

DECIDED_RETRY_MS = 20
"""How long a transaction's timeout is postponed while one of its records is not yet committed."""

MAX_IDS_PER_TURN = 1_000
"""Limits the ids checked per turn, so that a large partition does not block the event loop."""


def on_transaction_timeout(shard: Shard, transactional_id: str, now_ms: int) -> Records:
    """Abort the transaction, or request the producer id that this requires."""
    metadata = shard.transactions.get(transactional_id)
    if metadata is None or metadata.state is not TransactionState.ONGOING:
        return []
    if transactional_id in shard.decided:  # a record, perhaps that of its end, is not committed yet
        shard.timers.schedule((TimerKind.TRANSACTION, transactional_id), now_ms + DECIDED_RETRY_MS)
        return []
    records = fence_and_abort(shard, metadata, now_ms, None, _reason(metadata))
    if isinstance(records, NeedsProducerId):
        shard.producer_id_requests.append(TimedOut(transactional_id, metadata.start_timestamp_ms))
        retry_later(shard, TimerKind.TRANSACTION, transactional_id, now_ms)
        return []
    shard.counters.timed_out += 1
    return records


def abort_timed_out(shard: Shard, timed_out: TimedOut, new_producer_id: int, now_ms: int) -> Records:
    """Retry the abort with a producer id, unless the transaction has ended in the meantime."""
    metadata = shard.transactions.get(timed_out.transactional_id)
    if (
        metadata is None
        or metadata.state is not TransactionState.ONGOING
        or timed_out.transactional_id in shard.decided
        or metadata.start_timestamp_ms != timed_out.start_timestamp_ms
    ):
        return []
    records = fence_and_abort(shard, metadata, now_ms, new_producer_id, _reason(metadata))
    assert not isinstance(records, NeedsProducerId)
    shard.counters.timed_out += 1
    return records


def _reason(metadata: TransactionMetadata) -> str:
    return f"it timed out after {metadata.timeout_ms} ms"


def retry_later(shard: Shard, kind: TimerKind, transactional_id: str, now_ms: int) -> None:
    """Retry after a delay a record that could not be written now."""
    delay_ms = shard.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
    shard.timers.schedule((kind, transactional_id), now_ms + delay_ms)


def schedule_expiration(shard: Shard, now_ms: int) -> None:
    delay_ms = shard.config.transaction_remove_expired_transaction_cleanup_interval_ms
    shard.timers.schedule(EXPIRATION_KEY, now_ms + delay_ms)


def on_expiration(shard: Shard, now_ms: int) -> Records:
    """Check some ids; the timer fires again at once while ids remain, else after the interval."""
    queue = shard.expiration_queue
    if not queue:
        queue.extend(shard.transactions)
    looked_at = queue[-MAX_IDS_PER_TURN:]
    del queue[-MAX_IDS_PER_TURN:]
    if queue:
        shard.timers.schedule(EXPIRATION_KEY, now_ms)
    else:
        schedule_expiration(shard, now_ms)
    return [
        transaction_tombstone(transactional_id)
        for transactional_id in looked_at
        if _is_expired(shard, transactional_id, now_ms)
    ]


def _is_expired(shard: Shard, transactional_id: str, now_ms: int) -> bool:
    metadata = shard.transactions.get(transactional_id)
    return (
        metadata is not None
        and metadata.state.has_no_transaction
        and transactional_id not in shard.decided
        and metadata.last_update_timestamp_ms <= now_ms - shard.config.transactional_id_expiration_ms
    )
