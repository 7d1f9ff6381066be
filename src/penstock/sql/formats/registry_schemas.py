"""Schemas of a registry: the formats that use one, and its client, as readers and writers need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.registry.client.registry import Registered, RegistryClient, shared_registry
from penstock.registry.formats import SchemaError
from penstock.registry.formats import parse as parse_schema
from penstock.sql.formats.errors import FormatError
from penstock.sql.formats.settings import SideFormat

REGISTRY_FORMATS: Final = {"AVRO": "AVRO", "JSON_SR": "JSON", "PROTOBUF": "PROTOBUF"}
"""The registry's names of the formats."""

Reader = Callable[[bytes, int], tuple[Any, ...]]
Writer = Callable[[Sequence[Any]], bytes]


def client_of(chosen: SideFormat) -> RegistryClient:
    if chosen.registry is None:
        raise FormatError(
            f"found the format {chosen.format} without a schema registry, expected its schema.registry.url"
        )
    return shared_registry(chosen.registry)


def parsed(client: RegistryClient, found: Registered, format_: str) -> Any:
    """Parse a registered schema. Raises FormatError if it is invalid or of another format."""
    wanted = REGISTRY_FORMATS[format_]
    if found.format != wanted:
        raise FormatError(f"found the schema {found.id} of {found.format}, expected one of {wanted}")
    try:
        return client.parsed(found)
    except SchemaError as error:
        raise FormatError(
            f"found the schema {found.id}, which is invalid ({error}), expected a valid one"
        ) from None


def own_schema(chosen: SideFormat, text: str) -> Any:
    try:
        return parse_schema(REGISTRY_FORMATS.get(chosen.format, "PROTOBUF"), text)
    except SchemaError as error:
        raise FormatError(
            f"found columns that {chosen.format} can't have ({error}), expected other names or types"
        ) from None
