"""Confluent's serializers and fastavro read the records written here, and the other way round.

Further tests infer columns from schemas, and change a writer's schema under a reader.
"""

from __future__ import annotations

import datetime
import io
import json
from dataclasses import replace
from decimal import Decimal

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory

from penstock.registry.client.config import RegistryConfig
from penstock.registry.client.registry import RegistryClient
from penstock.registry.formats import parse as parse_schema
from penstock.sql.analysis import analyze
from penstock.sql.catalog import Catalog, Column, Role
from penstock.sql.engine.changing.inserted_records import record_of
from penstock.sql.formats import (
    FormatError,
    Side,
    headers_reader,
    register_schemas,
    registered_columns,
    value_serde,
)
from penstock.sql.formats.protobuf.rows import descriptor_of
from penstock.sql.language import types
from penstock.sql.language.errors import SqlError
from penstock.sql.language.parsing.script import parse
from small_registry import SmallRegistry

COLUMNS = [
    Column("ID", types.BIGINT),
    Column("NAME", types.STRING),
    Column("PRICE", types.Decimal(6, 2)),
    Column("DAY", types.DATE),
    Column("SOLD", types.TIMESTAMP),
    Column("TAGS", types.Array(types.STRING)),
    Column("AMOUNTS", types.Map(types.STRING, types.DOUBLE)),
    Column("PLACE", types.Struct((("X", types.INTEGER), ("OK", types.BOOLEAN)))),
]
ROW = (
    *(7, "Ada", Decimal("-12.50"), -1, 1_700_000_000_123, ["a", "b"], {"x": 1.5}),
    {"X": 3, "OK": True},
)
VALUE = SerializationContext("t", MessageField.VALUE)


@pytest.fixture
def registry():
    with SmallRegistry().running() as running:
        yield running


def serde_of(registry, format_, columns=COLUMNS, **settings):
    return value_serde(columns, format_, {"schema.registry.url": registry.url, **settings}, topic="t")


def client_of(registry):
    return RegistryClient(RegistryConfig.from_properties({"schema.registry.url": registry.url}))


def confluent(registry):
    return SchemaRegistryClient({"url": registry.url})


def source_of(statement):
    return analyze(parse(statement), Catalog()).catalog.source("S")


def test_confluents_client_reads_our_avro_and_we_read_fastavros(registry):
    serde = serde_of(registry, "AVRO")
    data = serde.serialize(ROW)
    found = AvroDeserializer(confluent(registry))(data, VALUE)
    assert (found["ID"], found["NAME"], found["PRICE"]) == (7, "Ada", Decimal("-12.50"))
    assert (found["DAY"], found["PLACE"]) == (datetime.date(1969, 12, 31), {"X": 3, "OK": True})
    assert found["SOLD"].timestamp() == 1_700_000_000.123
    assert found["AMOUNTS"] == [{"key": "x", "value": 1.5}]
    schema = fastavro.parse_schema(json.loads(registry.schemas[1]["schema"]))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, found)
    assert serde.deserialize(data[:5] + written.getvalue()) == ROW


def test_avro_of_another_writer_is_read_by_the_columns(registry):
    """Read maps, enums, reordered unions, narrower numbers and unused fields; then evolve the schema."""
    first = {
        "type": "record",
        "name": "Other",
        "fields": [
            {"name": "skipped", "type": {"type": "array", "items": {"type": "map", "values": "bytes"}}},
            {"name": "id", "type": "int"},
            {"name": "name", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "amounts", "type": {"type": "map", "values": "float"}},
            {"name": "place", "type": [{"type": "record", "name": "P", "fields": [
                {"name": "x", "type": ["int", "null"]}]}, "null"]},
        ],
    }  # fmt: skip
    second = {**first, "fields": [{"name": "name", "type": "long"}, first["fields"][1]]}
    serde = serde_of(registry, "AVRO")
    for schema, value, wanted in (
        (
            first,
            {
                "skipped": [{"a": b"x"}, {}],
                "id": 5,
                "name": "B",
                "amounts": {"y": 0.5},
                "place": {"x": None},
            },
            (5, "B", None, None, None, None, {"y": 0.5}, {"X": None, "OK": None}),
        ),
        (second, {"name": 12, "id": 6}, (6, "12", *[None] * 6)),
    ):
        serializer = AvroSerializer(confluent(registry), json.dumps(schema))
        assert serde.deserialize(serializer(value, VALUE)) == wanted


def test_avro_types_that_no_column_takes_are_refused_with_their_path(registry):
    schema = {"type": "record", "name": "R", "fields": [{"name": "ID", "type": ["null", "string"]}]}
    data = AvroSerializer(confluent(registry), json.dumps(schema))({"ID": "x"}, VALUE)
    with pytest.raises(FormatError, match=r"^ID: found string of Avro, expected BIGINT$"):
        serde_of(registry, "AVRO").deserialize(data)


def test_a_schema_that_an_id_names_is_written_with_its_defaults(registry):
    fields = [
        {"name": "more", "type": ["string", "null"], "default": "m"},
        {"name": "ID", "type": "long"},
    ]
    number = registry.add("x", json.dumps({"type": "record", "name": "R", "fields": fields}))
    serde = serde_of(registry, "AVRO", COLUMNS[:1], VALUE_SCHEMA_ID=str(number))
    data = serde.serialize((7,))
    assert AvroDeserializer(confluent(registry))(data, VALUE) == {"more": "m", "ID": 7}
    with pytest.raises(FormatError, match="NAME: found no such field"):
        serde_of(registry, "AVRO", COLUMNS[:2], VALUE_SCHEMA_ID=str(number)).serialize((7, "x"))
    assert "t-value" not in registry.subjects


def test_confluents_client_reads_our_json(registry):
    data = serde_of(registry, "JSON_SR").serialize(ROW)
    text = registry.schemas[1]["schema"]
    found = JSONDeserializer(text)(data, VALUE)
    assert (found["ID"], found["PRICE"], found["AMOUNTS"]) == (7, -12.5, [{"key": "x", "value": 1.5}])


def test_protobuf_goes_both_ways_with_confluents_client(registry):
    serde = serde_of(registry, "PROTOBUF")
    data = serde.serialize(ROW)
    schema = parse_schema("PROTOBUF", registry.schemas[1]["schema"])
    message = message_factory.GetMessageClass(descriptor_of(schema, [0]))
    config = {"use.deprecated.format": False}
    found = ProtobufDeserializer(message, config)(data, VALUE)
    assert (found.ID, found.NAME, found.DAY.year, found.PLACE.X) == (7, "Ada", 1969, 3)
    assert found.PRICE.value == (-1250).to_bytes(2, "big", signed=True)
    simple = parse_schema("PROTOBUF", 'syntax = "proto3"; message M { enum E { A = 0; } int32 id = 1; }')
    made = message_factory.GetMessageClass(descriptor_of(simple, [0]))
    written = ProtobufSerializer(made, confluent(registry), config)(made(id=9), VALUE)
    number = int.from_bytes(written[1:5], "big")
    registry.schemas[number] = {"schema": simple.canonical(), "schemaType": "PROTOBUF", "references": []}
    assert serde.deserialize(written)[:2] == (9, None)


@pytest.mark.parametrize("format_", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_columns_are_those_that_were_registered(format_, registry):
    columns = ", ".join(f"{each.name} {each.type}" for each in COLUMNS)
    source = source_of(
        f"CREATE STREAM s (k STRING KEY, {columns}) WITH (KAFKA_TOPIC='t', FORMAT='{format_}');"
    )
    client = client_of(registry)
    assert registered_columns(Side.VALUE, "t", format_, {}, client) == ()
    assert register_schemas(source, client, is_result=False) == {"t-key": 1, "t-value": 2}
    assert registered_columns(Side.VALUE, "t", format_, {}, client) == tuple(COLUMNS)
    (key,) = registered_columns(Side.KEY, "t", format_, {}, client)
    assert (key.type, key.role) == (types.STRING, Role.KEY)
    assert register_schemas(source, client, is_result=False) == {}
    statement = f"CREATE STREAM s WITH (KAFKA_TOPIC='t', VALUE_FORMAT='{format_}');"
    found = registered_columns(Side.VALUE, "t", format_, {}, client)
    assert analyze(parse(statement), Catalog(), registered=found).catalog.source("S").columns == found


def test_columns_of_schemas_that_others_wrote(registry):
    client = client_of(registry)
    registry.add("j-value", json.dumps({
        "type": "object",
        "definitions": {"p": {"type": "object", "properties": {"x": {"type": "number"}}}},
        "properties": {
            "b": {"type": "integer", "connect.index": 1},
            "a": {"type": ["null", "string"], "connect.index": 0},
            "p": {"$ref": "#/definitions/p"},
            "odd": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        },
    }), "JSON")  # fmt: skip
    found = registered_columns(Side.VALUE, "j", "JSON_SR", {}, client)
    assert [str(each.type) for each in found] == ["STRING", "BIGINT", "STRUCT<X DOUBLE>"]
    text = 'syntax = "proto3"; message M { oneof c { int32 a = 1; string b = 2; } M m = 3; }'
    registry.add("p-value", text, "PROTOBUF")
    found = registered_columns(Side.VALUE, "p", "PROTOBUF", {}, client)
    assert [(each.name, str(each.type)) for each in found] == [("C_0", "STRUCT<A INTEGER, B STRING>")]
    registry.add("a-value", '"long"')
    (one,) = registered_columns(Side.VALUE, "a", "AVRO", {"WRAP_SINGLE_VALUE": "false"}, client)
    assert (one.name, one.type) == ("ROWVAL", types.BIGINT)
    with pytest.raises(FormatError, match="WRAP_SINGLE_VALUE"):
        registered_columns(Side.VALUE, "a", "AVRO", {}, client)
    with pytest.raises(FormatError, match="of AVRO, expected one of JSON"):
        registered_columns(Side.VALUE, "a", "JSON_SR", {}, client)


def test_the_columns_may_be_those_of_any_message_of_the_schema(registry):
    text = (
        'syntax = "proto3"; package p; message M { message Line { int32 a = 1; } } message N { bool b = 1; }'
    )
    registry.add("p-value", text, "PROTOBUF")
    for name, columns in (("p.M.Line", ["A"]), ("p.N", ["B"])):
        chosen = {"VALUE_SCHEMA_FULL_NAME": name}
        found = registered_columns(Side.VALUE, "p", "PROTOBUF", chosen, client_of(registry))
        assert [each.name for each in found] == columns
    with pytest.raises(FormatError, match=r"no message 'Line', expected one of p\.M, p\.M\.Line, p\.N"):
        registered_columns(
            Side.VALUE, "p", "PROTOBUF", {"VALUE_SCHEMA_FULL_NAME": "Line"}, client_of(registry)
        )


def test_an_inserted_row_is_a_record(registry):
    statement = "CREATE STREAM s (k INT KEY, v DOUBLE, w STRING) WITH (KAFKA_TOPIC='t', FORMAT='JSON');"
    catalog = analyze(parse(statement), Catalog()).catalog

    def made(values):
        row = analyze(parse(f"INSERT INTO s {values};"), catalog).row
        return record_of(row, catalog.functions, {}, now_ms=99)

    assert made("(w, k) VALUES ('x', 1 + 1)") == ("t", b"2", b'{"V":null,"W":"x"}', 99)
    assert made("(ROWTIME, v) VALUES (5, 2)") == ("t", None, b'{"V":2.0,"W":null}', 5)
    with pytest.raises(SqlError, match="ROWTIME"):
        made("(ROWTIME, v) VALUES (-5, 2)")
    with pytest.raises(SqlError, match="which has no value"):
        made("(k) VALUES (1 / 0)")


def test_an_inserted_keys_schema_is_that_of_the_registry(registry):
    statement = "CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='t', FORMAT='AVRO');"
    catalog = analyze(parse(statement), Catalog()).catalog
    row = analyze(parse("INSERT INTO s VALUES (1, 2);"), catalog).row
    properties = {"schema.registry.url": registry.url}
    with pytest.raises(SqlError, match="found no schema t-key"):
        record_of(row, catalog.functions, properties, now_ms=0)
    number = registry.add("t-key", '"int"')
    record = record_of(row, catalog.functions, properties, now_ms=0)
    assert record.key == b"\0" + number.to_bytes(4, "big") + b"\2"
    registry.add("t-key", '"string"')
    with pytest.raises(SqlError, match="found STRING as the schema of the key in the registry"):
        record_of(row, catalog.functions, properties, now_ms=0)


def test_headers_are_read_all_or_the_last_of_a_key():
    statement = """CREATE STREAM s (v INT, h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS)
                   WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"""
    every = [each for each in source_of(statement).columns if each.role is Role.HEADERS]
    headers = [("a", b"1"), ("b", None), ("a", b"2")]
    wanted = [{"KEY": "a", "VALUE": b"1"}, {"KEY": "b", "VALUE": None}, {"KEY": "a", "VALUE": b"2"}]
    assert headers_reader(every)(headers) == (wanted,)
    some = [Column(name, types.BYTES, Role.HEADERS, name) for name in "abc"]
    assert headers_reader(some)(headers) == (b"2", None, None)


def test_the_default_of_a_field_stands_for_a_null_that_it_can_not_be(registry):
    inner = {"type": "record", "name": "I", "fields": [{"name": "N", "type": "int", "default": 4}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "S", "type": inner}]}
    number = registry.add("x", json.dumps(schema))
    columns = [Column("S", types.Struct((("N", types.INTEGER),)))]
    serde = serde_of(registry, "AVRO", columns, VALUE_SCHEMA_ID=str(number))
    data = serde.serialize(({"N": None},))
    assert AvroDeserializer(confluent(registry))(data, VALUE) == {"S": {"N": 4}}


def test_what_a_json_schema_has_beside_the_columns_is_null(registry):
    properties = {"V": {"type": "integer"}, "W": {"oneOf": [{"type": "null"}, {"type": "integer"}]}}
    text = json.dumps({"type": "object", "properties": properties})
    number = registry.add("x", text, "JSON")
    serde = serde_of(registry, "JSON_SR", [Column("V", types.BIGINT)], VALUE_SCHEMA_ID=str(number))
    assert serde.serialize((7,))[5:] == b'{"V":7,"W":null}'


def test_columns_are_those_that_a_named_schema_begins_with(registry):
    fields = [{"name": "V", "type": "int"}, {"name": "W", "type": ["null", "int"], "default": None}]
    number = registry.add("x", json.dumps({"type": "record", "name": "R", "fields": fields}))

    def registered(columns):
        statement = f"CREATE STREAM s ({columns}) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');"
        settings = (("VALUE_SCHEMA_ID", str(number)),)
        source = replace(source_of(statement), settings=settings)
        return register_schemas(source, client_of(registry), is_result=True)

    assert registered("V INT") == {"t-value": number}
    assert registered("V INT, W INT") == {"t-value": number}
    for wrong in ("W INT", "V STRING", "V INT, X INT"):
        with pytest.raises(FormatError, match=f"expected the columns as the schema {number} has them: V INT"):
            registered(wrong)


def test_wrappers_of_protobuf_are_values_that_may_be_null(registry):
    text = """syntax = "proto3"; import "google/protobuf/wrappers.proto";
              message R { google.protobuf.Int64Value N = 1; google.protobuf.StringValue T = 2; }"""
    registry.add("t-value", text, "PROTOBUF")
    columns = registered_columns(Side.VALUE, "t", "PROTOBUF", {}, client_of(registry))
    assert [(each.name, each.type) for each in columns] == [("N", types.BIGINT), ("T", types.STRING)]
    serde = serde_of(registry, "PROTOBUF", columns, VALUE_SCHEMA_ID="1")
    for row in [(7, "x"), (None, ""), (0, None)]:
        assert serde.deserialize(serde.serialize(row)) == row


def test_a_text_of_a_json_schema_is_a_text_whatever_connect_says(registry):
    schema = {"type": "object", "properties": {"V": {"type": "string", "connect.type": "int32"}}}
    registry.add("t-value", json.dumps(schema), "JSON")
    columns = registered_columns(Side.VALUE, "t", "JSON_SR", {}, client_of(registry))
    assert [each.type for each in columns] == [types.STRING]
