"""Record batches to Arrow, compared with the record-at-a-time decoder."""

import pytest

from penstock.client.fetcher import PartitionRange
from penstock.protocol.compression import Codec
from penstock.protocol.records import Record, decode_batches, encode_batch
from penstock.spark.source import arrow
from penstock.spark.source.arrow import arrow_batches
from penstock.spark.source.schema import arrow_schema

RECORDS = [
    Record(0, 1_700_000_000_123, b"k", b"v", []),
    Record(1, 0, None, None, [("h", b"x"), ("h", None), ("ü", b"")]),
    Record(2, -1, b"", b"", []),
    Record(3, 1_700_000_000_124, b"\xff\x00", "日本".encode(), [("last", b"y")]),
]


def rows(batches, start=0, end=2**62, include_headers=True):
    """The rows of all Arrow batches, as tuples."""
    wanted = PartitionRange("t", 7, start, end)
    found = []
    for batch in arrow_batches(memoryview(batches), wanted, include_headers, True):
        assert batch.schema.equals(arrow_schema(include_headers))
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


def test_only_the_range_is_taken_from_the_batches_around_it():
    batches = b"".join(encode_batch(RECORDS, offset) for offset in (0, 4, 8))
    assert [row[4] for row in rows(batches, 3, 9)] == [3, 4, 5, 6, 7, 8]


def test_large_fetches_come_in_several_arrow_batches(monkeypatch):
    monkeypatch.setattr(arrow, "_ROWS_PER_BATCH", 6)
    batches = b"".join(encode_batch(RECORDS, offset) for offset in range(0, 40, 4))
    wanted = PartitionRange("t", 0, 0, 40)
    sizes = [b.num_rows for b in arrow_batches(memoryview(batches), wanted, False, True)]
    assert sizes == [4] * 10
    assert len(rows(batches)) == len(list(decode_batches(batches)))


def test_a_timestamp_beyond_what_spark_can_say_is_the_last_one():
    batch = encode_batch([Record(0, 2**63 - 1, None, b"v", [])])
    wanted = PartitionRange("t", 0, 0, 1)
    (found,) = arrow_batches(memoryview(batch), wanted, False, True)
    assert found.column("timestamp").cast("int64").to_pylist() == [(2**63 - 1) // 1000 * 1000]


def test_nothing_in_the_range_is_no_batch():
    assert rows(encode_batch(RECORDS), 50, 60) == []
