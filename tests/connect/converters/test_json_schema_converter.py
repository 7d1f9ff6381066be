"""JsonSchemaConverter writes documents that fit the schemas it registers, and reads them back."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from connect_values import Chance, schema_of, value_of
from converter_oracle import seed

from long_run import repetitions
from penstock.connect.converters.json_schema.converter import JsonSchemaConverter
from penstock.connect.data.logical import date_schema, decimal_schema
from penstock.connect.data.schema import INT32, OPTIONAL_STRING, STRING, Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError
from small_registry import SmallRegistry

USER = Schema.struct({"id": INT32, "name": OPTIONAL_STRING}, name="org.User")
UNION = "io.confluent.connect.json.OneOf"


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with SmallRegistry().running() as running:
        yield running


def converter(registry: SmallRegistry, **more: str) -> JsonSchemaConverter:
    made = JsonSchemaConverter()
    properties = {name.replace("_", "."): value for name, value in more.items()}
    made.configure({"schema.registry.url": registry.url, **properties}, False)
    return made


def registered(registry: SmallRegistry, number: int = 1) -> Any:
    return json.loads(registry.schemas[number]["schema"])


def test_a_record_comes_back_with_the_version_of_its_subject(registry: SmallRegistry) -> None:
    values = converter(registry)
    data = values.to_bytes("topic", USER, Struct(USER, {"id": 7}))
    assert data == b'\0\0\0\0\x01{"id":7,"name":null}'
    assert registered(registry) == {
        "type": "object",
        "title": "org.User",
        "properties": {
            "id": {"type": "integer", "connect.index": 0, "connect.type": "int32"},
            "name": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
        },
    }
    schema, value = values.from_bytes("topic", data)
    assert schema is not None
    assert (schema.name, schema.version, schema.by_name["name"].schema) == ("org.User", 1, OPTIONAL_STRING)
    assert value.to_dict() == {"id": 7, "name": None}


def test_maps_and_logical_types_have_keywords_of_connect(registry: SmallRegistry) -> None:
    names, other = Schema.map(STRING, INT32), Schema.map(INT32, decimal_schema(2))
    all_of = Schema.struct({"names": names, "other": other, "day": date_schema(doc="a day")})
    converter(registry, object_additional_properties="false").to_bytes(
        "topic", all_of, Struct(all_of, {"names": {}, "other": {1: Decimal("2.50")}})
    )
    found = registered(registry)
    assert found["additionalProperties"] is False
    assert found["properties"]["names"] == {
        "type": "object",
        "additionalProperties": {"type": "integer", "connect.type": "int32"},
        "connect.type": "map",
        "connect.index": 0,
    }
    assert found["properties"]["other"]["items"]["properties"]["value"] == {
        "type": "string",
        "title": "org.apache.kafka.connect.data.Decimal",
        "connect.type": "bytes",
        "connect.version": 1,
        "connect.parameters": {"scale": "2"},
        "connect.index": 1,
    }
    assert found["properties"]["day"]["description"] == "a day"


@pytest.mark.parametrize(
    ("document", "data", "expected"),
    [
        ({"type": "integer"}, "5", (Schema(Type.INT64), 5)),
        ({"type": ["null", "number"]}, "5", (Schema(Type.FLOAT64, optional=True), 5.0)),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", (OPTIONAL_STRING, None)),
        ({"oneOf": [{"type": "string"}]}, '"a"', (STRING, "a")),
        (
            {"type": "string", "default": "d", "title": "T"},
            '"a"',
            (Schema(Type.STRING, default="d", name="T"), "a"),
        ),
        ({"$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}}, '"a"', (STRING, "a")),
        ({"type": "array", "items": {"type": "string"}}, '["a"]', (Schema.array(STRING), ["a"])),
    ],
)
def test_schemas_of_others_are_read(
    registry: SmallRegistry, document: Any, data: str, expected: tuple[Schema, Any]
) -> None:
    number = registry.add("other", json.dumps(document), "JSON")
    frame = b"\0" + number.to_bytes(4, "big")
    assert converter(registry).from_bytes("topic", frame + data.encode()) == expected


def test_objects_of_others_become_structs(registry: SmallRegistry) -> None:
    document = {
        "type": "object",
        "properties": {"b": {"type": "integer"}, "a": {"enum": ["X", None]}, "c": {"$ref": "#/$defs/c"}},
        "$defs": {"c": {"allOf": [{"properties": {"d": {"type": "boolean"}}}, {"required": ["d"]}]}},
        "required": ["b"],
    }
    number = registry.add("other", json.dumps(document), "JSON")
    values = converter(registry, use_optional_for_nonrequired="true")
    data = b"\0" + number.to_bytes(4, "big") + b'{"b":1,"c":{"d":true},"more":[]}'
    schema, value = values.from_bytes("topic", data)
    assert value.to_dict() == {"b": 1, "a": None, "c": {"d": True}}
    assert schema is not None
    optional = {each.name: each.schema.optional for each in schema.fields}
    assert optional == {"b": False, "a": True, "c": True}
    assert schema.by_name["a"].schema.parameters == {
        "io.confluent.connect.json.Enum": "",
        "io.confluent.connect.json.Enum.X": "X",
        "io.confluent.connect.json.Enum.<NULL>": "<NULL>",
    }


def test_unions_are_structs_of_which_one_field_has_a_value(registry: SmallRegistry) -> None:
    fields = {f"{UNION}.field.0": OPTIONAL_STRING, f"{UNION}.field.1": USER.as_optional()}
    union = Schema.struct(fields, name=UNION)
    values = converter(registry)
    for at, value in enumerate(["a", Struct(USER.as_optional(), {"id": 1})]):
        struct = Struct(union, {f"{UNION}.field.{at}": value})
        schema, found = values.from_bytes("topic", values.to_bytes("topic", union, struct))
        assert schema is not None
        assert schema.name == UNION
        assert [each is not None for each in found.own_values] == [at == 0, at == 1]


def test_schemas_that_contain_themselves_are_refused(registry: SmallRegistry) -> None:
    document = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    number = registry.add("other", json.dumps(document), "JSON")
    with pytest.raises(DataError, match="contains itself"):
        converter(registry).from_bytes("topic", b"\0" + number.to_bytes(4, "big") + b"{}")
    with pytest.raises(DataError, match="needs a schema"):
        converter(registry).to_bytes("topic", None, 1)


def without_differences(described: Any) -> Any:
    """Remove what JSON Schema cannot keep: all about the keys of objects."""
    if isinstance(described, list):
        return [without_differences(each) for each in described]
    if not isinstance(described, dict):
        return described
    parts = {name: without_differences(each) for name, each in described.items()}
    keys = parts.get("keys")
    if keys is not None and keys["type"] == "STRING" and not keys["optional"]:
        parts["keys"] = {"type": "STRING", "optional": False}
    return parts


@pytest.mark.longer
def test_documents_fit_their_schemas_and_come_back(registry: SmallRegistry) -> None:
    chance = Chance(seed())
    values = [converter(registry, decimal_format=each) for each in ("BASE64", "NUMERIC")]
    for number in range(repetitions("PENSTOCK_CONVERTER_CASES", 150, 5_000)):
        described = without_differences(chance.schema(2)) | {"version": 1}  # as the subject's
        given = chance.value(described)
        if given is None or any(odd in repr(given) + repr(described) for odd in ("7ff0", "fff0", "7ff8")):
            continue
        schema, value = schema_of(described), value_of(given)
        of = chance.choice(values)
        data = of.to_bytes(f"topic{number}", schema, value)
        assert data is not None
        jsonschema.validate(json.loads(data[5:]), registered(registry, int.from_bytes(data[1:5], "big")))
        found, again = of.from_bytes(f"topic{number}", data)
        defaults = repr(described).count("'default'")  # which take the place of null, in other defaults too
        assert found == schema or defaults > 1
        assert again == value or defaults
