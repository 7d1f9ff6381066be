"""The steps of compaction on one batch: map its keys, select the records to keep, and rebuild the batch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.protocol.batch import (
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    SMALLEST_RECORD_BYTES,
    BatchHeader,
    Buffer,
    MalformedRecords,
)
from penstock.protocol.records import (
    read_varint,
    read_varlong,
    wrap_int64,
    write_varint,
)

OFFSET_MAP_SLOT_BYTES: Final = 200
"""Memory per entry of an `OffsetMap`: here about that of a dictionary's entry, 24 in the compiled twin."""


class OffsetMap:
    """The newest offset of each key, for at most `capacity` keys.

    Keys are stored as 128-bit hashes that depend on a secret of 16 bytes. So a client cannot construct two
    keys with the same hash, as it could with the MD5 that Kafka uses.
    """

    def __init__(self, slots: int, capacity: int, secret: bytes) -> None:
        if not 0 < capacity <= slots:
            raise ValueError(f"an offset map of {slots} slots for {capacity} keys")
        self.capacity = capacity
        self.latest_offset = -1
        """The log is mapped up to this offset; the caller also raises it past batches without keys."""
        self._secret = bytes(secret)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def get(self, key: Buffer) -> int:
        """The newest offset of `key`; -1 if it has none."""
        return self._offsets.get(self._hash(key), -1)

    def put(self, key: Buffer, offset: int) -> bool:
        """Map `key` to `offset`, and note the log as mapped up to it; return False if the map is full."""
        if len(self._offsets) >= self.capacity:
            return False
        self._offsets[self._hash(key)] = offset
        self.latest_offset = offset
        return True

    def _hash(self, key: Buffer) -> bytes:
        return hashlib.blake2b(key, digest_size=16, key=self._secret).digest()


class CompactedRecord(NamedTuple):
    """The positions of one record's parts in a payload; `key_end` is below `key_start` for a null key."""

    timestamp_delta: int
    offset_delta: int
    rest: int
    key_start: int
    key_end: int
    has_value: bool
    end: int


def compacted_records(payload: bytes, header: BatchHeader) -> Iterator[CompactedRecord]:
    """Iterate over all records of a v2 batch. Raises MalformedRecords at the first that cannot be parsed."""
    if not 0 <= header.count <= len(payload) // SMALLEST_RECORD_BYTES:
        raise MalformedRecords(f"{header.count} records cannot fit into {len(payload)} bytes")
    position = 0
    for number in range(header.count):
        try:
            record = _compacted_record(payload, position, header.last_offset_delta)
        except (IndexError, MalformedRecords) as error:
            raise MalformedRecords(
                f"record {number} of {header.count} after base offset {header.base_offset}: {error}"
            ) from None
        yield record
        position = record.end
    if position != len(payload):
        raise MalformedRecords(f"{len(payload) - position} bytes follow the records of {header.base_offset}")


def _compacted_record(payload: bytes, position: int, last_offset_delta: int) -> CompactedRecord:
    length, position = read_varint(payload, position)
    end = position + length
    if length < 0 or end > len(payload):
        raise MalformedRecords("more data stated than bytes remain")
    timestamp_delta, rest = read_varlong(payload, position + 1)  # past the unused attributes
    offset_delta, position = read_varint(payload, rest)
    if not 0 <= offset_delta <= last_offset_delta:
        raise MalformedRecords("offset delta outside the batch")
    key_bytes, key_start = read_varint(payload, position)
    key_end = key_start + key_bytes
    value_bytes, position = read_varint(payload, max(key_start, key_end))
    if position + max(value_bytes, 0) > end:
        raise MalformedRecords("more data stated than bytes remain")
    return CompactedRecord(timestamp_delta, offset_delta, rest, key_start, key_end, value_bytes >= 0, end)


def index_records(offsets: OffsetMap, payload: Buffer, header: BatchHeader, start_offset: int) -> bool:
    """Map the keys of a batch from `start_offset` on; return False if the map was full before its end.

    `payload` is the decompressed records section. Raises MalformedRecords, with no key mapped.
    """
    data = bytes(payload)
    for record in list(compacted_records(data, header)):
        offset = header.base_offset + record.offset_delta
        if (
            record.key_end >= record.key_start
            and offset >= start_offset
            and not offsets.put(data[record.key_start : record.key_end], offset)
        ):
            return False
    return True


def judge_records(
    offsets: OffsetMap, payload: Buffer, header: BatchHeader, keep_tombstones: bool
) -> tuple[bytearray, int, bool, int]:
    """Select the records to keep.

    A record is kept if it lies beyond the map or is the newest of its key; records without a key are removed.
    Returns (a byte 0 or 1 per record, number of kept records, whether one of them is a tombstone, number of
    removed records without a key). Raises MalformedRecords.
    """
    keep = bytearray(max(header.count, 0))
    has_tombstone = False
    keyless = 0
    data = bytes(payload)
    for number, record in enumerate(compacted_records(data, header)):
        offset = header.base_offset + record.offset_delta
        if offset > offsets.latest_offset:
            keep[number] = 1
        elif record.key_end < record.key_start:
            keyless += 1
        elif record.has_value or keep_tombstones:
            keep[number] = offset >= offsets.get(data[record.key_start : record.key_end])
        if keep[number] and not record.has_value:
            has_tombstone = True
    return keep, sum(keep), has_tombstone, keyless


def rebuild_records(
    payload: Buffer, header: BatchHeader, keep: Buffer, base_timestamp: int | None
) -> tuple[bytearray, int, int]:
    """Encode the records marked in `keep`, with timestamps relative to `base_timestamp` (None: the first's).

    Returns (records section, its base timestamp, largest timestamp). Raises MalformedRecords.
    """
    if len(keep) != header.count:
        raise ValueError(f"{len(keep)} marks for {header.count} records")
    out = bytearray()
    max_timestamp = NO_TIMESTAMP
    data = bytes(payload)
    for kept, record in zip(keep, compacted_records(data, header), strict=True):
        if not kept:
            continue
        if header.timestamp_type == LOG_APPEND_TIME:
            timestamp = header.max_timestamp
        else:
            timestamp = wrap_int64(header.base_timestamp + record.timestamp_delta)
        if base_timestamp is None:
            base_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        body = bytearray(b"\x00")
        write_varint(body, wrap_int64(timestamp - base_timestamp))
        body += data[record.rest : record.end]
        write_varint(out, len(body))
        out += body
    return out, NO_TIMESTAMP if base_timestamp is None else base_timestamp, max_timestamp
