"""Record batches converted to Arrow, compared with the record-at-a-time decoder."""

from struct import pack

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.arrow import batches as arrow_batches
from penstock.arrow.batches import UndecodableRecord, record_batches
from penstock.arrow.formats import make_format
from penstock.arrow.layout import Layout
from penstock.client.reading.fetcher import PartitionRange
from penstock.client.settings import ConfigError
from penstock.protocol.compression import Codec
from penstock.protocol.records import Record, decode_batches, encode_batch

RECORDS = [
    Record(0, 1_700_000_000_123, b"k", b"v", []),
    Record(1, 0, None, None, [("h", b"x"), ("h", None), ("ü", b"")]),
    Record(2, -1, b"", b"", []),
    Record(3, 1_700_000_000_124, b"\xff\x00", "日本".encode(), [("last", b"y")]),
]
SPARKS = Layout(timestamp_unit="us", include_headers=True)

bytes_or_none = st.none() | st.binary(max_size=40)
record_lists = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**41),
        bytes_or_none,
        bytes_or_none,
        st.lists(st.tuples(st.text(max_size=5), bytes_or_none), max_size=3),
    ),
    min_size=1,
    max_size=30,
)


def rows(encoded, start=0, end=2**62, layout=SPARKS):
    """The rows of all Arrow batches, as tuples."""
    wanted = PartitionRange("t", 7, start, end)
    found = []
    for batch in record_batches(memoryview(encoded), wanted, layout):
        assert batch.schema.equals(layout.schema)
        batch.validate(full=True)
        found += [tuple(row.values()) for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize("codec", Codec)
def test_every_column_of_every_record(codec):
    found = rows(encode_batch(RECORDS, 100, codec))
    assert [row[:5] for row in found] == [
        (record.key, record.value, "t", 7, 100 + i) for i, record in enumerate(RECORDS)
    ]
    assert [round(row[5].timestamp() * 1000) for row in found] == [record.timestamp for record in RECORDS]
    assert {row[6] for row in found} == {0}
    assert [row[7] for row in found] == [
        [{"key": key, "value": value} for key, value in record.headers] or None for record in RECORDS
    ]


@settings(max_examples=60)
@given(st.lists(st.tuples(record_lists, st.sampled_from(Codec)), max_size=5), st.integers(0, 90), st.data())
def test_batches_of_any_kind_give_what_the_record_decoder_gives(parts, start, data):
    encoded, offset = b"", 0
    for records, codec in parts:
        encoded += encode_batch(records, offset, codec)
        offset += len(records)
    end = data.draw(st.integers(start, 160))
    layout = Layout(include_headers=True)
    expected = [
        (r.key, r.value, r.offset, r.timestamp, [{"key": k, "value": v} for k, v in r.headers] or None)
        for r in decode_batches(encoded)
        if start <= r.offset < end
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_batches, "ROWS_PER_BATCH", data.draw(st.integers(1, 40)))
        patch.setattr(arrow_batches, "_BYTES_PER_BATCH", data.draw(st.integers(1, 2000)))
        arrow_batches._repeated_often.cache_clear()
        found = rows(encoded, start, end, layout)
        arrow_batches._repeated_often.cache_clear()
    milliseconds = [row[5].timestamp() * 1000 for row in found]
    assert [
        (row[0], row[1], row[4], round(ms), row[7]) for row, ms in zip(found, milliseconds, strict=True)
    ] == (expected)


def test_only_the_range_is_taken_from_the_batches_around_it():
    batches = b"".join(encode_batch(RECORDS, offset) for offset in (0, 4, 8))
    assert [row[4] for row in rows(batches, 3, 9)] == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_large_fetches_come_in_several_arrow_batches(monkeypatch, codec):
    encoded = b"".join(encode_batch(RECORDS, offset, codec) for offset in range(0, 40, 4))
    wanted = PartitionRange("t", 0, 0, 40)

    def sizes():
        return [batch.num_rows for batch in record_batches(memoryview(encoded), wanted, Layout())]

    assert sizes() == [40]
    monkeypatch.setattr(arrow_batches, "ROWS_PER_BATCH", 9)
    assert sizes() == [8] * 5
    monkeypatch.setattr(arrow_batches, "_BYTES_PER_BATCH", 1)
    assert sizes() == [4] * 10


def test_a_timestamp_beyond_what_spark_can_say_is_the_last_one():
    batch = encode_batch([Record(0, 2**63 - 1, None, b"v", [])])
    wanted = PartitionRange("t", 0, 0, 1)
    (found,) = record_batches(memoryview(batch), wanted, SPARKS)
    assert found.column("timestamp").cast("int64").to_pylist() == [(2**63 - 1) // 1000 * 1000]
    (found,) = record_batches(memoryview(batch), wanted, Layout())
    assert found.column("timestamp").cast("int64").to_pylist() == [2**63 - 1]


def test_nothing_in_the_range_is_no_batch():
    assert rows(encode_batch(RECORDS), 50, 60) == []
    assert rows(b"") == []


def test_columns_in_the_order_asked_for():
    layout = Layout().select(["offset", "key"])
    assert rows(encode_batch(RECORDS[:2], 5), layout=layout) == [(5, b"k"), (6, None)]
    for columns, found in ((["offsett"], "unknown column 'offsett'"), ([], "found \\[\\]"), ("key", "'key'")):
        with pytest.raises(ConfigError, match=found):
            Layout().select(columns)


NUMBERS = [
    Record(0, 0, b"a", pack(">q", 7), ()),
    Record(0, 0, None, b"abc", ()),
    Record(0, 0, b"\xff", None, ()),
]


def test_what_cannot_be_decoded_ends_the_read_and_is_named():
    with pytest.raises(UndecodableRecord) as raised:
        rows(encode_batch(NUMBERS, 40), layout=Layout(value=make_format("long")))
    assert str(raised.value) == (
        "value at offset 41 of t-7 is not of the format 'long': expected 8 bytes, found 3 bytes b'abc'"
    )
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 7, 41)
    with pytest.raises(UndecodableRecord, match=r"key at offset 42 of t-7 .* expected UTF-8"):
        rows(encode_batch(NUMBERS, 40), layout=Layout(key=make_format("string")))


def test_what_cannot_be_decoded_is_null_and_told_by_choice():
    layout = Layout(make_format("string"), make_format("long"), "null").select(["key", "value", "_error"])
    found = rows(encode_batch(NUMBERS), layout=layout)
    assert [row[:2] for row in found] == [("a", 7), (None, None), (None, None)]
    assert found[0][2] is None
    assert found[1][2] == "value: expected 8 bytes, found 3 bytes b'abc'"
    assert found[2][2].startswith("key: expected UTF-8, found 1 bytes")
    only_errors = rows(encode_batch(NUMBERS), layout=layout.select(["_error"]))
    assert only_errors == [row[2:] for row in found]


def test_a_column_that_is_left_out_is_not_decoded():
    layout = Layout(value=make_format("long")).select(["offset"])
    assert rows(encode_batch(NUMBERS), layout=layout) == [(0,), (1,), (2,)]


def test_a_batch_of_more_rows_than_are_common(monkeypatch):
    monkeypatch.setattr(arrow_batches, "ROWS_PER_BATCH", 2)
    (found,) = record_batches(memoryview(encode_batch(RECORDS)), PartitionRange("t", 7, 0, 9), Layout())
    assert found.column("topic").to_pylist() == ["t"] * 4
    assert found.column("partition") == pa.array([7] * 4, pa.int32())
