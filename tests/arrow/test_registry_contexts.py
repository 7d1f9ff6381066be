"""Values whose schemas are in a context of the registry, which has ids of its own."""

import io
import json
import struct
import uuid

import fastavro
import pyarrow as pa
import pytest

from penstock.arrow.formats import make_fitting, make_format
from penstock.arrow.schema_choice import SchemaChoice
from penstock.registry.client.config import RegistryConfig
from penstock.registry.client.registry import RegistryClient
from registry_node import started


@pytest.fixture(scope="module")
def url(servers):
    server = started(servers, uuid.uuid4().hex[:8])
    yield server.url
    server.close()


def record(name):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": "int"}]}


def test_ids_are_those_of_the_subjects_context(url):
    properties = {"schema.registry.url": url}
    client = RegistryClient(RegistryConfig.from_properties(properties))
    assert client.register("t-value", "AVRO", json.dumps(record("a"))) == 1
    assert client.register(":.staging:t-value", "AVRO", json.dumps(record("b"))) == 1
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(record("b")), {"b": 7})
    column = pa.array([struct.pack(">bI", 0, 1) + buffer.getvalue()], pa.binary())
    choice = SchemaChoice(subject=":.staging:t-value", registry=properties)
    found = make_format("avro", choice).decode(column)
    assert (found.array.to_pylist(), found.bad) == ([{"b": 7}], {})
    first = make_fitting("avro", choice, lambda kind: kind == pa.struct([("b", pa.int32())]))
    assert first.decode(column).bad == {}
    in_the_url = SchemaChoice(subject="t-value", registry={"schema.registry.url": f"{url}/contexts/.staging"})
    assert make_format("avro", in_the_url).decode(column).array.to_pylist() == [{"b": 7}]
    assert make_format("avro", SchemaChoice(subject="t-value", registry=properties)).type.names == ["a"]


def test_a_context_is_asked_for_under_its_path():
    config = RegistryConfig.from_properties({"schema.registry.url": "http://h/api,http://g/contexts/.x"})
    assert config.in_context_of("t-value") is config
    assert config.in_context_of(":.:t-value") is config
    assert (
        config.in_context_of(":.a b:t").urls_text == "http://h:80/api/contexts/.a%20b,http://g:80/contexts/.x"
    )
