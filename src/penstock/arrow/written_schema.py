"""Determine the schema that a column is written with, and the id before its values.

The schema is given, comes from the registry, or is derived from the column's type. With a registry, it is
registered under the topic's subject, or must already be registered there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple

import pyarrow as pa

from penstock.arrow.avro import writing as avro
from penstock.arrow.encoding import RECORD, TOPIC, Encoding
from penstock.arrow.json.mapping import column_of, refuse_unfit
from penstock.arrow.json.writing import documents_of
from penstock.arrow.json.writing import schema_of as json_schema_of
from penstock.arrow.protobuf.made_schema import schema_of as protobuf_schema_of
from penstock.arrow.protobuf.mapping import decimals_of, descriptor_of
from penstock.arrow.protobuf.writing import MessageWriter
from penstock.arrow.registry_schemas import Parsed, given_schema, message_indexes, registered_schema
from penstock.client.settings import ConfigError
from penstock.registry.client.registry import Registered, RegistryClient, shared_registry
from penstock.registry.formats.avro.schema import AvroSchema
from penstock.registry.formats.protobuf.indexes import indexes_bytes
from penstock.registry.formats.protobuf.schema import ProtobufSchema
from penstock.registry.formats.references import Reference

_MAGIC: Final = b"\0"


class _Values(NamedTuple):
    """The encoder of a schema's values.

    ``indexes`` are the bytes between id and value. ``name`` is that of the record or message, if it has one.
    """

    encode: Callable[[pa.Array], pa.Array]
    name: str | None
    indexes: bytes = b""


def framed_encoder(
    encoding: Encoding, topic: str, kind: pa.DataType
) -> tuple[Callable[[pa.Array], pa.Array], bytes]:
    """Return the encoder of values and the prefix of each value, which is empty without a registry.

    Raises ConfigError and the errors of the registry's client.
    """
    client = None if encoding.registry is None else shared_registry(encoding.registry)
    registered = None if client is None else _chosen(encoding, topic, client)
    try:
        if client is not None and registered is not None:
            schema = registered_schema(client, registered, encoding.name, f"the id {registered.id}")
        else:
            schema = _given(encoding, topic, kind)
        values = _values(schema, kind, encoding.message)
    except ConfigError as problem:
        raise ConfigError(f"the column '{encoding.part}' for topic '{topic}': {problem}") from None
    if client is None:
        return values.encode, b""
    number = _id(encoding, topic, client, schema, values.name) if registered is None else registered.id
    return values.encode, _MAGIC + number.to_bytes(4, "big") + values.indexes


def _chosen(encoding: Encoding, topic: str, client: RegistryClient) -> Registered | None:
    """Return the registry's schema that the options select, if they do."""
    subject = f"{topic}-{encoding.part}"
    if encoding.schema_id is not None:
        return client.by_id(encoding.schema_id)
    if encoding.version is not None:
        return client.version(subject, encoding.version)
    return client.latest(subject) if encoding.uses_latest else None


def _given(encoding: Encoding, topic: str, kind: pa.DataType) -> Parsed:
    text = encoding.schema
    if text is None:
        text = _made(encoding.name, kind, _name(topic, encoding.part))
    return given_schema(encoding.name, text)


def _made(format: str, kind: pa.DataType, name: str) -> str:
    """Derive a schema from a column's type. Raises ConfigError if that is impossible."""
    match format:
        case "avro":
            return json.dumps(avro.schema_of(kind, name))
        case "protobuf":
            return protobuf_schema_of(kind, name)
    return json.dumps(json_schema_of(kind, name))


def _name(topic: str, part: str) -> str:
    """Derive a record's name from a topic's: letters, digits and underscores."""
    made = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in f"{topic}_{part}")
    return made if not made[0].isdigit() else f"_{made}"


def _values(schema: Parsed, kind: pa.DataType, message: str | None) -> _Values:
    if isinstance(schema, AvroSchema):
        name = schema.root.full_name if schema.root.name is not None else None
        return _Values(avro.Writer(schema.root, kind).write, name)
    if isinstance(schema, ProtobufSchema):
        files = schema.file_set()
        indexes, name = message_indexes(files, message)
        writer = MessageWriter(descriptor_of(files, name), kind, decimals_of(schema))
        return _Values(writer.write, name, indexes_bytes(indexes))
    refuse_unfit(kind, *column_of(schema))
    return _Values(documents_of(kind), schema.root.title or None)


def _id(encoding: Encoding, topic: str, client: RegistryClient, schema: Parsed, name: str | None) -> int:
    ask = client.register if encoding.registers else client.registered_id
    references: tuple[Reference, ...] = schema.references
    return ask(
        _subject(encoding, topic, name),
        schema.format,
        schema.canonical(),
        references,
        normalize=encoding.normalizes,
    )


def _subject(encoding: Encoding, topic: str, name: str | None) -> str:
    """Return the subject's name by one of Confluent's three strategies."""
    if encoding.strategy == TOPIC:
        return f"{topic}-{encoding.part}"
    if name is None:
        raise ConfigError(
            f"the schema has no name, which the subject's strategy '{encoding.strategy}' needs: the record's "
            "in Avro, the title in JSON Schema"
        )
    return name if encoding.strategy == RECORD else f"{topic}-{name}"
