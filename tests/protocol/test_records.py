import contextlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from record_samples import (
    JAVA_LEGACY,
    JAVA_RECORDS,
    JAVA_V2,
    mutations,
    numbered,
    record_lists,
)

from penstock.protocol import batch
from penstock.protocol.batch import CorruptBatch, MalformedRecords
from penstock.protocol.compression import Codec, DecompressedTooLarge
from penstock.protocol.records import (
    ControlRecordType,
    EndTxnMarker,
    Record,
    control_record_type,
    decode_batch,
    decode_batches,
    decode_end_txn_marker,
    encode_batch,
    encode_control_batch,
    encode_end_txn_marker,
    read_varint,
    read_varlong,
    recompress,
    records_section,
    write_varint,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NOW_MS = 1_700_000_000_000
ROWS = [Record(0, NOW_MS + index, b"key %d" % index, b"value" * index) for index in range(20)]


@given(INT32)
def test_varints_round_trip(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert len(out) <= 5
    assert read_varint(bytes(out), 0) == (value, len(out))
    assert read_varlong(bytes(out), 0) == (value, len(out))


@given(INT64)
def test_varlongs_round_trip(value: int) -> None:
    out = bytearray(b"before")
    write_varint(out, value)
    assert read_varlong(bytes(out), 6) == (value, len(out))


def test_endless_varints_are_refused() -> None:
    with pytest.raises(MalformedRecords):
        read_varint(b"\xff" * 6, 0)
    with pytest.raises(MalformedRecords):
        read_varlong(b"\xff" * 11, 0)


@given(record_lists, st.integers(0, 2**40), st.sampled_from(Codec))
def test_batches_round_trip(rows: list[Record], base_offset: int, codec: Codec) -> None:
    data = encode_batch(rows, base_offset, codec, partition_leader_epoch=3)
    header = batch.parse_header(data)
    assert batch.crc_is_valid(data, header)
    assert header.size_bytes == len(data)
    assert (header.base_offset, header.count, header.last_offset) == (
        base_offset,
        len(rows),
        base_offset + len(rows) - 1,
    )
    assert header.max_timestamp == max(row.timestamp for row in rows)
    assert list(decode_batch(data)) == numbered(rows, base_offset)
    assert list(decode_batch(b"xyz" + data, 3)) == numbered(rows, base_offset)


@given(rows=record_lists)
def test_bytes_are_those_of_kafka_python(rows: list[Record]) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=True,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        batch_size=1 << 20,
    )
    for offset, row in enumerate(rows):
        builder.append(offset, row.timestamp, row.key, row.value, list(row.headers))
    ours = encode_batch(
        rows,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        transactional=True,
        partition_leader_epoch=0,
    )
    assert ours == bytes(builder.build())


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
@given(rows=record_lists)
def test_kafka_python_reads_ours(codec: Codec, rows: list[Record]) -> None:
    # Unlike Java, kafka-python does not let a delta of timestamps overflow.
    assume(all(abs(row.timestamp - rows[0].timestamp) < 2**63 for row in rows))
    (theirs,) = MemoryRecords(encode_batch(rows, 5, codec))
    assert theirs.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs]
    assert read == numbered(rows, 5)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_we_read_kafka_pythons(codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(2, int(codec), False, -1, -1, -1, 1 << 20)
    for offset, row in enumerate(ROWS):
        builder.append(offset, row.timestamp, row.key, row.value, [])
    data = bytes(builder.build())
    assert batch.parse_header(data).compression == codec
    assert list(decode_batch(data)) == numbered(ROWS)


@pytest.mark.parametrize("codec", JAVA_V2)
def test_we_read_what_kafka_wrote(codec: str) -> None:
    data = JAVA_V2[codec]
    assert batch.crc_is_valid(data, batch.parse_header(data))
    assert list(decode_batch(data)) == JAVA_RECORDS


def test_bytes_are_those_of_kafka() -> None:
    ours = encode_batch(JAVA_RECORDS, 100, partition_leader_epoch=4)
    assert ours == JAVA_V2["none"]


@pytest.mark.parametrize(("magic", "codec"), JAVA_LEGACY)
def test_we_read_old_messages_that_kafka_wrote(magic: int, codec: str) -> None:
    expected = [record._replace(headers=()) for record in JAVA_RECORDS]
    if magic == 0:
        expected = [record._replace(timestamp=-1) for record in expected]
    assert list(decode_batches(JAVA_LEGACY[magic, codec])) == expected


@pytest.mark.parametrize("magic", [0, 1])
def test_we_read_old_messages_of_kafka_python(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 1, 1 << 20)
    for offset, row in enumerate(ROWS):
        builder.append(offset, row.timestamp, row.key, row.value)
    data = bytearray(builder.build())
    data[:8] = (19).to_bytes(8, "big")  # as a broker numbers the wrapper: by its last message
    read = list(decode_batches(data))
    assert [(record.offset, record.key, record.value) for record in read] == [
        (offset, row.key, row.value) for offset, row in enumerate(ROWS)
    ]


def test_log_append_time_of_a_wrapper_holds_for_what_it_wraps() -> None:
    data = bytearray(JAVA_LEGACY[1, "gzip"])
    data[17] |= batch.TIMESTAMP_TYPE_MASK
    assert {record.timestamp for record in decode_batches(data)} == {1700000000500}


@pytest.mark.parametrize("data", [*JAVA_V2.values(), *JAVA_LEGACY.values()])
@given(draw=st.data())
def test_damaged_batches_raise_their_own_errors(data: bytes, draw: st.DataObject) -> None:
    damaged = draw.draw(mutations(data))
    with contextlib.suppress(CorruptBatch, MalformedRecords):
        list(decode_batches(damaged, max_bytes=1 << 16))


def malformed(payload: bytes, count: int = 1) -> bytes:
    header = batch.parse_header(encode_batch([Record(0, 0, b"", b"")]))
    out = bytearray(batch.HEADER_SIZE) + payload
    batch.write_header(out, header._replace(count=count, last_offset_delta=count - 1))
    return bytes(out)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "bytes end early"),
        (b"\x0c\x00\x00\x00\x01\x01", "record of 6 bytes"),
        (b"\x01", "record of -1 bytes"),
        (b"\x0c\x00\x00\x02\x01\x01\x00", "offset delta 1"),
        (b"\x0c\x00\x00\x01\x01\x01\x00", "offset delta -1"),
        (b"\x0c\x00\x00\x00\x7e\x01\x00", "63 bytes of data"),
        (b"\x0c\x00\x00\x00\x01\x01\x02", "1 headers in 0"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", "-1 headers"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "header without key"),
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", "1 bytes off"),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", "1 bytes follow"),
    ],
)
def test_malformed_records_are_described(payload: bytes, reason: str) -> None:
    with pytest.raises(MalformedRecords, match=reason):
        list(decode_batch(malformed(payload)))


def test_a_good_record_by_hand() -> None:
    assert list(decode_batch(malformed(b"\x0c\x00\x03\x00\x01\x01\x00"))) == [Record(0, -2, None, None)]


def test_batches_that_lie_are_refused() -> None:
    data = encode_batch(ROWS)
    with pytest.raises(CorruptBatch, match="cut short"):
        decode_batch(data[:-1])
    unknown_codec = bytearray(data)
    unknown_codec[22] |= 7
    with pytest.raises(MalformedRecords, match="codec 7"):
        decode_batch(unknown_codec)
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])


def test_decompression_is_bounded() -> None:
    bomb = encode_batch([Record(0, 0, None, bytes(1 << 20))], compression=Codec.ZSTD)
    with pytest.raises(DecompressedTooLarge):
        decode_batch(bomb, max_bytes=1 << 16)


def test_offsets_may_have_gaps_after_compaction() -> None:
    rows = [record._replace(offset=offset) for record, offset in zip(ROWS, [7, 9, 30], strict=False)]
    data = encode_batch(rows, 5, keep_offsets=True)
    assert list(decode_batch(data)) == rows
    assert batch.parse_header(data).last_offset == 30


def test_log_append_time_is_every_records_time() -> None:
    data = encode_batch(ROWS, timestamp_type=batch.LOG_APPEND_TIME)
    assert {record.timestamp for record in decode_batch(data)} == {NOW_MS + 19}


def test_invalid_utf8_in_header_keys_is_replaced_as_java_does() -> None:
    data = malformed(b"\x14\x00\x00\x00\x01\x01\x02\x04\xff\x41\x01")
    assert next(decode_batch(data)).headers == (("\ufffdA", None),)


# Written by kafka-clients 4.3.1: MemoryRecords.withEndTransactionMarker.
JAVA_COMMIT = bytes.fromhex(
    "000000000000000000000042ffffffff02dbc3b9ad00300000000000000000000003e800000000000003e8"
    "000000000000002a0003ffffffff000000012000000008000000010c00000000000700"
)
JAVA_ABORT = bytes.fromhex(
    "00000000000000090000004200000005022ffd6fe500300000000000000000000003e800000000000003e8"
    "000000000000002a0003ffffffff000000012000000008000000000c00000000000700"
)


def test_transaction_markers_are_kafkas() -> None:
    marker = {"producer_id": 42, "producer_epoch": 3, "coordinator_epoch": 7, "timestamp": 1000}
    assert encode_end_txn_marker(committed=True, **marker) == JAVA_COMMIT
    aborted = encode_end_txn_marker(committed=False, base_offset=9, partition_leader_epoch=5, **marker)
    assert aborted == JAVA_ABORT
    assert decode_end_txn_marker(next(decode_batch(JAVA_COMMIT))) == EndTxnMarker(True, 7)
    assert decode_end_txn_marker(next(decode_batch(JAVA_ABORT))) == EndTxnMarker(False, 7)


def test_control_batches() -> None:
    entries = [(ControlRecordType.SNAPSHOT_HEADER, b"head"), (ControlRecordType.KRAFT_VERSION, b"one")]
    data = encode_control_batch(entries, timestamp=5, base_offset=8, partition_leader_epoch=2)
    header = batch.parse_header(data)
    assert header.is_control
    assert not header.is_transactional
    assert (header.base_offset, header.partition_leader_epoch, header.count) == (8, 2, 2)
    assert [(control_record_type(r.key), r.value) for r in decode_batch(data)] == entries
    assert list(decode_batches(data)) == []  # readers skip them


def test_control_records_of_another_kind() -> None:
    assert control_record_type(b"\x00\x00\x00\x63") == ControlRecordType.UNKNOWN
    assert control_record_type(b"\x00\x01\x00\x02more") == ControlRecordType.LEADER_CHANGE
    for key in (None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"):
        with pytest.raises(MalformedRecords):
            control_record_type(key)
    with pytest.raises(MalformedRecords, match="LEADER_CHANGE"):
        decode_end_txn_marker(Record(0, 0, b"\x00\x00\x00\x02", b"\x00" * 6))
    with pytest.raises(MalformedRecords, match="cut short"):
        decode_end_txn_marker(Record(0, 0, b"\x00\x00\x00\x01", None))


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_recompress_changes_the_envelope_only(source: Codec, target: Codec) -> None:
    data = encode_batch(ROWS, 40, source, producer_id=7, producer_epoch=1, base_sequence=3)
    before = batch.parse_header(data)
    out = recompress(before, records_section(data, before), target)
    after = batch.parse_header(out)
    assert batch.crc_is_valid(out, after)
    assert after.compression == target
    same = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert after._replace(**same) == before._replace(**same)
    assert list(decode_batch(out)) == list(decode_batch(data))
