"""Replay one partition of `__transaction_state` into a coordinator. This runs in a worker thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.coordination.loader import StoredRecord, replay_newest
from penstock.coordinators.records import CoordinatorRecord
from penstock.protocol.codec import UnsupportedVersion
from penstock.protocol.messages import TransactionLogKey
from penstock.protocol.record_serde import (
    Coordinator,
    UnknownRecordType,
    decode_coordinator_key,
    decode_coordinator_value,
)

if TYPE_CHECKING:
    from penstock.coordinators.transaction.coordinator import TransactionCoordinator
    from penstock.storage.partition.log import Log

__all__ = ["load"]


def load(partition_log: Log, end_offset: int, coordinator: TransactionCoordinator, now_ms: int) -> None:
    """Replay everything below `end_offset`. Raises KafkaError, MalformedMessage, CorruptBatch."""

    def replay(stored: StoredRecord) -> bool:
        record = _decode(stored.key, stored.value)
        if record is not None:
            coordinator.replay(record, now_ms)
        return record is not None

    replay_newest(partition_log, end_offset, replay)


def _decode(key_bytes: bytes | None, value_bytes: bytes | None) -> CoordinatorRecord | None:
    """Decode a record; None if a newer release has written it. Such a record stays in the log unchanged."""
    if key_bytes is None:
        return None
    try:
        key = decode_coordinator_key(Coordinator.TRANSACTION, key_bytes)
        assert isinstance(key, TransactionLogKey)
        value = None if value_bytes is None else decode_coordinator_value(key, value_bytes)[0]
    except (UnknownRecordType, UnsupportedVersion):
        return None
    return CoordinatorRecord(key, value)
