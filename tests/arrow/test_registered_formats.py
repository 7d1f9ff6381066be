"""Avro, JSON Schema, Protobuf and CSV as formats of a column: ids, evolution, bad data, with a registry."""

import io
import json
import pickle
import random
import struct
import time
from datetime import UTC, date, datetime

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import json_format, message_factory

from penstock.arrow.formats import make_format
from penstock.arrow.json.mapping import column_of
from penstock.arrow.protobuf.mapping import descriptor_of
from penstock.arrow.schema_choice import SchemaChoice
from penstock.client.settings import ConfigError
from penstock.registry.client.errors import RegistryRefused, RegistryUnreachable
from penstock.registry.client.registry import ABSENT_S, shared_registry
from penstock.registry.formats import Reference, parse
from penstock.registry.formats.references import Found
from small_registry import SmallRegistry

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "note", "type": "string"}, {"name": "id", "type": "int"}],
}
OTHER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated Line lines = 3;
  map<string, double> prices = 4;
  google.protobuf.Timestamp at = 5;
  State state = 6;
  uint64 large = 7;
  oneof pays { string card = 8; bool cash = 9; }
  message Line { string sku = 1; int32 n = 2; }
  enum State { NEW = 0; PAID = 1; }
}
message Other { int32 a = 1; message Inside { int32 b = 1; } }
"""


@pytest.fixture
def registry():
    with SmallRegistry().running() as running:
        yield running


def framed(number, data):
    return struct.pack(">bI", 0, number) + data


def avro(schema, *values):
    out = []
    for value in values:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
        out.append(buffer.getvalue())
    return out


def decoded(made, values):
    """(rows, bad rows); the format is pickled first, and the array is valid, also as a slice."""
    made = pickle.loads(pickle.dumps(made))
    found = made.decode(pa.array([b"before", *values], pa.binary()).slice(1))
    found.array.validate(full=True)
    assert found.array.type == made.type
    assert all(not found.array[row].is_valid for row in found.bad)
    return found.array.to_pylist(maps_as_pydicts="strict"), dict(found.bad)


def of_subject(registry, name, subject="t-value", **more):
    properties = {"schema.registry.url": registry.url, "max.retries": "0"}
    return make_format(name, SchemaChoice(subject=subject, registry=properties, **more))


def test_values_of_several_schemas_are_read_by_one(registry):
    first = registry.add("t-value", json.dumps(FIRST))
    made = of_subject(registry, "avro")
    assert made.type == pa.struct([("id", pa.int32())])
    second = registry.add("t-value", json.dumps(SECOND))  # while the query runs
    other = registry.add("t-value", json.dumps(OTHER))
    found, bad = decoded(
        made,
        [
            framed(second, avro(SECOND, {"id": 1, "note": "x"})[0]),
            None,
            framed(first, avro(FIRST, {"id": 2})[0]),
            framed(other, avro(OTHER, {"id": "3"})[0]),
            framed(second, avro(SECOND, {"id": 4, "note": ""})[0]),
            framed(99, b"\x02"),
            b"\x01\x00\x00\x00\x01\x02",
            b"\x00\x00",
            framed(first, b"\x02\x02"),
        ],
    )
    assert found == [{"id": 1}, None, {"id": 2}, None, {"id": 4}, None, None, None, None]
    assert sorted(bad) == [3, 5, 6, 7, 8]
    assert bad[3] == f"it has the schema id {other}: field 'id' was written as string, which int can't read"
    assert bad[5].startswith("it has the schema id 99: the registry has no such schema (GET http")
    assert bad[6].startswith("expected a zero byte and the id of a schema in four, found 6 bytes")
    assert bad[8] == f"1 bytes are left over after the datum (schema id {first})"
    asked = [request for request in registry.requests if "/ids/" in request]
    assert sorted(asked) == [f"GET /schemas/ids/{n}" for n in (first, second, other, 99)]


def test_a_version_or_a_text_may_be_the_readers(registry):
    registry.add("t-value", json.dumps(FIRST))
    second = registry.add("t-value", json.dumps(SECOND))
    data = [framed(second, avro(SECOND, {"id": 1, "note": "x"})[0])]
    assert decoded(of_subject(registry, "avro"), data)[0] == [{"note": "x", "id": 1}]
    assert decoded(of_subject(registry, "avro", version=1), data)[0] == [{"id": 1}]
    wide = json.dumps(FIRST).replace("int", "long")
    made = of_subject(registry, "avro", subject=None, schema=wide)
    assert (made.type, decoded(made, data)[0]) == (pa.struct([("id", pa.int64())]), [{"id": 1}])


def test_without_a_registry_values_have_no_id():
    made = make_format("avro", json.dumps(SECOND))
    found, bad = decoded(made, [*avro(SECOND, {"id": 5, "note": "n"}), None, b""])
    assert found == [{"note": "n", "id": 5}, None, None]
    assert list(bad) == [2]


def test_schemas_that_refer_to_others_are_found(registry):
    registry.add("part", json.dumps(FIRST))
    whole = {"type": "record", "name": "W", "fields": [{"name": "order", "type": "Order"}]}
    number = registry.add(
        "t-value", json.dumps(whole), references=[{"name": "Order", "subject": "part", "version": 1}]
    )
    found, bad = decoded(of_subject(registry, "avro"), [framed(number, b"\x0e")])
    assert (found, bad) == ([{"order": {"id": 7}}], {})


def test_a_registry_that_is_away_is_no_records_fault(registry):
    registry.add("t-value", json.dumps(FIRST))
    made = of_subject(registry, "avro")
    number = registry.add("t-value", json.dumps(SECOND))
    registry.failures = [500]
    with pytest.raises(RegistryRefused, match="answered 500"):
        decoded(made, [framed(number, b"\x00\x02")])
    registry.failures = [401]
    with pytest.raises(RegistryRefused, match="answered 401"):
        decoded(made, [framed(number, b"\x00\x02")])
    assert decoded(made, [framed(number, b"\x00\x02")]) == ([{"id": 1}], {})
    with SmallRegistry().running() as gone:
        pass
    with pytest.raises(RegistryUnreachable, match="in 1 attempts"):
        of_subject(gone, "avro")


@pytest.mark.parametrize("name", ["avro", "json-schema", "protobuf"])
def test_a_wrong_path_or_a_proxy_is_no_records_fault(registry, name):
    texts = {
        "avro": json.dumps(FIRST),
        "json-schema": '{"properties": {"a": {}}}',
        "protobuf": 'syntax = "proto3"; message M { int32 a = 1; }',
    }
    elsewhere = {"schema.registry.url": f"{registry.url}/elsewhere", "max.retries": "0"}
    made = make_format(name, SchemaChoice(texts[name], registry=elsewhere))
    with pytest.raises(RegistryRefused, match=r"answered 404 \(error code 404\)"):
        decoded(made, [framed(1, b"\x00")])


def test_ids_are_numbers_that_a_registry_can_have(registry):
    registry.add("t-value", json.dumps(FIRST))
    found, bad = decoded(of_subject(registry, "avro"), [framed(2**31, b"\x02"), framed(2**32 - 1, b"\x02")])
    assert found == [None, None]
    assert all(why.startswith("expected a zero byte and the id of a schema") for why in bad.values())
    assert not any("/ids/" in request for request in registry.requests)


def test_a_reference_that_comes_later_is_found(registry, monkeypatch):
    registry.add("t-value", json.dumps(FIRST))
    made = of_subject(registry, "avro")
    union = ["null", "Order"]
    number = registry.add(
        "t-value", json.dumps(union), references=[{"name": "Order", "subject": "part", "version": 1}]
    )
    found, bad = decoded(made, [framed(number, b"\x02\x0e")])
    assert found == [None]
    assert "the registry has no such schema (GET" in bad[0]
    assert "/subjects/part/versions/1 answered 404" in bad[0]
    registry.add("part", json.dumps(FIRST))
    client = shared_registry(made.registry)
    monkeypatch.setattr(client._absent, "_clock", lambda: time.monotonic() + ABSENT_S)
    assert decoded(made, [framed(number, b"\x02\x0e")]) == ([{"id": 7}], {})


def test_a_schema_of_another_type_is_told(registry):
    number = registry.add("t-value", '{"type": "object", "properties": {"a": {}}}', "JSON")
    with pytest.raises(ConfigError, match="subject 't-value' has a schema of the type JSON, expected AVRO"):
        of_subject(registry, "avro")
    registry.add("u-value", json.dumps(FIRST))
    _, bad = decoded(of_subject(registry, "avro", subject="u-value"), [framed(number, b"{}")])
    assert bad == {0: f"it has the schema id {number}: that id has a schema of the type JSON, expected AVRO"}


def test_what_is_missing_is_told():
    with pytest.raises(ConfigError, match="needs a schema: give one, or a registry"):
        make_format("avro")
    with pytest.raises(ConfigError, match="needs the subject of its schema"):
        make_format("avro", SchemaChoice(registry={"schema.registry.url": "http://127.0.0.1:1"}))
    with pytest.raises(ConfigError, match="invalid schema for the format 'avro'"):
        make_format("avro", '{"type": "reco"}')
    with pytest.raises(ConfigError, match="takes its schema as a text, found Schema"):
        make_format("avro", pa.schema([("a", pa.int32())]))
    with pytest.raises(ConfigError, match="has no messages to choose from"):
        make_format("avro", SchemaChoice(json.dumps(FIRST), message="M"))
    with pytest.raises(ConfigError, match="the text and the subject or version exclude each other"):
        make_format("avro", SchemaChoice(json.dumps(FIRST), version=1))
    with pytest.raises(ConfigError, match="has no subject"):
        make_format("json", SchemaChoice(subject="s"))


# --- Protobuf -----------------------------------------------------------------------------------------------


def message_class(text, name):
    return message_factory.GetMessageClass(descriptor_of(parse("PROTOBUF", text).file_set(), name))


def test_messages_are_structs(registry):
    number = registry.add("t-value", PROTO, "PROTOBUF")
    made = of_subject(registry, "protobuf")
    order = message_class(PROTO, "shop.Order")
    full = {
        "id": "7",
        "note": "n",
        "lines": [{"sku": "a", "n": 2}, {"sku": "b"}],
        "prices": {"a": 1.5},
        "at": "2024-01-01T00:00:00.123456789Z",
        "state": "PAID",
        "large": str(2**64 - 1),
        "cash": False,
    }
    other_state = order()
    other_state.state = 5
    values = [json_format.ParseDict(full, order()), order(), other_state]
    data = [framed(number, b"\x00" + each.SerializeToString()) for each in values]
    found, bad = decoded(made, [*data, None, framed(number, b"\x00\xff"), framed(number, b"")])
    assert sorted(bad) == [4, 5]
    assert found[0] == {
        "id": 7,
        "note": "n",
        "lines": [{"sku": "a", "n": 2}, {"sku": "b", "n": 0}],
        "prices": {"a": 1.5},
        "at": datetime(2024, 1, 1, 0, 0, 0, 123456, UTC),
        "state": "PAID",
        "large": 2**64 - 1,
        "card": None,
        "cash": False,
    }
    nothing = {"id": 0, "note": None, "lines": [], "prices": {}, "at": None, "state": "NEW", "large": 0}
    assert found[1] == {**nothing, "card": None, "cash": None}
    assert found[2]["state"] == "5"
    assert found[3] is None


def test_random_messages_are_what_googles_json_says(registry):
    seed = random.randrange(2**32)
    print("seed", seed)
    pick = random.Random(seed)
    number = registry.add("t-value", PROTO, "PROTOBUF")
    order = message_class(PROTO, "shop.Order")
    messages = []
    for _ in range(200):
        message = order(id=pick.randint(-(2**63), 2**63 - 1), large=pick.randrange(2**64))
        if pick.random() < 0.5:
            message.note = pick.choice(["", "ß𝄞", "x" * 300])
        for _ in range(pick.randrange(4)):
            message.lines.add(sku=str(pick.random()), n=pick.randint(-(2**31), 2**31 - 1))
        for _ in range(pick.randrange(3)):
            message.prices[str(pick.randrange(9))] = pick.uniform(-1e9, 1e9)
        if pick.random() < 0.5:
            message.card = "c"
        messages.append(message)
    data = [framed(number, b"\x00" + each.SerializeToString()) for each in messages]
    found, bad = decoded(of_subject(registry, "protobuf"), data)
    assert bad == {}
    for row, message in zip(found, messages, strict=True):
        told = json_format.MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        told["id"], told["large"] = int(told["id"]), int(told["large"])
        absent = {"note": None, "at": None, "card": None, "cash": None}
        assert row == {**absent, **told}


def test_messages_of_later_schemas_are_read_and_others_told(registry):
    registry.add("t-value", 'syntax = "proto3"; message M { int32 a = 1; string b = 2; }', "PROTOBUF")
    made = of_subject(registry, "protobuf")
    later_text = 'syntax = "proto3"; message M { int64 a = 1; string b = 2; string c = 3; }'
    later = registry.add("t-value", later_text, "PROTOBUF")
    changed_text = 'syntax = "proto3"; message M { string a = 1; }'
    changed = registry.add("t-value", changed_text, "PROTOBUF")
    named = registry.add("t-value", 'syntax = "proto3"; message N { int32 a = 1; }', "PROTOBUF")
    data = message_class(later_text, "M")(a=5, b="x", c="y").SerializeToString()
    found, bad = decoded(
        made,
        [
            framed(later, b"\x00" + data),
            framed(changed, b"\x00" + message_class(changed_text, "M")(a="z").SerializeToString()),
            framed(named, b"\x00"),
            framed(98, b"\x00"),
        ],
    )
    assert found == [{"a": 5, "b": "x"}, None, None, None]
    assert bad[1].startswith("field 'a' (number 1) was written as string, expected int32")
    assert bad[2].startswith("it is the message N, expected M")
    assert bad[3].startswith("the registry has no such schema")


def test_the_indexes_say_which_message_it_is(registry):
    number = registry.add("t-value", PROTO, "PROTOBUF")
    made = of_subject(registry, "protobuf", message="shop.Other.Inside")
    data = message_class(PROTO, "shop.Other.Inside")(b=3).SerializeToString()
    nested = b"\x04\x02\x00"  # two indexes: the second message, and its first nested message
    found, bad = decoded(
        made, [framed(number, nested + data), framed(number, b"\x00"), framed(number, b"\x02\x02")]
    )
    assert found == [{"b": 3}, None, None]
    assert bad[1].startswith("it is the message shop.Order, expected shop.Other.Inside")
    assert bad[2].startswith("it is the message shop.Other, expected")
    with pytest.raises(ConfigError, match=r"has no message 'shop\.Nobody'"):
        of_subject(registry, "protobuf", message="shop.Nobody")


OLD = """
syntax = "proto2";
message Old { required int32 id = 1; optional string s = 2; optional E e = 3; optional Old.In part = 4;
  enum E { A = 1; } message In { required int32 x = 1; } }
"""


def test_what_googles_parser_passes_over_is_told_or_shown():
    """In proto2 an absent required field and invalid text make a bad row; an unknown enum is its number."""
    found, bad = decoded(
        make_format("protobuf", OLD),
        [
            b"\x08\x01\x18\x07",
            b"",
            b"\x08\x01\x12\x01\xff",
            b"\x08\x01\x22\x00",
            b"\x08\x02\x12\x01a\x18\x01",
        ],
    )
    assert found[0] == {"id": 1, "s": None, "e": "7", "part": None}
    assert found[4] == {"id": 2, "s": "a", "e": "A", "part": None}
    assert bad[1] == "expected a message with all required fields, found no id"
    assert bad[2].startswith("field 's': ")
    assert bad[3] == "expected a message with all required fields, found no part.x"


@pytest.mark.parametrize(
    ("reader", "writer", "value", "found"),
    [
        ("int32", "int64", 2**31 - 1, 2**31 - 1),
        ("int32", "int64", 2**32 + 5, None),
        ("int32", "uint32", 2**32 - 1, None),
        ("int64", "uint64", 2**64 - 1, None),
        ("int64", "int32", -5, -5),
        ("uint32", "int32", -5, -5),
        ("uint64", "int64", -5, -5),
        ("sint32", "sint64", -(2**40), None),
        ("sfixed32", "fixed32", 2**32 - 1, None),
        ("fixed64", "sfixed64", -5, -5),
        ("int32", "bool", True, 1),
        ("bool", "int64", 5, True),
    ],
)
def test_a_number_is_never_cut_to_the_readers_size(registry, reader, writer, value, found):
    registry.add(
        "t-value", f'syntax = "proto3"; message M {{ {reader} a = 1; repeated {reader} b = 2; }}', "PROTOBUF"
    )
    made = of_subject(registry, "protobuf")
    text = f'syntax = "proto3"; message M {{ {writer} a = 1; repeated {writer} b = 2; }}'
    number = registry.add("t-value", text, "PROTOBUF")
    data = message_class(text, "M")(a=value, b=[value, value]).SerializeToString()
    rows, bad = decoded(made, [framed(number, b"\x00" + data)])
    assert rows == [None if found is None else {"a": found, "b": [found, found]}]
    assert list(bad) == ([0] if found is None else [])


def test_messages_inside_themselves_are_no_column():
    text = 'syntax = "proto3"; message M { int32 a = 1; repeated M more = 2; }'
    with pytest.raises(ConfigError, match=r"field .more. of the Protobuf schema .* contains itself"):
        make_format("protobuf", text)


# --- JSON Schema --------------------------------------------------------------------------------------------

DOCUMENT = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "name": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
    },
    "definitions": {
        "line": {"type": "object", "properties": {"sku": {"type": "string"}, "ok": {"type": "boolean"}}}
    },
}
ROW = {
    "id": 1,
    "price": 2.5,
    "name": "n",
    "day": date(2024, 2, 29),
    "at": datetime(2024, 1, 1, 12, 0, tzinfo=UTC),
    "lines": [{"sku": "a", "ok": True}],
}
TEXT = json.dumps({**ROW, "day": "2024-02-29", "at": "2024-01-01T12:00:00Z", "more": [1]}).encode()


@pytest.mark.parametrize("with_map", [False, True])
def test_documents_are_structs(registry, with_map):
    """Arrow's parser reads them, or Python's reads each alone if Arrow's does not support the schema."""
    properties, expected, text = DOCUMENT["properties"], dict(ROW), TEXT
    if with_map:
        more = {"tags": {"type": "object", "additionalProperties": {"type": "integer"}}, "any": {}}
        properties = {**properties, **more}
        expected |= {"tags": {"a": 1}, "any": '{"x":[1,"ß"]}'}
        text = json.dumps({**json.loads(TEXT), "tags": {"a": 1}, "any": {"x": [1, "ß"]}}).encode()
    number = registry.add("t-value", json.dumps({**DOCUMENT, "properties": properties}), "JSON")
    made = of_subject(registry, "json-schema")
    values = [
        framed(number, text),
        None,
        framed(number, b"{}"),
        framed(number, b'{"id": "x"}'),
        framed(number, b'{"id": 1.5}'),
        framed(number, b'{"day": "tomorrow"}'),
        framed(number, b"[]"),
        framed(number, b""),
        text,
    ]
    found, bad = decoded(made, values)
    assert found[0] == expected
    assert found[2] == dict.fromkeys(expected)
    assert sorted(bad) == [3, 4, 5, 6, 7, 8]


def test_schemas_of_json_that_are_no_column_are_told():
    tree = {
        "$ref": "#/definitions/t",
        "definitions": {"t": {"properties": {"t": {"$ref": "#/definitions/t"}}}},
    }
    with pytest.raises(ConfigError, match="contains itself"):
        make_format("json-schema", json.dumps(tree))


def column_type(schema, **references):
    """The column type of a schema that refers to others by their names."""
    resolved = {name.replace("_", "."): json.dumps(text) for name, text in references.items()}
    given = [Reference(name, name, 1) for name in resolved]
    parsed = parse("JSON", json.dumps(schema), given, lambda each: Found(resolved[each.name], ()))
    return column_of(parsed)[0]


X = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
STRUCT = pa.struct([("a", pa.string()), ("b", pa.int64())])


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"], "title": "b"}]}, STRUCT),
        ({"anyOf": [{"required": ["a"]}]}, STRUCT),
        ({"anyOf": [{"not": {"required": ["a"]}}, {"minProperties": 2}]}, STRUCT),
        ({"oneOf": [{"required": ["a"]}, {"type": "string"}]}, pa.string()),
        ({"oneOf": [{"properties": {"c": {"type": "string"}}}, {"required": ["b"]}]}, pa.string()),
    ],
)
def test_what_only_limits_an_object_says_no_type(more, kind):
    assert column_type({**X, **more}) == kind


def test_references_are_relative_to_the_document_that_they_are_in():
    address = {"type": "object", "properties": {"zip": {"type": "integer"}}}
    customer = {
        "type": "object",
        "properties": {"at": {"$ref": "#/definitions/address"}},
        "definitions": {"address": address},
    }
    schema = {
        "properties": {"c": {"$ref": "customer.json"}, "z": {"allOf": [{"$ref": "customer.json"}]}},
        "definitions": {"address": {"type": "string"}},
    }
    inside = pa.struct([("at", pa.struct([("zip", pa.int64())]))])
    assert column_type(schema, customer_json=customer) == pa.struct([("c", inside), ("z", inside)])


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/a%20b", "#here", "root.json#/$defs/a%20b", "https://h/s/root.json#here", "/s/part.json"],
)
def test_references_go_by_ids_anchors_and_escaped_pointers(reference):
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://h/s/root.json",
        "properties": {"a": {"$ref": reference}},
        "$defs": {
            "a b": {"$anchor": "here", "type": "integer"},
            "p": {"$id": "part.json", "type": "integer"},
        },
    }
    assert column_type(schema) == pa.struct([("a", pa.int64())])


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}},
        {"properties": {"a": {"allOf": [{"properties": {"b": {"$ref": "#"}}}]}}},
    ],
)
def test_schemas_that_go_in_circles_are_told(schema):
    with pytest.raises(ConfigError, match="contains itself"):
        column_type(schema)


def test_a_whole_number_may_be_written_with_a_point():
    properties = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}
    for more in ({}, {"tags": {"type": "object", "additionalProperties": {"type": "integer"}}}):
        made = make_format("json-schema", json.dumps({"properties": {**properties, **more}}))
        values = [b'{"id": %d}' % number for number in range(600)]
        values[7], values[300] = b'{"id": 9007199254740993.0}', b'{"id": 1.5}'
        values[500], values[501] = b'{"id": 1e2}', b'{"id": 1, "id": 2}'
        values[502], values[503] = b'{"id": 9223372036854775808.0}', None
        values[504] = b'{"at": "2024-01-01T12:00:00.123456789Z"}'
        values[505] = b'{"at": "2024-01-01T12:00:00"}'
        found, bad = decoded(made, values)
        assert sorted(bad) == [300, 501, 502]
        assert "id is 1.5, expected a whole number" in bad[300]
        assert [found[row]["id"] for row in (0, 7, 500, 599)] == [0, 2**53 + 1, 100, 599]
        assert found[504]["at"] == datetime(2024, 1, 1, 12, 0, 0, 123456, UTC)
        assert found[505]["at"] == datetime(2024, 1, 1, 12, tzinfo=UTC)


def test_numbers_in_texts_are_as_they_were_written():
    made = make_format("json-schema", '{"properties": {"a": {}, "n": {"type": "number"}}}')
    values = [b'{"a": [1.10, 12345678901234567.89, 1e999, NaN]}', b'{"n": 1e999}', b'{"n": -Infinity}']
    found, bad = decoded(made, [*values, b'{"a": {"x": 1, "x": 2}}', b'{"a": "\\ud800"}'])
    assert found[0]["a"] == "[1.10,12345678901234567.89,1e999,NaN]"
    assert found[2]["n"] == float("-inf")
    assert sorted(bad) == [1, 3, 4]
    assert "n is 1e999, which is greater than any double" in bad[1]
    assert "it has the name 'x' twice" in bad[3]


def test_what_may_be_anything_is_text():
    made = make_format("json-schema", "true")
    assert decoded(made, [b'{"a": 1}', b"[1, 2]", b"nothing"])[0] == ['{"a":1}', "[1,2]", None]


def test_parts_of_all_are_put_together(registry):
    registry.add("part", '{"type": "object", "properties": {"b": {"type": "string"}}}', "JSON")
    whole = {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"$ref": "part.json"}]}
    number = registry.add(
        "t-value", json.dumps(whole), "JSON", [{"name": "part.json", "subject": "part", "version": 1}]
    )
    found, bad = decoded(of_subject(registry, "json-schema"), [framed(number, b'{"a": 1, "b": "x"}')])
    assert (found, bad) == ([{"a": 1, "b": "x"}], {})


# --- CSV ----------------------------------------------------------------------------------------------------


def test_lines_are_structs():
    made = make_format("csv", "id BIGINT, name STRING, price DOUBLE, day DATE")
    values = [
        b'1,"a, ""b""",1.5,2024-02-29',
        None,
        b',"",,',
        b"x,a,1,2024-01-01",
        b"1,a,1",
        b"1,a,1,2024-01-01,more",
        b"2,b,2,2024-01-02\n3,c,3,2024-01-03",
        b'4,"b,2,2024-01-02',
        b"",
        b"5,\xff,1,2024-01-01",
        b"6,z,0,2024-01-01",
    ]
    found, bad = decoded(made, values)
    assert found[0] == {"id": 1, "name": 'a, "b"', "price": 1.5, "day": date(2024, 2, 29)}
    assert found[2] == {"id": None, "name": "", "price": None, "day": None}
    assert found[10]["id"] == 6
    assert sorted(bad) == [3, 4, 5, 6, 7, 8, 9]
    assert bad[4].startswith("expected one line of 4 fields, found 5 bytes b'1,a,1'")


def test_a_line_is_the_same_wherever_it_stands():
    lines = ["\ufeffa,1", "\ufeffa,1", "\ufeff,", '\ufeff"a",1']
    found, bad = decoded(make_format("csv", "a STRING, b INT"), [each.encode() for each in lines])
    mark = {"a": "\ufeff", "b": None}
    assert (found[:3], bad) == ([{"a": "\ufeffa", "b": 1}, {"a": "\ufeffa", "b": 1}, mark], {})
    assert found[3] == decoded(make_format("csv", "a STRING, b INT"), [lines[3].encode()])[0][0]


def test_what_csv_cannot_hold_is_told():
    with pytest.raises(ConfigError, match="field 'a' of the CSV schema"):
        make_format("csv", "a ARRAY<INT>")
    with pytest.raises(ConfigError, match="has at least one field"):
        make_format("csv")
