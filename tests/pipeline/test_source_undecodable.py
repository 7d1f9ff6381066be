"""Undecodable records, in every format and by every policy: reported, put aside or kept, never just null."""

import json
import random
import struct
import uuid

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException, StreamingQueryException

import penstock
from penstock.arrow.batches import UndecodableRecord
from penstock.client.errors import RecordTooLarge
from penstock.client.reading.fetcher import PartitionRange
from penstock.spark.source.options import parse_batch, parse_streaming
from penstock.spark.source.read import read_ranges
from small_registry import SmallRegistry

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "int"}, {"name": "s", "type": "string"}],
}
PROTO = 'syntax = "proto3"; message M { int32 a = 1; string s = 2; } message Other { int32 b = 1; }'
JSON = {"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"}}}
NOWHERE = 77  # no schema has that id
DDL = {"value.schema": "a INT, s STRING"}


def framed(number, data):
    return struct.pack(">bI", 0, number) + data


# Format → options, a schema for the registry, a good value and bad ones.
CASES = {
    "avro": ({}, json.dumps(AVRO), framed(1, b"\x02\x02x"), {
        "no prefix": b"\x02\x02x",
        "nothing": b"",
        "no such id": framed(NOWHERE, b"\x02\x02x"),
        "cut": framed(1, b"\x02"),
        "more": framed(1, b"\x02\x02x\x00"),
        "no int": framed(1, b"\x80\x80\x80\x80\x40\x02x"),
        "no text": framed(1, b"\x02\x02\xff"),
    }),
    "protobuf": ({}, PROTO, framed(1, b"\x00\x08\x01\x12\x01x"), {
        "no prefix": b"\x08\x01",
        "no such id": framed(NOWHERE, b"\x00\x08\x01"),
        "no indexes": framed(1, b""),
        "another message": framed(1, b"\x02\x02\x08\x01"),
        "no such message": framed(1, b"\x02\x08\x08\x01"),
        "cut": framed(1, b"\x00\x12\x05x"),
        "a number that is too large": framed(1, b"\x00\x08\x80\x80\x80\x80\x10"),
        "no text": framed(1, b"\x00\x12\x01\xff"),
    }),
    "json-schema": ({}, json.dumps(JSON), framed(1, b'{"a": 1, "s": "x"}'), {
        "no prefix": b'{"a": 1}',
        "no such id": framed(NOWHERE, b'{"a": 1}'),
        "another type": framed(1, b'{"a": "1"}'),
        "no object": framed(1, b"[]"),
        "null": framed(1, b"null"),
        "cut": framed(1, b'{"a": 1'),
        "two": framed(1, b'{"a": 1}{"a": 2}'),
    }),
    "json": (DDL, None, b'{"a": 1, "s": "x"}', {
        "another type": b'{"a": "1"}',
        "too large": b'{"a": 2147483648}',
        "no whole number": b'{"a": 1.5}',
        "no object": b"1",
        "null": b"null",
        "nothing": b"",
        "no text": b'{"s": "\xff"}',
    }),
    "csv": (DDL, None, b"1,x", {
        "one field": b"1",
        "three fields": b"1,x,2",
        "another type": b"one,x",
        "nothing": b"",
        "two lines": b"1,x\n2,y",
        "an open quote": b'1,"x""',
    }),
    "string": ({}, None, b"x", {"no text": b"\xff"}),
    "int": ({}, None, b"1234", {"short": b"123", "long": b"12345", "nothing": b""}),
    "double": ({}, None, b"12345678", {"short": b"1234567"}),
    "uuid": ({}, None, uuid.UUID(int=5).bytes, {"letters": b"x" * 36, "short": b"x"}),
}  # fmt: skip


@pytest.fixture
def registry():
    with SmallRegistry().running() as running:
        yield running


@pytest.fixture(params=list(CASES))
def case(request, servers, registry, make_topic, produce):
    """Format, options, and the values of a topic: the good one, bad ones, a tombstone, the good one."""
    more, schema, good, bad = CASES[request.param]
    topic = make_topic()
    if schema is not None:
        types = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
        assert registry.add(f"{topic}-value", schema, types[request.param]) == 1
        more = {**more, "schema.registry.url": registry.url}
    values = [good, *bad.values(), None, good]
    produce(topic, values, key=b"k", headers=[("h", b"1")])
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "value.format": request.param, **more}
    return topic, given, values


def read(parse, given, topic, values):
    tables = [
        each.to_pylist() for each in read_ranges(parse(given), [PartitionRange(topic, 0, 0, len(values))])
    ]
    return [row for table in tables for row in table]


@pytest.mark.parametrize("parse", [parse_batch, parse_streaming])
def test_a_bad_value_fails_with_its_place_and_the_reason(case, parse):
    topic, given, values = case
    with pytest.raises(UndecodableRecord) as told:
        read(parse, given, topic, values)
    assert (told.value.topic, told.value.partition, told.value.offset, told.value.part) == (
        topic,
        0,
        1,
        "value",
    )
    said = f"value at offset 1 of {topic}-0 is not of the format '{given['value.format']}': "
    assert str(told.value).startswith(said)
    assert len(str(told.value)) > len(said)


@pytest.mark.parametrize("parse", [parse_batch, parse_streaming])
def test_or_stands_in_a_column_with_its_bytes(case, parse):
    topic, given, values = case
    rows = read(parse, {**given, "decode.errors": "column"}, topic, values)
    assert [row["offset"] for row in rows] == list(range(len(values)))
    for row, value in zip(rows, values, strict=True):
        is_good = value is None or value == values[0]
        assert (row["_error"] is None) == is_good, value
        assert row["_error_value"] == (None if is_good else value)
        assert (row["value"] is None) == (value != values[0])


@pytest.mark.parametrize("parse", [parse_batch, parse_streaming])
def test_or_is_null_with_the_reason_beside_it(case, parse):
    topic, given, values = case
    rows = read(parse, {**given, "decode.errors": "null"}, topic, values)
    for row, value in zip(rows, values, strict=True):
        assert (row["_error"] is None) == (value is None or value == values[0]), value
        assert (row["value"] is None) == (value != values[0])


@pytest.mark.parametrize("parse", [parse_batch, parse_streaming])
def test_or_goes_to_a_topic_with_headers_that_say_why(servers, make_topic, case, parse):
    topic, given, values = case
    aside = make_topic()
    policy = {"decode.errors": "dead-letter", "dead.letter.topic": aside}
    rows = read(parse, {**given, **policy}, topic, values)
    assert [row["offset"] for row in rows] == [0, len(values) - 2, len(values) - 1]
    assert [row["value"] is None for row in rows] == [False, True, False]
    letters = penstock.read(aside, servers, include_headers=True).to_table().to_pylist()
    assert [letter["value"] for letter in letters] == values[1:-2]
    for number, letter in enumerate(letters, 1):
        headers = {each["key"]: each["value"] for each in letter["headers"]}
        assert headers.pop("__penstock.errors.reason").startswith(b"value: ")
        assert headers == {
            "h": b"1",
            "__penstock.errors.topic": topic.encode(),
            "__penstock.errors.partition": b"0",
            "__penstock.errors.offset": str(number).encode(),
            "__penstock.errors.part": b"value",
            "__penstock.errors.format": given["value.format"].encode(),
        }


def test_a_bad_key_is_told_of_as_well(servers, make_topic, produce):
    topic, aside = make_topic(), make_topic()
    produce(topic, [b"1234", b"bad"], key=b"bad")
    given = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "value.format": "int",
        "key.format": "long",
    }
    policy = {"decode.errors": "dead-letter", "dead.letter.topic": aside}
    assert read(parse_batch, {**given, **policy}, topic, [b"", b""]) == []
    letters = penstock.read(aside, servers, include_headers=True).to_table().to_pylist()
    told = [
        {each["key"].rpartition(".")[2]: each["value"] for each in letter["headers"]} for letter in letters
    ]
    assert [(each["part"], each["format"]) for each in told] == [(b"key", b"long")] * 2
    assert told[0]["reason"].startswith(b"key: expected 8 bytes")
    assert b"; value: expected 4 bytes" in told[1]["reason"]


def test_a_record_that_filled_its_batch_goes_aside_with_its_headers(servers, make_topic):
    """One record fits only because it was compressed, the other is just below the topic's limit."""
    topic, small, large = make_topic(), make_topic(), make_topic(max_message_bytes=str(4 << 20))
    full = random.Random(3).randbytes(1_048_500)
    producer = Producer(
        {"bootstrap.servers": servers, "compression.type": "gzip", "message.max.bytes": 8 << 20}
    )
    for value in (b"x" * (3 << 20), full):
        producer.produce(topic, value)
        assert producer.flush(30) == 0
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "value.format": "int"}
    policy = {**given, "decode.errors": "dead-letter"}
    assert read(parse_batch, {**policy, "dead.letter.topic": small}, topic, [b""]) == []
    assert penstock.read(small, servers).to_table()["value"].to_pylist() == [b"x" * (3 << 20)]
    with pytest.raises(RecordTooLarge, match=f"larger than topic '{small}' takes: raise the topic's max"):
        read(parse_batch, {**policy, "dead.letter.topic": small}, topic, [b"", b""])
    assert read(parse_batch, {**policy, "dead.letter.topic": large}, topic, [b"", b""]) == []
    assert penstock.read(large, servers).to_table()["value"].to_pylist() == [b"x" * (3 << 20), full]


@pytest.mark.spark
def test_in_a_stream_of_spark(spark, servers, make_topic, produce, tmp_path):
    topic, aside = make_topic(), make_topic()
    produce(topic, [b'{"a": 1}', b'{"a": "x"}', None])
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    given |= {"valueFormat": "json", "valueSchema": "a INT"}

    def run(name, **policy):
        frame = spark.readStream.format("penstock").options(**given, **policy).load()
        query = (
            frame.writeStream.format("memory")
            .queryName(name)
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return spark.table(name).orderBy("offset").collect()

    with pytest.raises(
        (PySparkException, StreamingQueryException),
        match=rf"value at offset 1 of {topic}-0 is not of the format 'json'",
    ):
        run("failing")
    kept = run("kept", decodeErrors="column")
    assert [(row.offset, row.value and row.value.a) for row in kept] == [(0, 1), (1, None), (2, None)]
    assert [row["_error"] is None for row in kept] == [True, False, True]
    assert bytes(kept[1]["_error_value"]) == b'{"a": "x"}'
    left = run("left", decodeErrors="dead-letter", deadLetterTopic=aside)
    assert [row.offset for row in left] == [0, 2]
    assert penstock.read(aside, servers).to_table().column("value").to_pylist() == [b'{"a": "x"}']
