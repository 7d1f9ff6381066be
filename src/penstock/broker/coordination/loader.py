"""Replay a coordinator's partition. Runs in a worker thread.

Coordinators' topics are compacted, so only the newest record of a key counts. That is decided on the encoded
keys, before anything else is decoded, so a partition that has not been compacted for long still loads
quickly. Records written in transactions are kept as they are, because their markers decide about them.

So a group that only had offsets, all of which were deleted, does not exist after a load. In Kafka that is the
case once the log is compacted; until then Kafka lists the group as empty.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.protocol.batch import NO_PRODUCER_ID, iter_headers
from penstock.protocol.records import ControlRecordType, control_record_type, decode_batch

if TYPE_CHECKING:
    from penstock.storage.partition.log import Log

__all__ = ["StoredRecord", "replay_newest"]

log = logging.getLogger(__name__)

READ_BYTES = 5 * 1024 * 1024


class StoredRecord(NamedTuple):
    """A record, or the marker that ends a transaction (with `key` None)."""

    offset: int
    producer_id: int
    """The producer id; -1 for a record outside of transactions."""
    key: bytes | None
    value: bytes | None
    commits: bool = False


def replay_newest(partition_log: Log, end_offset: int, replay: Callable[[StoredRecord], bool]) -> None:
    """Call `replay` with each effective record below `end_offset`, in log order. Blocks.

    `replay` returns False for a record of a kind that this node does not serve. Raises KafkaError,
    MalformedMessage, CorruptBatch.
    """
    started = time.monotonic()
    survivors = _compact(_read(partition_log, end_offset))
    unserved = 0
    for stored in survivors:
        if not replay(stored):
            unserved += 1
    log.info(
        "loaded coordinator partition=%s records=%d unserved=%d ms=%d",
        partition_log.name,
        len(survivors),
        unserved,
        (time.monotonic() - started) * 1000,
    )


def _read(partition_log: Log, end_offset: int) -> Iterator[StoredRecord]:
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
                        yield StoredRecord(record.offset, header.producer_id, None, None, commits)
                else:
                    yield StoredRecord(record.offset, transactional_id, record.key or b"", record.value)
            offset = header.next_offset


def _compact(records: Iterable[StoredRecord]) -> list[StoredRecord]:
    """Keep the newest record of every key, and all transactional records and markers, in log order."""
    newest: dict[bytes, StoredRecord] = {}
    kept: list[StoredRecord] = []
    for record in records:
        if record.key is None or record.producer_id != NO_PRODUCER_ID:
            kept.append(record)
        else:
            newest[record.key] = record
    kept += newest.values()
    kept.sort(key=lambda record: record.offset)
    return kept
