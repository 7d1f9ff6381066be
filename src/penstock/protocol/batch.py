"""The record batch header, the only part of a batch that the broker's hot path reads.

Format v2 (KIP-98), big endian, 61 bytes:

    baseOffset int64 | batchLength int32 | partitionLeaderEpoch int32 | magic int8 | crc uint32 |
    attributes int16 | lastOffsetDelta int32 | baseTimestamp int64 | maxTimestamp int64 |
    producerId int64 | producerEpoch int16 | baseSequence int32 | recordCount int32

The CRC-32C covers everything from ``attributes`` on, so the broker can set the base offset and the leader
epoch in a producer's own bytes without changing the checksum. This module never decodes records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from crc32c import crc32c

from penstock.errors import PenstockError
from penstock.protocol.errors import ErrorCode

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # baseOffset and batchLength, which batchLength does not count
LENGTH_OFFSET: Final = 8
MAGIC_OFFSET: Final = 16
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21  # the first byte that the CRC covers
MAX_TIMESTAMP_OFFSET: Final = 35
CURRENT_MAGIC: Final = 2
LEGACY_OVERHEAD: Final = (14, 22)  # the smallest batchLength of magic 0 and 1: no key, no value

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

_MAX_INT32: Final = 0x7FFFFFFF
_LAST_CODEC: Final = 4
SMALLEST_RECORD_BYTES: Final = 7
"""A byte each for length, attributes, timestamp and offset delta, key and value length, header count."""

_HEADER: Final = Struct(">qiibIhiqqqhii")
_LEGACY_HEADER: Final = Struct(">qiIbb")
_LENGTH: Final = Struct(">i")
_OFFSET_LENGTH_EPOCH: Final = Struct(">qii")
_CRC: Final = Struct(">I")
_INT16: Final = Struct(">h")
_INT64: Final = Struct(">q")


class CorruptBatch(PenstockError, ValueError):
    """The bytes are not a record batch: length, magic or checksum is wrong (CORRUPT_MESSAGE)."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidBatch(PenstockError, ValueError):
    """A well-formed batch must not be appended; ``code`` is the error that Kafka answers."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_RECORD) -> None:
        super().__init__(message)
        self.code = code


class MalformedRecords(PenstockError, ValueError):
    """The checksum is right, but the records cannot be parsed, so their producer wrote them wrong."""

    code = ErrorCode.INVALID_RECORD


class BatchHeader(NamedTuple):
    """One batch header; a message of magic 0 or 1 appears as a batch of one record (see `parse_header`)."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's name, although tuples have a method of that name

    @property
    def size_bytes(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_MASK else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_MASK)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones may be removed (KIP-534); compaction stores it instead of the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap from 2**31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


# A NamedTuple's own constructor unpacks thirteen parameters; this one takes the unpacked tuple as it is.
_new_tuple = tuple.__new__


def increment_sequence(sequence: int, increment: int) -> int:
    return (sequence + increment) & _MAX_INT32


def decrement_sequence(sequence: int, decrement: int) -> int:
    return (sequence - decrement) & _MAX_INT32


def parse_header(buf: Buffer, position: int = 0) -> BatchHeader:
    """Parse the header of the batch at `position`; neither the CRC nor the size of the batch is checked.

    A message of magic 0 or 1 becomes a header without epoch, producer and sequence, with count 1 and
    last_offset_delta 0. If it wraps compressed messages, its offset is that of the *last* message inside
    (magic 1), and the count is unknown without decompressing. Then `last_offset` and `next_offset` are right,
    and `base_offset` is not.

    Raises CorruptBatch if too few bytes remain, or if length or magic are impossible.
    """
    try:
        header = _new_tuple(BatchHeader, _HEADER.unpack_from(buf, position))
    except StructError:
        return _parse_legacy_header(buf, position)
    if header[3] != CURRENT_MAGIC:
        return _parse_legacy_header(buf, position)
    if header[1] < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptBatch(f"batch length {header[1]} at byte {position} is less than a header's")
    return header


def _parse_legacy_header(buf: Buffer, position: int) -> BatchHeader:
    try:
        offset, length, crc, magic, attributes = _LEGACY_HEADER.unpack_from(buf, position)
    except StructError:
        raise CorruptBatch(f"{len(buf) - position} bytes at byte {position} are no batch header") from None
    if not 0 <= magic <= CURRENT_MAGIC:
        raise CorruptBatch(f"unknown magic {magic} at byte {position}")
    if magic == CURRENT_MAGIC:
        raise CorruptBatch(f"{len(buf) - position} bytes at byte {position} are no batch header")
    if length < LEGACY_OVERHEAD[magic]:
        raise CorruptBatch(f"message length {length} at byte {position} is less than a header's")
    timestamp = NO_TIMESTAMP
    if magic == 1:
        try:
            (timestamp,) = _INT64.unpack_from(buf, position + _LEGACY_HEADER.size)
        except StructError:
            raise CorruptBatch(f"message header at byte {position} is cut short") from None
    return BatchHeader(
        base_offset=offset,
        batch_length=length,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes & (COMPRESSION_MASK | TIMESTAMP_TYPE_MASK),
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        count=1,
    )


def batch_size_bytes(buf: Buffer, position: int = 0) -> int | None:
    """The full size of the batch at `position`; None if even its length is incomplete."""
    if len(buf) - position < LOG_OVERHEAD:
        return None
    (length,) = _LENGTH.unpack_from(buf, position + LENGTH_OFFSET)
    if length < LEGACY_OVERHEAD[0]:
        raise CorruptBatch(f"batch length {length} at byte {position} is less than a header's")
    return LOG_OVERHEAD + int(length)


def crc_is_valid(buf: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """Whether the checksum of the batch at `position` is right (CRC-32C, or CRC-32 for magic 0 and 1)."""
    end = position + header.size_bytes
    if end > len(buf):
        return False
    with memoryview(buf) as view:
        if header.magic == CURRENT_MAGIC:
            return crc32c(view[position + ATTRIBUTES_OFFSET : end]) == header.crc
        return crc32(view[position + MAGIC_OFFSET : end]) == header.crc


def iter_headers(buf: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over (position, header) of the whole batches from `position` on, without checking the CRC."""
    end = len(buf)
    while (size_bytes := batch_size_bytes(buf, position)) is not None and position + size_bytes <= end:
        yield position, parse_header(buf, position)
        position += size_bytes


def check_batches(buf: Buffer) -> list[BatchHeader]:
    """Check a sequence of whole batches written by a broker: lengths, magic and CRC, and nothing else.

    Returns their headers. Raises CorruptBatch if a checksum is wrong or bytes are left over.
    """
    headers = []
    end = 0
    for position, header in iter_headers(buf):
        if not crc_is_valid(buf, header, position):
            raise CorruptBatch(
                f"checksum of the batch at byte {position} (offset {header.base_offset}) fails"
            )
        headers.append(header)
        end = position + header.size_bytes
    if end != len(buf):
        raise CorruptBatch(f"{len(buf) - end} bytes after the last whole batch")
    return headers


def validate(records: memoryview) -> list[BatchHeader]:
    """Check a client's produce payload for one partition (Produce version 3 and later) by its header alone.

    Returns a list of exactly one header, because these versions take one batch per partition. Raises
    CorruptBatch or InvalidBatch with the error code that Kafka answers. The caller calls `check_timestamps`
    and checks the size limit, which depend on the topic.

    This is stricter than Kafka 4, which detects the following only by decoding the records, or not at all:
    bytes after the batch (Kafka cuts them off), an unknown codec (UNKNOWN_SERVER_ERROR there), a producer id
    without an epoch, LogAppendTime set by the client on a CreateTime topic, and more records declared than
    the bytes can hold.
    """
    try:
        header = _new_tuple(BatchHeader, _HEADER.unpack_from(records))
    except StructError:
        raise _refusal_without_header(records) from None
    (base_offset, length, _, magic, crc, attributes, last_delta, _, _, pid, epoch, sequence, count) = header
    if (
        magic == 2
        and length + 12 == len(records)
        and base_offset == 0
        and last_delta + 1 == count > 0
        and attributes & 0x2F <= 4  # a known codec, CreateTime, not a control batch
        and (attributes & 0x7 or count * 7 <= length - 49)
        and (pid < 0 or (sequence >= 0 and epoch >= 0))
        and crc32c(records[21:]) == crc
    ):
        return [header]
    raise _refusal(records, header)


def _refusal_without_header(records: memoryview) -> CorruptBatch | InvalidBatch:
    """The error for a payload that is shorter than a header."""
    try:
        size_bytes = batch_size_bytes(records)
        if size_bytes is None or size_bytes > len(records):
            return InvalidBatch(f"no whole record batch in {len(records)} bytes")
        magic = parse_header(records).magic
    except CorruptBatch as error:
        return error
    return _old_magic(magic)


def _old_magic(magic: int) -> InvalidBatch:
    return InvalidBatch(f"magic {magic}: Produce version 3 and later take magic 2 only")


def _refusal(records: memoryview, header: BatchHeader) -> CorruptBatch | InvalidBatch:
    """The error of a payload that `validate` refuses, by Kafka's order of checks."""
    if error := _framing_error(records, header):
        return error
    if header.base_offset != 0:
        return InvalidBatch(f"base offset of a produced batch is {header.base_offset}, not 0")
    if not crc_is_valid(records, header):
        return CorruptBatch(f"checksum of the batch is not the {header.crc:#010x} it states")
    if header.compression > _LAST_CODEC:
        return InvalidBatch(
            f"unknown compression codec {header.compression}", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        )
    if header.count <= 0 or header.last_offset_delta + 1 != header.count:
        return InvalidBatch(f"{header.count} records for last offset delta {header.last_offset_delta}")
    if header.is_control:
        return InvalidBatch("clients may not write control batches")
    if header.has_producer_id and header.base_sequence < 0:
        return InvalidBatch(f"sequence {header.base_sequence} with producer id {header.producer_id}")
    if header.has_producer_id and header.producer_epoch < 0:
        return InvalidBatch(
            f"producer epoch {header.producer_epoch} with producer id {header.producer_id}",
            ErrorCode.INVALID_PRODUCER_EPOCH,
        )
    if header.timestamp_type == LOG_APPEND_TIME:
        return InvalidBatch(
            "a producer may not set the timestamp type to LogAppendTime", ErrorCode.INVALID_TIMESTAMP
        )
    return InvalidBatch(f"{header.count} records cannot fit into {header.size_bytes - HEADER_SIZE} bytes")


def _framing_error(records: memoryview, header: BatchHeader) -> CorruptBatch | InvalidBatch | None:
    try:
        parse_header(records)
    except CorruptBatch as error:
        return error
    if header.size_bytes > len(records):
        return InvalidBatch(f"batch of {header.size_bytes} bytes is cut short at {len(records)}")
    if header.magic != CURRENT_MAGIC:
        return _old_magic(header.magic)
    if header.size_bytes < len(records):
        return InvalidBatch("Produce version 3 and later take exactly one record batch a partition")
    return None


def check_timestamps(header: BatchHeader, now_ms: int, before_max_ms: int, after_max_ms: int) -> None:
    """Refuse a CreateTime batch outside `message.timestamp.before.max.ms` / `.after.max.ms` (KIP-937).

    Only the first and the latest timestamp are checked, because the header has no others. As in Kafka, a
    record without a timestamp (-1) passes. Raises InvalidBatch with INVALID_TIMESTAMP.
    """
    earliest, latest = now_ms - before_max_ms, now_ms + after_max_ms
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            raise InvalidBatch(
                f"timestamp {timestamp} is out of range, it should be within [{earliest}, {latest}]",
                ErrorCode.INVALID_TIMESTAMP,
            )


def assign_offsets(
    buf: bytearray | memoryview, headers: Sequence[BatchHeader], first_offset: int, leader_epoch: int
) -> int:
    """Assign offsets from `first_offset` on to the batches of `buf`, in place, and set the leader epoch.

    `headers` are those of the batches in `buf`, in order, from its first byte on. The CRC covers neither
    field. Returns the offset after the last record.
    """
    position = 0
    offset = first_offset
    for header in headers:
        length = header[1]
        _OFFSET_LENGTH_EPOCH.pack_into(buf, position, offset, length, leader_epoch)
        offset += header[6] + 1
        position += length + 12
    return offset


def write_header(buf: bytearray | memoryview, header: BatchHeader) -> None:
    """Write `header` into the first 61 bytes of the batch that fills `buf`, and set its length and CRC."""
    _HEADER.pack_into(buf, 0, *header)
    _LENGTH.pack_into(buf, LENGTH_OFFSET, len(buf) - LOG_OVERHEAD)
    with memoryview(buf) as view:
        _CRC.pack_into(buf, CRC_OFFSET, crc32c(view[ATTRIBUTES_OFFSET:]))


def set_log_append_time(
    buf: bytearray | memoryview, header: BatchHeader, now_ms: int, position: int = 0
) -> BatchHeader:
    """Set LogAppendTime `now_ms` in the batch at `position`: attributes, max timestamp and CRC.

    The records keep their own timestamps; readers use the header's. Returns the new header.
    """
    return _rewrite(buf, header, position, header.attributes | TIMESTAMP_TYPE_MASK, now_ms)


def set_max_timestamp(
    buf: bytearray | memoryview, header: BatchHeader, max_timestamp: int, position: int = 0
) -> BatchHeader:
    """Correct the max timestamp (and so the CRC) of the batch at `position`. Returns the new header."""
    return _rewrite(buf, header, position, header.attributes, max_timestamp)


def _rewrite(
    buf: bytearray | memoryview, header: BatchHeader, position: int, attributes: int, max_timestamp: int
) -> BatchHeader:
    _INT16.pack_into(buf, position + ATTRIBUTES_OFFSET, attributes)
    _INT64.pack_into(buf, position + MAX_TIMESTAMP_OFFSET, max_timestamp)
    with memoryview(buf) as view:
        crc = crc32c(view[position + ATTRIBUTES_OFFSET : position + header.size_bytes])
    _CRC.pack_into(buf, position + CRC_OFFSET, crc)
    return header._replace(crc=crc, attributes=attributes, max_timestamp=max_timestamp)
