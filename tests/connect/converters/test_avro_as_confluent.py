"""Schemas and values become the Avro that Confluent's converter makes of them in a JVM, and come back."""

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from avro_chance import AvroChance
from connect_values import (
    Chance,
    comparable,
    exists_in_python,
    schema_of,
    shown_schema,
    shown_value,
    value_of,
)
from converter_oracle import answers, is_error, seed

from long_run import repetitions
from maven_jars import jars_of
from penstock.connect.converters.avro.from_avro import connect_schema
from penstock.connect.converters.avro.reading import reader
from penstock.connect.converters.avro.settings import AvroSettings
from penstock.connect.converters.avro.to_avro import avro_text
from penstock.connect.converters.avro.writing import Writing, add_long
from penstock.connect.errors import DataError
from penstock.registry.formats import SchemaError, parse
from penstock.registry.formats.avro.schema import AvroSchema

DEFAULTS = {"int": 3, "long": -4, "string": "s", "bytes": "\u00ff", "boolean": True, "double": 0.5}
SIMPLE = ("int", "long", "float", "double", "boolean", "string", "bytes")
LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 64},
    {"type": "int", "connect.type": "int8"},
    {"type": "int", "connect.type": "int16", "connect.default": 7},
    {"type": "string", "connect.name": "some.Name", "connect.doc": "d", "connect.parameters": {"p": "1"}},
    {"type": "string", "avro.java.string": "String"},
    {"type": "double", "connect.version": 3, "connect.default": 1.5},
)


def random_question(chance: AvroChance) -> dict[str, Any]:
    config = {"enhanced.avro.schema.support": chance.choice(["true", "false"])}
    if chance.happens(0.2):
        config["connect.meta.data"] = "false"
    chance.names = 0
    if chance.happens(0.3):
        text = json.dumps(random_avro(chance, 3))
        return read_question(chance, config, text)
    described = chance.schema()
    question = {"config": config, "schema": described}
    match chance.random.randrange(3):
        case 0:
            return {"op": "schema", **question}
        case 1:
            return {"op": "write", **question, "value": chance.value(described)}
    try:
        return read_question(chance, config, avro_text(schema_of(described), settings(config)))
    except DataError:
        return {"op": "schema", **question}


def read_question(chance: Chance, config: dict[str, str], text: str) -> dict[str, Any]:
    out = bytearray()
    try:
        add_random(chance, root_of(text), out)
    except SchemaError:
        out += b"\0"
    data = base64.b64encode(out).decode()
    return {
        "op": "read",
        "config": config,
        "text": text,
        "data": data,
        "version": chance.random.randint(1, 9),
    }


def random_avro(chance: AvroChance, depth: int) -> Any:
    """Make an Avro schema as people write them, without the attributes of Connect."""
    kind = chance.random.randrange(9 if depth else 4)
    if kind < 2:
        return chance.choice(SIMPLE)
    if kind < 4:
        return dict(chance.choice(LOGICAL))
    if kind == 4:
        return {
            "type": chance.choice(["array", "map"]),
            **dict.fromkeys(["items", "values"], random_avro(chance, 0)),
        }
    if kind == 5:
        doc = {"doc": "of an enum", "default": "X"} if chance.happens(0.5) else {}
        return {"type": "enum", "name": chance.schema_name(), "symbols": ["X", "Y"], **doc}
    if kind == 6:
        return {"type": "fixed", "name": chance.schema_name(), "size": 4}
    if kind == 7:
        members = chance.random.sample(["null", *SIMPLE], chance.random.randint(1, 4))
        return members
    fields = []
    for name in ("a", "b", "c")[: chance.random.randint(0, 3)]:
        field: dict[str, Any] = {"name": name, "type": random_avro(chance, depth - 1)}
        if chance.happens(0.3):
            field["doc"] = "of a field"
        if chance.happens(0.4):
            own = field["type"]
            first = own[0] if isinstance(own, list) else own
            if isinstance(first, str) and (first == "null" or first in DEFAULTS):
                field["default"] = DEFAULTS.get(first)
        fields.append(field)
    doc = {"doc": "of a record"} if chance.happens(0.3) else {}
    return {"type": "record", "name": chance.schema_name(), "fields": fields, **doc}


def root_of(text: str) -> Any:
    found = parse("AVRO", text)
    assert isinstance(found, AvroSchema)
    return found.root


def add_random(chance: Chance, of: Any, out: bytearray) -> None:
    """Add random data of an Avro schema."""
    match of.kind:
        case "record":
            for each in of.fields:
                add_random(chance, each.type, out)
        case "union":
            at = chance.random.randrange(len(of.items))
            add_long(at, out)
            add_random(chance, of.items[at], out)
        case "array" | "map":
            count = chance.random.randint(0, 2)
            if count:
                add_long(count, out)
            for number in range(count):
                if of.kind == "map":
                    out += b"\x02" + str(number).encode()
                add_random(chance, of.items[0], out)
            add_long(0, out)
        case "int":
            add_long(chance.random.randint(0, 100_000), out)
        case "long":
            add_long(chance.random.randint(-(10**12), 10**12), out)
        case "enum":
            add_long(chance.random.randrange(len(of.symbols)), out)
        case "boolean":
            out.append(chance.random.randrange(2))
        case "float":
            out += struct.pack("<f", chance.random.randint(-9, 9) / 4)
        case "double":
            out += struct.pack("<d", chance.random.randint(-9, 9) / 4)
        case "fixed":
            out += chance.random.randbytes(of.size)
        case "bytes" | "string":
            out += b"\x04ab"


def settings(config: dict[str, str]) -> AvroSettings:
    return AvroSettings(
        enhanced=config["enhanced.avro.schema.support"] == "true",
        has_metadata=config.get("connect.meta.data") != "false",
        flattens_unions=False,  # Apicurio's copy is older than this property
    )


def answer(question: dict[str, Any]) -> Any:
    """Answer as AvroConversion.java does."""
    chosen = settings(question["config"])
    try:
        if question["op"] == "read":
            root = root_of(question["text"])
            schema = connect_schema(root, chosen, question["version"])
            value, _ = reader(schema, root)(base64.b64decode(question["data"]), 0)
            return [shown_schema(schema), shown_value(value)]
        schema = schema_of(question["schema"])
        found = parse("AVRO", avro_text(schema, chosen))
        assert isinstance(found, AvroSchema)
        if question["op"] == "schema":
            return found.canonical()
        value = value_of(question["value"])
        if value is None and schema.optional:
            return None
        out = bytearray()
        Writing(chosen).writer(schema, found.root)(value, out)
        return None if found.root.kind == "union" and out == b"\0" else base64.b64encode(out).decode()
    except (DataError, SchemaError) as error:
        return {"error": str(error)}


def is_meant(question: dict[str, Any], expected: Any, found: Any) -> bool:
    """Whether a difference is one that we know."""
    if question["op"] == "read" and expected == [None, None]:
        return is_error(found) or found[1] is None  # Java loses the schema of a null
    if "StackOverflow" in repr(expected):
        return not is_error(found)  # in Java, defaults of structs have schemas with these defaults
    if "Infinity" in repr(expected):
        return True  # Avro takes it as a default of a field, since version 1.12
    if is_error(found) and "MapEntry' is defined twice" in found["error"]:
        return True  # a registry would refuse Java's schema
    return not exists_in_python(expected)


@pytest.mark.kafka
@pytest.mark.longer
def test_avro_is_that_of_confluent(tmp_path: Path) -> None:
    libs = jars_of(Path(__file__).with_name("avro_converter_pom.xml"), "avro-converter")
    chance = AvroChance(seed())
    cases = repetitions("PENSTOCK_CONVERTER_CASES", 4_000, 100_000)
    questions = [random_question(chance) for _ in range(cases)]
    found = answers(libs, tmp_path, questions, "AvroConversion.java")
    for question, expected in zip(questions, found, strict=True):
        ours = answer(question)
        is_same = is_error(ours) if is_error(expected) else comparable(ours) == comparable(expected)
        assert is_same or is_meant(question, expected, ours), (question, expected, ours)
