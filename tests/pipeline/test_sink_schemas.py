"""Columns that the sink writes in formats: readable by other libraries, subjects, values that don't fit."""

import io
import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest

import penstock
from penstock.client.settings import ConfigError
from penstock.registry.client.errors import RegistryRefused
from penstock.spark.sink.columns import SinkColumns
from penstock.spark.sink.options import parse_sink
from penstock.spark.sink.partitioner import RowRefused
from penstock.spark.sink.writer import WriteTask
from small_registry import SmallRegistry

KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(8, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
    ]
)
ROW = {
    "id": 7,
    "name": 'n"ß',
    "price": Decimal("1.50"),
    "at": datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    "day": date(2024, 2, 29),
    "tags": ["a", None],
}
COLUMNS = SinkColumns("value", "key", None, None, None, None)


@pytest.fixture
def registry():
    with SmallRegistry().running() as running:
        yield running


@pytest.fixture
def write(servers, registry, make_topic):
    """Write rows of (key, value) in a task and return the topic."""

    def run(rows, kind=KIND, with_registry=True, **options):
        topic = make_topic()
        given = {name.replace("_", "."): value for name, value in options.items()}
        given |= {"bootstrap.servers": servers, "topic": topic}
        if with_registry:
            given["schema.registry.url"] = registry.url
        keys, values = zip(*rows, strict=True)
        batch = pa.record_batch({"key": pa.array(keys, pa.string()), "value": pa.array(values, kind)})
        WriteTask(parse_sink(given), COLUMNS).run(iter([batch]))
        return topic

    return run


def values(servers, topic):
    return penstock.read(topic, servers).to_table().column("value").to_pylist()


def test_avro_is_written_with_a_schema_made_of_the_column_and_read_back(servers, registry, write):
    topic = write([("a", ROW), ("b", None), ("c", dict.fromkeys(ROW))], value_format="avro")
    (number,) = registry.subjects[f"{topic}-value"]
    data = values(servers, topic)
    assert data[0][:5] == struct.pack(">bI", 0, number)
    schema = fastavro.parse_schema(json.loads(registry.schemas[number]["schema"]))
    assert fastavro.schemaless_reader(io.BytesIO(data[0][5:]), schema, None) == ROW
    scan = penstock.read(topic, servers, value_format="avro", registry=registry.url)
    assert scan.to_table().column("value").to_pylist() == [ROW, None, dict.fromkeys(ROW)]


def test_protobuf_is_written_with_a_schema_made_of_the_column_and_read_back(servers, registry, write):
    whole, empty = {**ROW, "tags": ["a", ""]}, {**dict.fromkeys(ROW), "tags": []}
    topic = write([("a", whole), ("b", None), ("c", empty)], value_format="protobuf")
    (number,) = registry.subjects[f"{topic}-value"]
    assert values(servers, topic)[0][:6] == struct.pack(">bIb", 0, number, 0)
    scan = penstock.read(topic, servers, value_format="protobuf", registry=registry.url)
    assert scan.to_table().column("value").to_pylist() == [whole, None, empty]


def test_json_is_written_with_a_schema_and_read_back(servers, registry, write):
    kind = pa.struct([field for field in KIND if field.name != "price"])
    row = {name: value for name, value in ROW.items() if name != "price"}
    topic = write([("a", row), ("b", None)], kind, value_format="json-schema")
    scan = penstock.read(topic, servers, value_format="json-schema", registry=registry.url)
    assert scan.to_table().column("value").to_pylist() == [row, None]


def test_csv_and_json_need_no_registry(servers, write):
    kind = pa.struct([field for field in KIND if field.name not in ("tags", "at")])
    row = {name: ROW[name] for name in kind.names}
    topic = write([("a", row), ("b", {**dict.fromkeys(row), "name": ""})], kind, False, value_format="csv")
    assert values(servers, topic) == [b'7,"n""\xc3\x9f",1.50,2024-02-29', b',"",,']
    topic = write([("a", row)], kind, False, value_format="json")
    assert json.loads(values(servers, topic)[0]) == {**row, "price": "1.50", "day": "2024-02-29"}


PROTO = 'syntax = "proto3"; package shop; message Order { int64 id = 1; } message Line { int64 id = 1; }'
SCHEMA = json.dumps({"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]})
IDS = pa.struct([("id", pa.int64())])


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("topic", "{}-value"),
        ("record", "shop.Order"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "{}-shop.Order"),
    ],
)
def test_subjects_are_named_by_a_strategy(registry, write, strategy, subject):
    options = {"value_format": "avro", "value_schema": SCHEMA, "value_subject_name_strategy": strategy}
    topic = write([("a", {"id": 1})], IDS, **options)
    assert list(registry.subjects) == [subject.format(topic)]


def test_a_message_names_the_subject(registry, write):
    options = {"value_format": "protobuf", "value_schema": PROTO, "value_schema_message": "shop.Line"}
    write([("a", {"id": 1})], IDS, **options, value_subject_name_strategy="record")
    assert list(registry.subjects) == ["shop.Line"]


def test_a_schema_that_must_be_registered_already_is_not_registered(registry, write):
    options = {"value_format": "avro", "value_schema": SCHEMA, "auto_register_schemas": "false"}
    with pytest.raises(RegistryRefused, match="answered 404"):
        write([("a", {"id": 1})], IDS, **options)
    assert registry.subjects == {}


def test_rows_that_the_schema_does_not_hold_are_refused(write):
    with pytest.raises(RowRefused, match=r"the column 'value' for topic .*: field 'id' is null in a row"):
        write([("a", {"id": None})], IDS, value_format="avro", value_schema=SCHEMA)
    with pytest.raises(ConfigError, match="field 'id' is of type string, which the schema's long"):
        write(
            [("a", {"id": "1"})], pa.struct([("id", pa.string())]), value_format="avro", value_schema=SCHEMA
        )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"value.schema": "x"}, "option 'valueSchema' needs 'valueFormat'"),
        ({"value.schema.id": "7"}, "option 'valueSchemaId' needs 'valueFormat'"),
        ({"value.subject.name.strategy": "record"}, "strategy' needs 'valueFormat'"),
        ({"value.format": "csv", "value.subject.name.strategy": "record"}, "is for the formats avro, .* csv"),
        ({"schema.registry.url": "http://h"}, "'schema.registry.url' is for the formats avro, .* found none"),
        ({"value.format": "json", "schema.registry.url": "http://h"}, "formats avro, .*: found json"),
        ({"value.format": "json", "use.latest.version": "true"}, "'use.latest.version' is for the formats"),
        ({"value.format": "json", "value.schema": "x"}, "the format 'json' is written without a schema"),
        ({"value.format": "avro", "value.schema": "x", "value.schema.id": "7"}, "each selects the schema"),
        ({"value.format": "avro", "value.schema.version": "7"}, "'value.schema.version' needs a registry"),
        ({"value.format": "avro", "use.latest.version": "true"}, "'use.latest.version' needs a registry"),
        (
            {
                "value.format": "avro",
                "use.latest.version": "true",
                "value.subject.name.strategy": "record",
                "schema.registry.url": "http://127.0.0.1:9",
            },
            "needs the subject's name from the topic, found the strategy 'record'",
        ),
        (
            {"value.format": "protobuf", "value.schema.message": "M"},
            "'value.schema.message' selects a message",
        ),
        (
            {"value.format": "xml"},
            "expected one of binary, bytes, string, json, csv, avro, json-schema, protobuf",
        ),
        (
            {"value.format": "avro", "value.subject.name.strategy": "mine"},
            "expected topic, record, topic-record",
        ),
    ],
)
def test_options_that_cannot_be_are_told(options, told):
    with pytest.raises(ConfigError, match=told):
        parse_sink({"bootstrap.servers": "127.0.0.1:9", "topic": "t"} | options)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("delivery", "format"),
    [("at-least-once", "avro"), ("exactly-once", "avro"), ("at-least-once", "protobuf")],
)
def test_a_frame_is_written_and_read_back(spark, servers, registry, make_topic, tmp_path, delivery, format):
    topic = make_topic()
    frame = spark.sql(
        "SELECT 'k' AS key, named_struct('id', 1L, 'tags', array('a', 'b'), 'm', map('x', 2.5D)) AS value"
    )
    options = {
        "kafka.bootstrap.servers": servers,
        "schema.registry.url": registry.url,
        "value.format": format,
    }
    more = {"delivery": delivery} | ({"stagingLocation": str(tmp_path)} if delivery == "exactly-once" else {})
    frame.write.format("penstock").mode("append").options(**options, **more, topic=topic).save()
    found = spark.read.format("penstock").options(**options, subscribe=topic).load()
    (row,) = found.selectExpr("value.id", "value.tags", "value.m['x'] AS x").collect()
    assert tuple(row) == (1, ["a", "b"], 2.5)
