import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from record_samples import JAVA_LEGACY, JAVA_V2, mutations

from penstock.protocol import batch
from penstock.protocol.batch import BatchHeader, CorruptBatch, InvalidBatch
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, decode_batch, encode_batch

NOW_MS = 1_700_000_000_000
PAYLOAD = encode_batch([Record(0, NOW_MS, b"k", b"v")] * 3)[batch.HEADER_SIZE :]
GOOD = encode_batch([Record(0, NOW_MS, b"k", b"v")] * 3)
IDEMPOTENT = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}


def produced(
    *,
    magic: int = 2,
    length: int | None = None,
    crc: int | None = None,
    payload: bytes = PAYLOAD,
    base_offset: int = 0,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    count: int = 3,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch with any header a client might send, and a correct checksum unless one is given."""
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    under_crc = struct.pack(
        ">hiqqqhii",
        attributes,
        delta,
        NOW_MS,
        NOW_MS,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    under_crc += payload
    size = 9 + len(under_crc) if length is None else length
    checksum = crc32c(under_crc) if crc is None else crc
    return struct.pack(">qiibI", base_offset, size, -1, magic, checksum) + under_crc


# The codes are those of Apache Kafka 4.3.1 for the same bytes, except for those marked "stricter".
REFUSED = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "ten bytes": (GOOD[:10], ErrorCode.INVALID_RECORD),
    "half a header": (GOOD[:30], ErrorCode.INVALID_RECORD),
    "last byte missing": (GOOD[:-1], ErrorCode.INVALID_RECORD),
    "length beyond the bytes": (produced(length=1 << 20), ErrorCode.INVALID_RECORD),
    "largest length": (produced(length=2**31 - 1), ErrorCode.INVALID_RECORD),  # stricter: unknown error there
    "length below any message": (produced(length=13), ErrorCode.CORRUPT_MESSAGE),
    "length below a header": (produced(length=48), ErrorCode.CORRUPT_MESSAGE),
    "negative length": (produced(length=-5), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "a batch and a half": (GOOD + GOOD[:-5], ErrorCode.INVALID_RECORD),  # stricter: cut off there
    "bytes after the batch": (GOOD + b"\x01" * 5, ErrorCode.INVALID_RECORD),  # stricter: cut off there
    "magic 0": (produced(magic=0), ErrorCode.INVALID_RECORD),
    "magic 1": (produced(magic=1), ErrorCode.INVALID_RECORD),
    "message of magic 0": (JAVA_LEGACY[0, "none"], ErrorCode.INVALID_RECORD),
    "small message of magic 0": (
        struct.pack(">qiIbbii", 0, 14, 0, 0, 0, -1, -1),
        ErrorCode.INVALID_RECORD,
    ),
    "magic 3": (produced(magic=3), ErrorCode.CORRUPT_MESSAGE),
    "magic -1": (produced(magic=-1), ErrorCode.CORRUPT_MESSAGE),
    "checksum": (produced(crc=5), ErrorCode.CORRUPT_MESSAGE),
    "base offset": (produced(base_offset=5), ErrorCode.INVALID_RECORD),
    "negative base offset": (produced(base_offset=-1), ErrorCode.INVALID_RECORD),
    "last offset delta too large": (produced(last_offset_delta=5), ErrorCode.INVALID_RECORD),
    "last offset delta too small": (produced(last_offset_delta=0), ErrorCode.INVALID_RECORD),
    "last offset delta negative": (produced(last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "largest last offset delta": (produced(last_offset_delta=2**31 - 1), ErrorCode.INVALID_RECORD),
    "smallest last offset delta": (produced(last_offset_delta=-(2**31)), ErrorCode.INVALID_RECORD),
    "no records": (produced(count=0, payload=b""), ErrorCode.INVALID_RECORD),
    "negative count": (produced(count=-1), ErrorCode.INVALID_RECORD),
    "count that wraps": (
        produced(count=-(2**31), last_offset_delta=2**31 - 1),
        ErrorCode.INVALID_RECORD,
    ),
    "more records than bytes": (produced(count=2**31 - 1), ErrorCode.INVALID_RECORD),
    "control batch": (produced(attributes=0x20), ErrorCode.INVALID_RECORD),
    "codec 5": (produced(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),  # stricter: unknown error
    "codec 7": (produced(attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "log append time": (produced(attributes=8), ErrorCode.INVALID_TIMESTAMP),  # stricter on CreateTime topics
    "producer id, no sequence": (produced(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
    "negative sequence": (
        produced(**IDEMPOTENT | {"base_sequence": -2}),
        ErrorCode.INVALID_RECORD,
    ),
    "producer id, no epoch": (  # stricter
        produced(**IDEMPOTENT | {"producer_epoch": -1}),
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    "negative epoch": (
        produced(**IDEMPOTENT | {"producer_epoch": -2}),
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_batches_are_refused_by_their_header(name: str) -> None:
    records, code = REFUSED[name]
    with pytest.raises((CorruptBatch, InvalidBatch)) as refused:
        batch.validate(memoryview(records))
    assert refused.value.code == code
    assert isinstance(refused.value, CorruptBatch) == (code == ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize(
    "records",
    [
        GOOD,
        produced(**IDEMPOTENT),
        produced(**IDEMPOTENT | {"base_sequence": 2**31 - 2}),
        produced(attributes=0x10, **IDEMPOTENT),
        produced(attributes=0x40),  # Kafka lets a client set the delete horizon
        produced(attributes=0x80),  # and bits that have no meaning yet
        produced(producer_id=-1, producer_epoch=3, base_sequence=5),
        *[data.replace(b"\x00" * 7 + b"\x64", b"\x00" * 8, 1) for data in JAVA_V2.values()],
    ],
    ids=range(12),
)
def test_good_batches_pass(records: bytes) -> None:
    (header,) = batch.validate(memoryview(records))
    assert header == batch.parse_header(records)
    assert header.size_bytes == len(records)


@given(st.one_of(st.binary(max_size=200), mutations(GOOD)))
def test_validate_raises_nothing_else(records: bytes) -> None:
    try:
        (header,) = batch.validate(memoryview(records))
    except (CorruptBatch, InvalidBatch):
        return
    assert header.size_bytes == len(records)
    assert header.base_offset == 0
    assert header.count == header.last_offset_delta + 1 > 0


@given(st.integers(batch.CRC_OFFSET, len(GOOD) - 1), st.integers(1, 255))
def test_no_change_under_the_checksum_passes(position: int, flip: int) -> None:
    changed = bytearray(GOOD)
    changed[position] ^= flip
    with pytest.raises((CorruptBatch, InvalidBatch)):
        batch.validate(memoryview(changed))


def test_header_says_what_kafka_python_wrote() -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=1,
        is_transactional=True,
        producer_id=123456,
        producer_epoch=123,
        base_sequence=2**31 - 2,
        batch_size=1 << 20,
    )
    for offset in range(5):
        builder.append(offset, NOW_MS - offset, b"key", b"value" * 100, [("h", b"x")])
    data = bytes(builder.build())
    header, theirs = batch.parse_header(data), DefaultRecordBatch(data)
    assert header.crc == theirs.crc
    assert header.compression == theirs.compression_type == 1
    assert header.is_transactional
    assert not header.is_control
    assert header.timestamp_type == batch.CREATE_TIME
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS)
    assert header.last_sequence == theirs.last_sequence == 2
    assert header.next_offset == theirs.next_offset == 5
    assert batch.crc_is_valid(data, header)


@pytest.mark.parametrize(
    ("sequence", "increment", "result"),
    [(0, 0, 0), (0, 5, 5), (2**31 - 1, 1, 0), (2**31 - 1, 2**31 - 1, 2**31 - 2), (2**31 - 3, 4, 1)],
)
def test_sequences_wrap_to_zero(sequence: int, increment: int, result: int) -> None:
    assert batch.increment_sequence(sequence, increment) == result
    assert batch.decrement_sequence(result, increment) == sequence


def test_no_sequence_has_no_last_sequence() -> None:
    assert batch.parse_header(GOOD).last_sequence == batch.NO_SEQUENCE


@pytest.mark.parametrize(("magic", "codec"), JAVA_LEGACY)
def test_old_messages_show_as_batches_of_one(magic: int, codec: str) -> None:
    data = JAVA_LEGACY[magic, codec]
    found = list(batch.iter_headers(data))
    assert all(batch.crc_is_valid(data, header, position) for position, header in found)
    assert {header.magic for _, header in found} == {magic}
    assert len(found) == (3 if codec == "none" else 1)
    assert found[-1][1].last_offset == 102
    assert found[-1][1].next_offset == 103
    assert found[-1][1].max_timestamp == (1700000000500 if magic == 1 else -1)
    assert found[-1][0] + found[-1][1].size_bytes == len(data)


def test_iteration_stops_at_a_partial_batch() -> None:
    data = GOOD + JAVA_LEGACY[0, "none"] + GOOD[:-1]
    positions = [position for position, _ in batch.iter_headers(data)]
    assert len(positions) == 4
    assert [position for position, _ in batch.iter_headers(data, positions[1])] == positions[1:]


def test_check_batches_wants_them_whole_and_sound() -> None:
    assert [header.count for header in batch.check_batches(GOOD + GOOD)] == [3, 3]
    assert batch.check_batches(b"") == []
    with pytest.raises(CorruptBatch, match="after the last whole batch"):
        batch.check_batches(GOOD + GOOD[:-1])
    with pytest.raises(CorruptBatch, match="checksum"):
        batch.check_batches(GOOD + GOOD[:-1] + b"?")


def test_offsets_are_assigned_in_place_outside_the_checksum() -> None:
    buf = bytearray(GOOD + GOOD + JAVA_V2["zstd"])
    headers = batch.check_batches(buf)
    assert batch.assign_offsets(memoryview(buf), headers, 1 << 40, 7) == (1 << 40) + 9
    renumbered = batch.check_batches(buf)
    assert [header.base_offset - (1 << 40) for header in renumbered] == [0, 3, 6]
    assert {header.partition_leader_epoch for header in renumbered} == {7}
    restored = [
        new._replace(base_offset=old.base_offset, partition_leader_epoch=old.partition_leader_epoch)
        for new, old in zip(renumbered, headers, strict=True)
    ]
    assert restored == headers


@pytest.mark.parametrize("position", [0, len(GOOD)])
def test_log_append_time_stamps_the_header_and_leaves_the_records(position: int) -> None:
    buf = bytearray(GOOD + GOOD)
    stamped = batch.set_log_append_time(buf, batch.parse_header(buf, position), NOW_MS + 5, position)
    assert stamped == batch.parse_header(buf, position)
    assert stamped.timestamp_type == batch.LOG_APPEND_TIME
    assert len(batch.check_batches(buf)) == 2
    assert buf[position + batch.HEADER_SIZE : position + len(GOOD)] == PAYLOAD
    assert [record.timestamp for record in decode_batch(buf, position)] == [NOW_MS + 5] * 3


def test_max_timestamp_is_corrected_with_the_checksum() -> None:
    buf = bytearray(GOOD)
    batch.set_max_timestamp(buf, batch.parse_header(buf), 12345)
    (header,) = batch.validate(memoryview(buf))
    assert header.max_timestamp == 12345
    assert header.timestamp_type == batch.CREATE_TIME


def header_at(base_timestamp: int, max_timestamp: int) -> BatchHeader:
    return batch.parse_header(GOOD)._replace(base_timestamp=base_timestamp, max_timestamp=max_timestamp)


HOUR_MS = 3_600_000
FOREVER_MS = 2**63 - 1


@pytest.mark.parametrize(
    ("base", "latest", "before_max_ms", "refused"),
    [
        (NOW_MS, NOW_MS, FOREVER_MS, False),
        (NOW_MS, NOW_MS + HOUR_MS, FOREVER_MS, False),
        (NOW_MS, NOW_MS + HOUR_MS + 1, FOREVER_MS, True),
        (NOW_MS + HOUR_MS + 1, NOW_MS + HOUR_MS + 1, FOREVER_MS, True),
        (0, NOW_MS, FOREVER_MS, False),
        (-1, -1, HOUR_MS, False),
        (NOW_MS - HOUR_MS - 1, NOW_MS, HOUR_MS, True),
        (NOW_MS - HOUR_MS, NOW_MS, HOUR_MS, False),
    ],
)
def test_timestamps_must_lie_near_now(base: int, latest: int, before_max_ms: int, refused: bool) -> None:
    header = header_at(base, latest)
    if refused:
        with pytest.raises(InvalidBatch, match="out of range") as error:
            batch.check_timestamps(header, NOW_MS, before_max_ms, HOUR_MS)
        assert error.value.code == ErrorCode.INVALID_TIMESTAMP
    else:
        batch.check_timestamps(header, NOW_MS, before_max_ms, HOUR_MS)


def test_compaction_keeps_a_delete_horizon_in_the_base_timestamp() -> None:
    assert batch.parse_header(GOOD).delete_horizon_ms is None
    assert batch.parse_header(produced(attributes=0x40)).delete_horizon_ms == NOW_MS
