"""What time does to a transactional id: open transactions are aborted, idle ids are forgotten."""

from penstock.coordinators.records import Records
from penstock.coordinators.transaction.end_txn import fence_and_abort
from penstock.coordinators.transaction.metadata import TransactionMetadata
from penstock.coordinators.transaction.records import transaction_tombstone
from penstock.coordinators.transaction.results import NeedsProducerId
from penstock.coordinators.transaction.shard import Shard, TimerKind
from penstock.coordinators.transaction.states import TransactionState

__all__ = ["EXPIRATION_KEY", "abort_timed_out", "on_expiration", "retry_later", "schedule_expiration"]

EXPIRATION_KEY = (TimerKind.EXPIRATION, "")

#: Work for one turn, so that a large partition does not hold up the event loop.
MAX_IDS_PER_TURN = 1_000


def abort_timed_out(
    shard: Shard, transactional_id: str, now_ms: int, new_producer_id: int | None = None
) -> Records:
    """Abort the transaction if its time is up. If that takes a producer id, ask the owner for one."""
    metadata = shard.transactions.get(transactional_id)
    deadline_ms = None if metadata is None else metadata.deadline_ms
    if metadata is None or deadline_ms is None or deadline_ms > now_ms:
        return []
    records = fence_and_abort(shard, metadata, now_ms, new_producer_id)
    if isinstance(records, NeedsProducerId):
        shard.producer_id_requests.append(transactional_id)
        retry_later(shard, TimerKind.TRANSACTION, transactional_id, now_ms)
        return []
    shard.counters.timed_out += 1
    return records


def retry_later(shard: Shard, kind: TimerKind, transactional_id: str, now_ms: int) -> None:
    """What should have been written now could not be: try again in a while."""
    delay_ms = shard.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
    shard.timers.schedule((kind, transactional_id), now_ms + delay_ms)


def schedule_expiration(shard: Shard, now_ms: int) -> None:
    delay_ms = shard.config.transaction_remove_expired_transaction_cleanup_interval_ms
    shard.timers.schedule(EXPIRATION_KEY, now_ms + delay_ms)


def on_expiration(shard: Shard, now_ms: int) -> Records:
    """Look at some ids; the timer comes back at once while some are left, else after the interval."""
    queue = shard.expiration_queue
    if not queue:
        queue.extend(shard.transactions)
    turn = queue[-MAX_IDS_PER_TURN:]
    del queue[-MAX_IDS_PER_TURN:]
    if queue:
        shard.timers.schedule(EXPIRATION_KEY, now_ms)
    else:
        schedule_expiration(shard, now_ms)
    expired = [transactional_id for transactional_id in turn if _is_expired(shard, transactional_id, now_ms)]
    return [transaction_tombstone(transactional_id) for transactional_id in expired]


def _is_expired(shard: Shard, transactional_id: str, now_ms: int) -> bool:
    metadata = shard.transactions.get(transactional_id)
    return metadata is not None and _is_idle(shard, metadata, now_ms)


def _is_idle(shard: Shard, metadata: TransactionMetadata, now_ms: int) -> bool:
    if metadata.state not in (
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    ):
        return False
    return metadata.last_update_timestamp_ms <= now_ms - shard.config.transactional_id_expiration_ms
