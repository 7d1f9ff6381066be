"""Checks of all records of a produced batch, before the broker appends it."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.protocol.batch import NO_TIMESTAMP, BatchHeader, Buffer, MalformedRecords
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
