"""Finds offsets by time: the time index narrows the search to a few batches.

At most one batch is decoded (and decompressed). If its records are damaged, the batch counts as one record at
its first offset with its latest timestamp, so that a search finds the batch instead of failing. The functions
may run in any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from penstock.protocol.batch import BatchHeader, MalformedRecords
from penstock.protocol.records import Record, decode_batch
from penstock.storage.segments.scan import headers as scan_headers
from penstock.storage.segments.segment import Segment

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Limit for one decompressed batch; a larger one counts as a decompression bomb, so as corrupt records."""


class TimestampAndOffset(NamedTuple):
    """A record found by its timestamp; `leader_epoch` is -1 if the batch has none."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(
    segments: Iterable[Segment], timestamp: int, log_start_offset: int
) -> TimestampAndOffset | None:
    """The first record, at or above the log start, whose timestamp is at least `timestamp`."""
    for segment in segments:
        if segment.largest_timestamp >= timestamp:
            found = _first_in(segment, timestamp, log_start_offset)
            if found is not None:
                return found
    return None


def _first_in(segment: Segment, timestamp: int, log_start_offset: int) -> TimestampAndOffset | None:
    from_offset = max(segment.time_index.lookup(timestamp).offset, log_start_offset)
    for position, header in _batches(segment, from_offset):
        if header.max_timestamp >= timestamp and header.last_offset >= log_start_offset:
            for record in _records(segment, position, header):
                if record.timestamp >= timestamp and record.offset >= log_start_offset:
                    return TimestampAndOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def latest_timestamp(segments: Iterable[Segment]) -> TimestampAndOffset | None:
    """The first record that has the largest timestamp of the log (KIP-734), or None without timestamps."""
    segment = max(segments, key=lambda segment: segment.max_timestamp.timestamp)
    timestamp, offset = segment.max_timestamp
    if timestamp < 0:
        return None
    for position, header in _batches(segment, offset):
        if header.max_timestamp == timestamp:
            for record in _records(segment, position, header):
                if record.timestamp == timestamp:
                    return TimestampAndOffset(timestamp, record.offset, header.partition_leader_epoch)
    return None


def _batches(segment: Segment, from_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    start = segment.offset_index.lookup(from_offset).position
    return scan_headers(segment.file, start, segment.size)


def _records(segment: Segment, position: int, header: BatchHeader) -> Iterator[Record]:
    data = segment.file.pread(header.size_bytes, position)
    try:
        yield from decode_batch(data, max_bytes=DECOMPRESSED_BYTES_MAX)
    except MalformedRecords:
        yield Record(header.base_offset, header.max_timestamp, None, None)
