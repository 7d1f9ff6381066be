"""Schemas of a registry on the Spark source: columns, evolution while a query runs, dead letters."""

import io
import json
import pickle
import struct

import fastavro
import pytest
from pyspark.errors import PySparkException

import penstock
from penstock.arrow.formats import make_format
from penstock.client.reading.fetcher import PartitionRange
from penstock.client.settings import ConfigError
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.source.options import parse_batch, parse_streaming
from penstock.spark.source.read import read_ranges
from small_registry import SmallRegistry

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "prices", "type": {"type": "map", "values": "double"}, "default": {}},
    ],
}


@pytest.fixture
def registry():
    with SmallRegistry().running() as running:
        yield running


def framed(number, schema, value):
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return struct.pack(">bI", 0, number) + buffer.getvalue()


def options(servers, registry, topic, **more):
    given = {"kafka.bootstrap.servers": servers, "schema.registry.url": registry.url, "subscribe": topic}
    return given | {"value.format": "avro"} | more


def test_a_query_goes_on_over_new_schemas_and_puts_bad_records_aside(servers, registry, make_topic, produce):
    topic, aside = make_topic(), make_topic()
    second = registry.add(f"{topic}-value", json.dumps(SECOND))
    policy = {"decode.errors": "dead-letter", "dead.letter.topic": aside}
    planned = PenstockDataSource(options(servers, registry, topic, **policy)).schema()
    assert planned["value"].dataType.simpleString() == "struct<id:int,note:string,prices:map<string,double>>"
    query = parse_streaming(options(servers, registry, topic, **policy), planned)

    def batch(start, end):
        """The rows of a micro-batch of the query, as its tasks read it."""
        ranges = [PartitionRange(topic, 0, start, end)]
        tables = [each.to_pylist() for each in read_ranges(pickle.loads(pickle.dumps(query)), ranges)]
        return [(row["offset"], row["value"]) for table in tables for row in table]

    produce(topic, [framed(second, SECOND, {"id": 1, "note": "a", "prices": {"x": 1.5}})])
    assert batch(0, 1) == [(0, {"id": 1, "note": "a", "prices": [("x", 1.5)]})]
    first = registry.add(f"{topic}-value", json.dumps(FIRST))
    later = {**SECOND, "fields": [{"name": "new", "type": "string"}, *SECOND["fields"]]}
    third = registry.add(f"{topic}-value", json.dumps(later))
    produce(topic, [framed(first, FIRST, {"id": 2}), b"damaged"], key=b"k", headers=[("h", b"1")])
    produce(topic, [framed(third, later, {"id": 3, "new": "n", "note": "b", "prices": {}})])
    assert batch(1, 4) == [
        (1, {"id": 2, "note": None, "prices": []}),
        (3, {"id": 3, "note": "b", "prices": []}),
    ]
    (letter,) = penstock.read(aside, servers, include_headers=True).to_table().to_pylist()
    assert (letter["key"], letter["value"]) == (b"k", b"damaged")
    headers = {each["key"]: each["value"] for each in letter["headers"]}
    reason = headers.pop("__penstock.errors.reason").decode()
    assert reason.startswith("value: expected a zero byte and the id of a schema in four, found 7 bytes")
    assert headers == {
        "h": b"1",
        "__penstock.errors.topic": topic.encode(),
        "__penstock.errors.partition": b"0",
        "__penstock.errors.offset": b"2",
        "__penstock.errors.part": b"value",
        "__penstock.errors.format": b"avro",
    }


@pytest.mark.spark
def test_what_cannot_be_read_fails_or_is_kept_in_columns(spark, servers, registry, make_topic, produce):
    topic = make_topic()
    first = registry.add(f"{topic}-value", json.dumps(FIRST))
    produce(topic, [framed(first, FIRST, {"id": 1}), b"damaged", None])
    given = options(servers, registry, topic)
    with pytest.raises(
        PySparkException,
        match=r"value at offset 1 of \S+-0 is not of the format 'avro': expected a zero byte",
    ):
        spark.read.format("penstock").options(**given).load().collect()
    kept = spark.read.format("penstock").options(**given, decodeErrors="column").load().orderBy("offset")
    rows = kept.select("value.id", "_error", "_error_key", "_error_value").collect()
    assert tuple(rows[0]) == (1, None, None, None)
    assert rows[1][1].startswith("value: expected a zero byte")
    assert (rows[1][0], rows[1][2], bytes(rows[1][3])) == (None, None, b"damaged")
    assert tuple(rows[2]) == (None, None, None, None)


@pytest.mark.spark
def test_other_formats_are_columns_as_well(spark, servers, registry, make_topic, produce):
    topic = make_topic()
    properties = {"a": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}
    number = registry.add(f"{topic}-value", json.dumps({"type": "object", "properties": properties}), "JSON")
    text = 'syntax = "proto3"; message Key { int64 id = 1; map<string, int32> counts = 2; }'
    key_number = registry.add(f"{topic}-key", text, "PROTOBUF")
    produce(
        topic,
        [struct.pack(">bI", 0, number) + b'{"a": 1, "tags": ["x", "y"]}'],
        key=struct.pack(">bI", 0, key_number) + b"\x00\x08\x07\x12\x05\x0a\x01z\x10\x05",
    )
    given = options(servers, registry, topic, **{"value.format": "json-schema", "key.format": "protobuf"})
    frame = spark.read.format("penstock").options(**given).load()
    (row,) = frame.selectExpr("key.id", "key.counts['z'] AS z", "value.a", "value.tags[1] AS tag").collect()
    assert tuple(row) == (7, 5, 1, "y")


def test_columns_that_are_planned_stay_when_a_schema_is_registered_meanwhile(registry):
    registry.add("t-value", json.dumps(FIRST))
    given = options("127.0.0.1:9", registry, "t")
    planned = PenstockDataSource(given).schema()
    registry.add("t-value", json.dumps(SECOND))
    assert PenstockDataSource(given).schema() != planned
    layout = parse_batch(given, planned).layout
    assert layout.value.type == make_format("avro", json.dumps(FIRST)).type


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"decodeErrors": "dead-letter"}, "'deadLetterTopic' go together"),
        ({"deadLetterTopic": "d"}, "'deadLetterTopic' go together"),
        ({"valueFormat": "json"}, "options 'value.format' and 'valueFormat' differ"),
        ({"value.schema.version": "x"}, "option 'valueSchemaVersion': expected a whole number"),
        ({"schema.registry.urls": "x"}, "did you mean 'schema.registry.url'"),
        (
            {"value.format": "json"},
            "'schema.registry.url' is for the formats avro, .*: found binary and json",
        ),
        ({"subscribe": "a,b"}, "needs the subject of its schema where there are several topics"),
        ({"value.schema": json.dumps(FIRST), "value.schema.version": "1"}, "exclude each other"),
        ({"value.schema": json.dumps(FIRST), "value.schema.subject": "t-value"}, "exclude each other"),
    ],
)
def test_options_that_cannot_be_are_told(registry, more, told):
    registry.add("t-value", json.dumps(FIRST))
    with pytest.raises(ConfigError, match=told):
        parse_batch(options("127.0.0.1:9", registry, "t", **more))


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("subscribe", "orders,orders-bad"),
        ("subscribePattern", "orders.*"),
        ("assign", '{"orders": [0], "orders-bad": [3]}'),
    ],
)
def test_what_is_left_out_may_not_come_back(how, what):
    given = {"kafka.bootstrap.servers": "127.0.0.1:9", how: what, "value.format": "int"}
    policy = {"decode.errors": "dead-letter", "dead.letter.topic": "orders-bad"}
    with pytest.raises(ConfigError, match=f"expected a topic that the query does not read itself, .* {how} "):
        parse_streaming({**given, **policy})
    parse_streaming({**given, **policy, "dead.letter.topic": "bad"})
