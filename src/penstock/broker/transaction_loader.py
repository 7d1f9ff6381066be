"""Replays one partition of `__transaction_state` into a coordinator. Runs in a worker thread."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from penstock.broker.coordinator_loader import newest_records
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
    from penstock.storage.log import Log

__all__ = ["load"]

log = logging.getLogger(__name__)


def load(partition_log: Log, end_offset: int, coordinator: TransactionCoordinator, now_ms: int) -> None:
    """Replay everything below `end_offset`. Raises KafkaError, MalformedMessage, CorruptBatch."""
    started = time.monotonic()
    survivors = newest_records(partition_log, end_offset)
    unserved = 0
    for stored in survivors:
        record = _decode(stored.key, stored.value)
        if record is None:
            unserved += 1
        else:
            coordinator.replay(record, now_ms)
    log.info(
        "loaded transactions partition=%s records=%d unserved=%d ms=%d",
        partition_log.name,
        len(survivors),
        unserved,
        (time.monotonic() - started) * 1000,
    )


def _decode(key_bytes: bytes | None, value_bytes: bytes | None) -> CoordinatorRecord | None:
    """None for what a newer release has written; it stays in the log untouched."""
    if key_bytes is None:
        return None
    try:
        key = decode_coordinator_key(Coordinator.TRANSACTION, key_bytes)
        assert isinstance(key, TransactionLogKey)
        value = None if value_bytes is None else decode_coordinator_value(key, value_bytes)[0]
    except (UnknownRecordType, UnsupportedVersion):
        return None
    return CoordinatorRecord(key, value)
