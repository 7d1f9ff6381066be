"""Avro's JSON encoding, with fastavro as the oracle."""

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_many

from penstock.cli.records.avro_json import read, write
from penstock.cli.records.simple import read_json
from penstock.registry.formats import parse
from penstock.registry.formats.avro.schema import AvroSchema
from penstock.registry.formats.avro.types import Type
from penstock.sql.formats.errors import FormatError

EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "shop",
    "fields": [
        {"name": "nothing", "type": "null"},
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "large", "type": "long"},
        {"name": "single", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "text", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 4}},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["CLUBS", "HEARTS"]}},
        {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "by_name", "type": {"type": "map", "values": "Suit"}},
        {"name": "either", "type": ["null", "string", "long", "Digest", "Suit"]},
        {
            "name": "tree",
            "type": {
                "type": "record",
                "name": "Tree",
                "fields": [{"name": "label", "type": "string"}, {"name": "next", "type": ["null", "Tree"]}],
            },
        },
    ],
}


def root(schema: Any) -> Type:
    parsed = parse("AVRO", json.dumps(schema))
    assert isinstance(parsed, AvroSchema)
    return parsed.root


def binary(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def as_json(schema: Any, value: Any) -> Any:
    out = io.StringIO()
    fastavro.json_writer(out, fastavro.parse_schema(schema), [value])
    return json.loads(out.getvalue())


def test_values_of_every_type_agree_with_fastavro_in_both_directions() -> None:
    of = root(EVERYTHING)
    flat = {**EVERYTHING, "fields": [f for f in EVERYTHING["fields"] if f["name"] != "tree"]}
    values = [
        {**value, "tree": {"label": "a", "next": {"label": "b", "next": None}}}
        for value in generate_many(fastavro.parse_schema(flat), 50)
    ]
    for value in values:
        data = binary(EVERYTHING, value)
        found, end = read(of, data, 0)
        assert end == len(data)
        expected = as_json(EVERYTHING, value)
        assert {**found, "single": None} == {**expected, "single": None}  # fastavro shows it as a double
        assert write(of, read_json(json.dumps(found).encode())) == data


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("double", '"NaN"'),
        ("float", '"-Infinity"'),
        ("float", "0.1"),
        ("bytes", r'"\u0000\u00ff"'),
        (["null", "string"], "null"),
        (["null", "string"], '{"string":"x"}'),
    ],
)
def test_a_text_becomes_bytes_and_the_same_text(schema: Any, text: str) -> None:
    found, _ = read(root(schema), write(root(schema), read_json(text.encode())), 0)
    assert found == json.loads(text)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "found no field 'a' of record R, expected one"),
        ({"a": None, "b": {}, "c": 1}, "found the field 'c', expected only those of record R: a, b"),
        ({"a": "x", "b": {}}, "a: found the string 'x', expected null or an object {\"int\": …}"),
        ({"a": {"int": 1 << 31}, "b": {}}, "a.int: found the number 2147483648, expected int"),
        ({"a": {"int": True}, "b": {}}, "a.int: found the boolean true, expected int"),
        ({"a": {"int": 1, "string": ""}, "b": {}}, "a: found an object"),
        (
            {"a": None, "b": {"k": ["E"]}},
            "b.k[0]: found the string 'E', expected enum E with the symbols X, Y",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(value: Any, said: str) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": ["null", "int"]},
            {
                "name": "b",
                "type": {
                    "type": "map",
                    "values": {
                        "type": "array",
                        "items": {"type": "enum", "name": "E", "symbols": ["X", "Y"]},
                    },
                },
            },
        ],
    }
    with pytest.raises(FormatError) as refused:
        write(root(schema), value)
    assert said in str(refused.value)


def test_bytes_that_end_early_are_refused() -> None:
    with pytest.raises(FormatError, match=r"^text: found a length of 5 with 2 bytes left"):
        read(
            root({"type": "record", "name": "R", "fields": [{"name": "text", "type": "string"}]}),
            b"\x0aab",
            0,
        )
