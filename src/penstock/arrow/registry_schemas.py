"""Get schemas from a registry or a text, and check that they have the type a format needs."""

from __future__ import annotations

from typing import TypeAlias

from penstock.arrow.schema_choice import SCHEMA_TYPES
from penstock.client.settings import ConfigError
from penstock.registry.client.registry import Registered, RegistryClient
from penstock.registry.formats import SchemaError, parse
from penstock.registry.formats.avro.schema import AvroSchema
from penstock.registry.formats.json_schema.schema import JsonSchema
from penstock.registry.formats.protobuf.indexes import indexes_of
from penstock.registry.formats.protobuf.schema import ProtobufSchema

Parsed: TypeAlias = AvroSchema | JsonSchema | ProtobufSchema


def given_schema(format: str, text: str) -> Parsed:
    """Parse a text as the schema of a format. Raises ConfigError if it is invalid."""
    try:
        parsed = parse(SCHEMA_TYPES[format], text)
    except SchemaError as problem:
        raise ConfigError(f"invalid schema for the format '{format}': {problem}") from None
    assert isinstance(parsed, (AvroSchema, JsonSchema, ProtobufSchema))
    return parsed


def registered_schema(client: RegistryClient, found: Registered, format: str, what: str) -> Parsed:
    """Return a registered schema if it has the format's type; ``what`` is its name in messages.

    Raises ConfigError, RegistryRefused or RegistryUnreachable.
    """
    wanted = SCHEMA_TYPES[format]
    if found.format != wanted:
        raise ConfigError(f"{what} has a schema of the type {found.format}, expected {wanted}")
    try:
        parsed = client.parsed(found)
    except SchemaError as problem:
        raise ConfigError(f"{what} has a schema that can't be used: {problem}") from None
    assert isinstance(parsed, (AvroSchema, JsonSchema, ProtobufSchema))
    return parsed


def message_indexes(files: bytes, message: str | None) -> tuple[tuple[int, ...], str]:
    """Return the indexes and the full name of a message, or of the first if None. Raises ConfigError."""
    try:
        return indexes_of(files, message)
    except SchemaError as problem:
        raise ConfigError(str(problem)) from None
