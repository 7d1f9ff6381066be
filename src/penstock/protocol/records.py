"""Encoding and decoding of single records: whole batches, control batches, and the formats before v2.

The broker uses it for its own logs, and for the few cases in which Kafka must read inside a produced batch;
tests and tools use it, too. The hot paths avoid it: the broker reads headers only (`batch`), and readers of
whole topics decode into columns (`columns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from penstock.protocol import batch
from penstock.protocol.batch import (
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Buffer,
    CorruptBatch,
    MalformedRecords,
)
from penstock.protocol.compression import (
    DEFAULT_MAX_BYTES,
    Codec,
    compress,
    decompress,
    decompress_for_now,
    repair_lz4_header,
)

Headers = Sequence[tuple[str, bytes | None]]

_INT16_PAIR: Final = Struct(">hh")
_END_TXN_MARKER: Final = Struct(">hi")  # version, coordinator epoch
_INT32: Final = Struct(">i")
_MASK64: Final = 0xFFFFFFFFFFFFFFFF
_SIGN64: Final = 1 << 63
_INT64_MIN: Final = -_SIGN64
_INT64_MAX: Final = _SIGN64 - 1


class Record(NamedTuple):
    """One record; `offset` is absolute, `timestamp` is in ms since the epoch or -1 if there is none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# --- varints ------------------------------------------------------------------------------------------------


def write_varint(out: bytearray, value: int) -> None:
    """Append a zigzag varint of 32 or 64 bits."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def read_varint(buf: Buffer, position: int) -> tuple[int, int]:
    """Decode a zigzag varint of at most 32 bits, as Java does: (value, position after it).

    Raises IndexError at the end of `buf`, and MalformedRecords if the varint is longer than five bytes.
    """
    raw = buf[position]
    position += 1
    if raw > 0x7F:
        raw &= 0x7F
        shift = 7
        while True:
            byte = buf[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise MalformedRecords("varint longer than five bytes")
        raw &= 0xFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(buf: Buffer, position: int) -> tuple[int, int]:
    """Decode like `read_varint`, but up to 64 bits and ten bytes."""
    raw = buf[position]
    position += 1
    if raw > 0x7F:
        raw &= 0x7F
        shift = 7
        while True:
            byte = buf[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise MalformedRecords("varlong longer than ten bytes")
        raw &= _MASK64
    return (raw >> 1) ^ -(raw & 1), position


# --- encode -------------------------------------------------------------------------------------------------


def encode_record(
    out: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
) -> None:
    """Append one record of format v2 to `out`."""
    body = bytearray(b"\x00")  # the attributes of a record, none of which are defined
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, key)
    _write_bytes(body, value)
    write_varint(body, len(headers))
    for header_key, header_value in headers:
        _write_bytes(body, header_key.encode())
        _write_bytes(body, header_value)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(0x01)  # zigzag of -1
    else:
        write_varint(out, len(data))
        out += data


def encode_batch(
    records: Iterable[Record],
    base_offset: int = 0,
    compression: int = Codec.NONE,
    *,
    level: int | None = None,
    timestamp_type: int = CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    keep_offsets: bool = False,
) -> bytes:
    """Encode one batch of format v2.

    Records are numbered from `base_offset` on, and their own offsets are ignored. With `keep_offsets` they
    keep their own offsets and gaps; these must increase, and start at `base_offset` or later. Raises
    ValueError if there are no records.
    """
    rows = list(records)
    if not rows:
        raise ValueError("a batch holds at least one record")
    base_timestamp = rows[0].timestamp
    payload = bytearray()
    offset_delta = -1
    for row in rows:
        offset_delta = row.offset - base_offset if keep_offsets else offset_delta + 1
        encode_record(payload, offset_delta, row.timestamp - base_timestamp, row.key, row.value, row.headers)
    attributes = (
        compression
        | (batch.TIMESTAMP_TYPE_MASK if timestamp_type == LOG_APPEND_TIME else 0)
        | (batch.TRANSACTIONAL_MASK if transactional else 0)
        | (batch.CONTROL_MASK if control else 0)
    )
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=batch.CURRENT_MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max(row.timestamp for row in rows),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(rows),
    )
    return bytes(assemble_batch(header, compress(compression, payload, level)))


def produced_batch(
    rows: Sequence[Record], payload: Buffer, compression: int, transactional: bool
) -> bytearray:
    """A batch to produce, whose records are already encoded: ``payload`` has the rows, numbered from 0.

    The base timestamp is that of the first row. The producer fills in its id and the sequence.
    """
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=batch.CURRENT_MAGIC,
        crc=0,
        attributes=compression | (batch.TRANSACTIONAL_MASK if transactional else 0),
        last_offset_delta=len(rows) - 1,
        base_timestamp=rows[0].timestamp,
        max_timestamp=max(row.timestamp for row in rows),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        count=len(rows),
    )
    return assemble_batch(header, compress(compression, payload, None))


def assemble_batch(header: BatchHeader, payload: Buffer) -> bytearray:
    """Build a batch from `header` and its (compressed) records section, and set its length and CRC."""
    out = bytearray(HEADER_SIZE + len(payload))
    out[HEADER_SIZE:] = payload
    batch.write_header(out, header)
    return out


# --- decode -------------------------------------------------------------------------------------------------


def decode_batch(buf: Buffer, position: int = 0, max_bytes: int = DEFAULT_MAX_BYTES) -> Iterator[Record]:
    """Decode the batch (or message set of magic 0 or 1) at `position`, control records included.

    It may decompress to at most `max_bytes`. The CRC is not checked (see `batch.crc_is_valid`). Raises
    CorruptBatch for a bad header, and MalformedRecords for records that cannot be parsed.
    """
    header = batch.parse_header(buf, position)
    if position + header.size_bytes > len(buf):
        raise CorruptBatch(f"batch of {header.size_bytes} bytes at byte {position} is cut short")
    if header.magic < batch.CURRENT_MAGIC:
        return _decode_legacy(memoryview(buf)[position : position + header.size_bytes], header, max_bytes)
    return decode_records(header, records_section(buf, header, position, max_bytes))


def decode_batches(buf: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> Iterator[Record]:
    """Decode the records of all whole batches in `buf`, except those of control batches."""
    for position, header in batch.iter_headers(buf):
        if not header.is_control:
            yield from decode_batch(buf, position, max_bytes)


def records_section(
    buf: Buffer,
    header: BatchHeader,
    position: int = 0,
    max_bytes: int = DEFAULT_MAX_BYTES,
    *,
    for_now: bool = False,
) -> Buffer:
    """The part after the header of the v2 batch at `position`, decompressed.

    With `for_now`, the next such call in the same thread overwrites it.
    """
    section = memoryview(buf)[position + HEADER_SIZE : position + header.size_bytes]
    if header.attributes & batch.COMPRESSION_MASK == Codec.NONE:
        return section
    if for_now:
        return decompress_for_now(known_codec(header), section, max_bytes)
    return decompress(known_codec(header), section, max_bytes)


def known_codec(header: BatchHeader) -> Codec:
    try:
        return Codec(header.compression)
    except ValueError:
        raise MalformedRecords(f"unknown compression codec {header.compression}") from None


def decode_records(header: BatchHeader, section: Buffer) -> Iterator[Record]:
    """Decode the records of a v2 batch from its header and its decompressed records section.

    Raises MalformedRecords at the first record that cannot be parsed.
    """
    append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    data = bytes(section)  # indexing and slicing bytes is cheaper than with a memoryview
    position = 0
    for number in range(header.count):
        try:
            record, position = _decode_record(data, position, header)
        except (IndexError, MalformedRecords) as error:
            reason = "bytes end early" if isinstance(error, IndexError) else str(error)
            raise MalformedRecords(
                f"record {number} of {header.count} after base offset {header.base_offset}: {reason}"
            ) from None
        yield record if append_time is None else record._replace(timestamp=append_time)
    if position != len(data):
        raise MalformedRecords(
            f"{len(data) - position} bytes follow the {header.count} records of {header.base_offset}"
        )


def _decode_record(data: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = read_varint(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise MalformedRecords(f"record of {length} bytes where {len(data) - position} remain")
    timestamp_delta, position = read_varlong(data, position + 1)  # past the unused attributes
    offset_delta, position = read_varint(data, position)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise MalformedRecords(f"offset delta {offset_delta} outside 0 to {header.last_offset_delta}")
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    header_count, position = read_varint(data, position)
    headers: Headers = ()
    if header_count:
        headers, position = _read_headers(data, position, end, header_count)
    if position != end:
        raise MalformedRecords(f"record ends {end - position} bytes off the length it states")
    timestamp = header.base_timestamp + timestamp_delta
    if not _INT64_MIN <= timestamp <= _INT64_MAX:
        timestamp = wrap_int64(timestamp)
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _read_headers(data: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
    if not 0 <= count <= end - position:
        raise MalformedRecords(f"{count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise MalformedRecords("header without key")
        value, position = _read_bytes(data, position, end)
        headers.append((key.decode(errors="replace"), value))
    return tuple(headers), position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Read length-prefixed bytes; as in Java, any negative length means null."""
    length = data[position]
    if length < 0x80:  # a varint of one byte, which is the usual case
        length = (length >> 1) ^ -(length & 1)
        position += 1
    else:
        length, position = read_varint(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise MalformedRecords(f"{length} bytes of data where {end - position} remain in the record")
    return data[position:stop], stop


def wrap_int64(value: int) -> int:
    """Wrap a value around like the overflow of Java's long."""
    return ((value + _SIGN64) & _MASK64) - _SIGN64


# --- magic 0 and 1 ------------------------------------------------------------------------------------------

_LEGACY: Final = Struct(">qiIbb")  # offset, size, crc, magic, attributes; magic 1 adds an int64 timestamp


def _decode_legacy(message: memoryview, header: BatchHeader, max_bytes: int) -> Iterator[Record]:
    """Decode a message of the formats before v2, or the messages that its value wraps."""
    record = _decode_message(message, header)
    codec = known_codec(header)
    if codec == Codec.NONE:
        yield record
        return
    if record.value is None:
        raise MalformedRecords(f"compressed message at offset {header.base_offset} has no value")
    wrapped = repair_lz4_header(record.value) if codec == Codec.LZ4 and header.magic == 0 else record.value
    inner = memoryview(decompress(codec, wrapped, max_bytes))
    messages = list(_inner_messages(inner, header.magic))
    if not messages:
        raise MalformedRecords(f"compressed message at offset {header.base_offset} wraps nothing")
    # Magic 1 numbers the inner messages from 0, and the wrapper has the offset of the last one (KIP-31).
    first_offset = header.base_offset - messages[-1].offset if header.magic == 1 else 0
    append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    for inner_record in messages:
        timestamp = inner_record.timestamp if append_time is None else append_time
        yield inner_record._replace(offset=first_offset + inner_record.offset, timestamp=timestamp)


def _inner_messages(data: memoryview, magic: int) -> Iterator[Record]:
    position = 0
    while position < len(data):
        header = batch.parse_header(data, position)
        end = position + header.size_bytes
        if header.magic != magic or header.compression != Codec.NONE or end > len(data):
            raise MalformedRecords(f"message at byte {position} inside a compressed one has another format")
        yield _decode_message(data[position:end], header)
        position = end


def _decode_message(message: memoryview, header: BatchHeader) -> Record:
    position = _LEGACY.size + (8 if header.magic == 1 else 0)
    key, position = _read_legacy_bytes(message, position)
    value, position = _read_legacy_bytes(message, position)
    if position != len(message):
        raise MalformedRecords(f"{len(message) - position} bytes after the message at {header.base_offset}")
    return Record(header.base_offset, header.base_timestamp, key, value)


def _read_legacy_bytes(message: memoryview, position: int) -> tuple[bytes | None, int]:
    try:
        (length,) = _INT32.unpack_from(message, position)
    except StructError:
        raise MalformedRecords("message ends inside a length") from None
    position += 4
    if length < 0:
        return None, position
    if length > len(message) - position:
        raise MalformedRecords(
            f"{length} bytes of data where {len(message) - position} remain in the message"
        )
    return bytes(message[position : position + length]), position + length


# --- control batches ----------------------------------------------------------------------------------------


class ControlRecordType(IntEnum):
    """The type of a control record, which is the second int16 of its key."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTxnMarker(NamedTuple):
    committed: bool
    coordinator_epoch: int


def encode_control_batch(
    entries: Sequence[tuple[ControlRecordType, bytes]],
    *,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytes:
    """Encode a control batch of (type, value) entries.

    The value is the type's encoded message. KRaft's own types (LeaderChangeMessage, SnapshotHeaderRecord,
    SnapshotFooterRecord, KRaftVersionRecord, VotersRecord) have no version before the message.
    """
    return encode_batch(
        [Record(0, timestamp, _INT16_PAIR.pack(0, kind), value) for kind, value in entries],
        base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
        partition_leader_epoch=partition_leader_epoch,
    )


def control_record_type(key: bytes | None) -> ControlRecordType:
    """The type that a control record's key names; UNKNOWN for types of a later Kafka.

    Raises MalformedRecords if the bytes are not such a key.
    """
    if key is None or len(key) < _INT16_PAIR.size:
        raise MalformedRecords("control record without a type in its key")
    version, kind = _INT16_PAIR.unpack_from(key)
    if version < 0:
        raise MalformedRecords(f"control record key of version {version}")
    try:
        return ControlRecordType(kind)
    except ValueError:
        return ControlRecordType.UNKNOWN


def encode_end_txn_marker(
    *,
    committed: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Encode the batch that ends a transaction in one partition."""
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    return encode_control_batch(
        [(kind, _END_TXN_MARKER.pack(0, coordinator_epoch))],
        timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


def decode_end_txn_marker(record: Record) -> EndTxnMarker:
    """Decode a transaction marker. Raises MalformedRecords for other control records."""
    kind = control_record_type(record.key)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        raise MalformedRecords(f"{kind.name} is not a transaction marker")
    if record.value is None or len(record.value) < _END_TXN_MARKER.size:
        raise MalformedRecords("transaction marker is cut short")
    _, coordinator_epoch = _END_TXN_MARKER.unpack_from(record.value)
    return EndTxnMarker(kind == ControlRecordType.COMMIT, coordinator_epoch)


def recompress(header: BatchHeader, section: Buffer, codec: int, level: int | None = None) -> bytearray:
    """Build a v2 batch with another codec (compression.type) from its header and its decompressed records."""
    attributes = header.attributes & ~batch.COMPRESSION_MASK | codec
    return assemble_batch(header._replace(attributes=attributes), compress(codec, section, level))
