"""Verdicts put to the test: fastavro reads data of the old schema with the new one.

The avro package's own check gives the same verdicts.
"""

import io
import json
import random
from typing import Any

import avro.compatibility
import avro.schema
import fastavro
from avro_schemas import Schemas
from fastavro.utils import generate_one

from penstock.registry.formats import parse

ROUNDS = 400


def pairs():
    """Yield the texts of random schemas, each with a later version."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    random.seed(seed)  # fastavro takes its random data from there
    schemas = Schemas(random.Random(seed))
    for _ in range(ROUNDS):
        old = schemas.record()
        yield json.dumps(old), json.dumps(schemas.follow(old))


def without_namespaces(text: str) -> dict:
    """Remove namespaces, which the avro package gives no aliases.

    fastavro compares full names, Avro's rules only their last part.
    """
    return json.loads(text, object_hook=lambda each: {k: v for k, v in each.items() if k != "namespace"})


def of_text(value: Any) -> Any:
    """Replace bytes by text: bytes may be read as a string, and no schema can tell whether they are text."""
    match value:
        case bytes():
            return b"x" * len(value)
        case dict():
            return {name: of_text(each) for name, each in value.items()}
        case list():
            return [of_text(each) for each in value]
    return value


def test_compatible_schemas_read_old_data() -> None:
    read = 0
    for old, new in pairs():
        if parse("AVRO", new).incompatibilities(parse("AVRO", old)):
            continue
        writer = fastavro.parse_schema(without_namespaces(old))
        reader = fastavro.parse_schema(without_namespaces(new))
        for _ in range(3):
            data = io.BytesIO()
            fastavro.schemaless_writer(data, writer, of_text(generate_one(writer)))
            data.seek(0)
            fastavro.schemaless_reader(data, writer, reader)
            assert data.read() == b""
            read += 1
    assert read > ROUNDS / 4


def test_the_verdict_is_that_of_avros_python_library() -> None:
    verdicts = set()
    for old, new in pairs():
        checker = avro.compatibility.ReaderWriterCompatibilityChecker()
        old, new = json.dumps(without_namespaces(old)), json.dumps(without_namespaces(new))
        result = checker.get_compatibility(reader=avro.schema.parse(new), writer=avro.schema.parse(old))
        theirs = result.compatibility is avro.compatibility.SchemaCompatibilityType.compatible
        ours = not parse("AVRO", new).incompatibilities(parse("AVRO", old))
        assert ours == theirs, (old, new)
        verdicts.add(ours)
    assert verdicts == {True, False}
