"""Checks of all records of a produced batch, before the broker appends it."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.protocol.batch import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Buffer,
    CorruptBatch,
    InvalidBatch,
    MalformedRecords,
    validate,
)
from penstock.protocol.records import decode_records

NO_EARLIEST: Final = (1 << 63) - 1


class CheckedRecords(NamedTuple):
    """The range of the timestamps of a batch, in ms since the epoch, and how many records have no key."""

    earliest_timestamp: int
    """NO_EARLIEST if no record has a timestamp."""
    latest_timestamp: int
    """NO_TIMESTAMP if no record has a timestamp."""
    keyless: int
    """The number of records without a key."""


def check_records(payload: Buffer, header: BatchHeader) -> CheckedRecords:
    """Check that a batch holds exactly the records that its header states, numbered from 0 without gaps.

    `payload` is the decompressed records section of a v2 batch with the timestamp type CreateTime. Raises
    MalformedRecords.
    """
    earliest, latest, keyless = NO_EARLIEST, NO_TIMESTAMP, 0
    for number, record in enumerate(decode_records(header, payload)):
        if record.offset - header.base_offset != number:
            raise MalformedRecords(
                f"record {number} of {header.count} has the offset {record.offset}, expected "
                f"{header.base_offset + number}"
            )
        if record.timestamp != NO_TIMESTAMP:
            earliest = min(earliest, record.timestamp)
            latest = max(latest, record.timestamp)
        keyless += record.key is None
    return CheckedRecords(earliest, latest, keyless)


def check_plain_batch(batch: memoryview) -> BatchHeader | None:
    """Check a client's uncompressed batch in one go: its header, its checksum and its records.

    Returns its header if the batch passes `batch.validate` and `check_records`, its largest timestamp is the
    one that the header states, and no attribute is set except the one of transactions. Otherwise it returns
    None, and the caller runs these checks one by one to find out why.
    """
    try:
        (header,) = validate(batch)
        if header.attributes & ~TRANSACTIONAL_MASK:
            return None
        checked = check_records(batch[HEADER_SIZE:], header)
    except (CorruptBatch, InvalidBatch, MalformedRecords):
        return None
    return header if checked.latest_timestamp == header.max_timestamp else None
