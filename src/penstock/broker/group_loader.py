"""Reads one partition of `__consumer_offsets` into a coordinator. Runs in a worker thread.

The topic is compacted, so only the newest record of a key counts. That is decided on the encoded keys,
before anything else is decoded: a partition that has not been compacted for long still loads quickly.
Offsets committed in transactions are left as they are, for their markers decide about them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordinators.records import CoordinatorRecord
from penstock.protocol.batch import iter_headers
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
from penstock.protocol.records import ControlRecordType, control_record_type, decode_batch

if TYPE_CHECKING:
    from penstock.coordinators.group.coordinator import GroupCoordinator
    from penstock.storage.log import Log

__all__ = ["load"]

log = logging.getLogger(__name__)

READ_BYTES = 5 * 1024 * 1024
NO_PRODUCER_ID = -1


class _Stored(NamedTuple):
    """A record, or the marker that ends a transaction (`key` None)."""

    offset: int
    producer_id: int
    key: bytes | None
    value: bytes | None
    commits: bool = False


def load(partition_log: Log, end_offset: int, coordinator: GroupCoordinator, now_ms: int) -> None:
    """Replay everything below `end_offset`. Raises KafkaError, MalformedMessage, CorruptBatch."""
    started = time.monotonic()
    survivors = _compact(_read(partition_log, end_offset))
    unserved = 0
    for stored in survivors:
        if stored.key is None:
            coordinator.replay_end_transaction(stored.producer_id, committed=stored.commits)
            continue
        record = _decode(stored.key, stored.value)
        if record is None:
            unserved += 1
        else:
            coordinator.replay(record, stored.offset, now_ms, stored.producer_id)
    log.info(
        "loaded groups partition=%s records=%d unserved=%d ms=%d",
        partition_log.name,
        len(survivors),
        unserved,
        (time.monotonic() - started) * 1000,
    )


def _read(partition_log: Log, end_offset: int) -> Iterator[_Stored]:
    offset = partition_log.log_start_offset
    while offset < end_offset:
        chunk = partition_log.read(offset, READ_BYTES, up_to_offset=end_offset)
        if chunk is None:
            return
        data = chunk.read()
        for position, header in iter_headers(data):
            transactional_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            for record in decode_batch(data, position):
                if header.is_control:
                    kind = control_record_type(record.key)
                    if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
                        commits = kind is ControlRecordType.COMMIT
                        yield _Stored(record.offset, header.producer_id, None, None, commits)
                else:
                    yield _Stored(record.offset, transactional_id, record.key or b"", record.value)
            offset = header.next_offset


def _compact(records: Iterator[_Stored]) -> list[_Stored]:
    """The newest record of every key, in the order of the log; transactional ones and markers all."""
    newest: dict[bytes, _Stored] = {}
    kept: list[_Stored] = []
    for record in records:
        if record.key is None or record.producer_id != NO_PRODUCER_ID:
            kept.append(record)
        else:
            newest[record.key] = record
    kept += newest.values()
    kept.sort(key=lambda record: record.offset)
    return kept


def _decode(key_bytes: bytes, value_bytes: bytes | None) -> CoordinatorRecord | None:
    """None for records of group types that are not served here; they stay in the log untouched."""
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
