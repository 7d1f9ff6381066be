"""Replay one partition of `__consumer_offsets` into a coordinator. Runs in a worker thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.coordination.loader import StoredRecord, replay_newest
from penstock.coordinators.records import CoordinatorRecord
from penstock.protocol.messages import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.protocol.record_serde import (
    Coordinator,
    UnknownRecordType,
    decode_coordinator_key,
    decode_coordinator_value,
)

if TYPE_CHECKING:
    from penstock.coordinators.group.coordinator import GroupCoordinator
    from penstock.storage.partition.log import Log

__all__ = ["load"]


def load(partition_log: Log, end_offset: int, coordinator: GroupCoordinator, now_ms: int) -> None:
    """Replay all records below `end_offset`. Raises KafkaError, MalformedMessage, CorruptBatch."""

    def replay(stored: StoredRecord) -> bool:
        if stored.key is None:
            coordinator.replay_end_transaction(stored.producer_id, committed=stored.commits)
            return True
        record = _decode(stored.key, stored.value)
        if record is not None:
            coordinator.replay(record, stored.offset, now_ms, stored.producer_id)
        return record is not None

    replay_newest(partition_log, end_offset, replay)


def _decode(key_bytes: bytes, value_bytes: bytes | None) -> CoordinatorRecord | None:
    """Decode a record; None for group types that are not served here, whose records stay in the log."""
    try:
        key = decode_coordinator_key(Coordinator.GROUP, key_bytes)
    except UnknownRecordType:
        return None
    if not isinstance(key, OffsetCommitKey | GroupMetadataKey | LegacyOffsetCommitKey):
        return None
    value = None if value_bytes is None else decode_coordinator_value(key, value_bytes)[0]
    if isinstance(key, LegacyOffsetCommitKey):  # from before values had versions
        key = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
    if isinstance(value, LegacyOffsetCommitValue):
        value = OffsetCommitValue(
            offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
        )
    assert value is None or isinstance(value, OffsetCommitValue | GroupMetadataValue)
    return CoordinatorRecord(key, value)
