"""The public client of Confluent's registry, and its serializers, work with our registry."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from penstock.testing import Cluster
from registry_node import started

USER = '{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}'


@pytest.fixture(scope="module")
def url(penstock_cluster: Cluster) -> Iterator[str]:
    server = started(penstock_cluster.bootstrap_servers, uuid.uuid4().hex[:8])
    yield server.url
    server.close()


@pytest.fixture
def client(url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url})


@pytest.fixture
def reader(url: str) -> SchemaRegistryClient:
    """A second client, as in real programs, whose cache holds nothing that was written."""
    return SchemaRegistryClient({"url": url})


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def _message(name: str) -> Any:
    """The class of messages with one number, as in protoc's output."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="registry.test", syntax="proto3")
    field = file.message_type.add(name=name).field.add(name="id", number=1)
    field.type, field.label = field.TYPE_INT64, field.LABEL_OPTIONAL
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"registry.test.{name}"))


def test_avro_goes_there_and_back(
    client: SchemaRegistryClient, reader: SchemaRegistryClient, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    data = AvroSerializer(client, USER)({"name": "ann"}, context)
    registered = client.get_latest_version(f"{topic}-value")
    assert data is not None
    assert data[:5] == b"\0" + registered.schema_id.to_bytes(4)
    assert AvroDeserializer(reader)(data, context) == {"name": "ann"}


def test_json_goes_there_and_back(
    client: SchemaRegistryClient, reader: SchemaRegistryClient, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    schema = '{"title": "User", "type": "object", "properties": {"name": {"type": "string"}}}'
    data = JSONSerializer(schema, client)({"name": "ann"}, context)
    read = JSONDeserializer(None, schema_registry_client=reader)
    assert read(data, context) == {"name": "ann"}


def test_protobuf_goes_there_and_back(
    client: SchemaRegistryClient, reader: SchemaRegistryClient, topic: str
) -> None:
    """A client that has registered a schema can't read with it.

    It caches the text in the response to the registration, which Confluent's server sends too, and later
    takes it for base64.
    """
    context = SerializationContext(topic, MessageField.VALUE)
    config = {"use.deprecated.format": False}
    order = _message("Order")
    data = ProtobufSerializer(order, client, config)(order(id=7), context)
    assert ProtobufDeserializer(order, config, reader)(data, context) == order(id=7)
    assert client.get_latest_version(f"{topic}-value").schema.schema_type == "PROTOBUF"


def test_the_client_asks_and_changes_what_it_may(client: SchemaRegistryClient, topic: str) -> None:
    schema = Schema(USER, "AVRO")
    number = client.register_schema(topic, schema)
    assert client.get_schema(number).schema_str is not None
    assert client.lookup_schema(topic, schema).version == 1
    assert client.get_versions(topic) == [1]
    assert topic in client.get_subjects()
    assert client.test_compatibility(topic, schema)
    assert client.set_compatibility(topic, "FULL") == {"compatibility": "FULL"}
    assert client.get_compatibility(topic) == "FULL"
    outer = '{"type": "record", "name": "Outer", "fields": [{"name": "user", "type": "User"}]}'
    refers = Schema(outer, "AVRO", [SchemaReference("User", topic, 1)])
    assert client.register_schema(f"{topic}-outer", refers) > number
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_latest_version("nothing")
    assert (refused.value.http_status_code, refused.value.error_code) == (404, 40401)
    assert client.delete_subject(f"{topic}-outer") == [1]
    assert client.delete_subject(f"{topic}-outer", permanent=True) == [1]
