"""The top-level fields of a schema, which `validateFields` checks."""

from __future__ import annotations

import json
from collections.abc import Iterable

from penstock.registry.formats import Schema, SchemaError
from penstock.registry.formats.avro.schema import AvroSchema
from penstock.registry.formats.json_schema.schema import JsonSchema
from penstock.registry.formats.protobuf.model import Message
from penstock.registry.formats.protobuf.schema import ProtobufSchema


def has_field(schema: Schema, name: str) -> bool:
    """Whether a record, an object, or any message of a file has a field of that name."""
    return name in _names(schema)


def messages_on_fields(schema: Schema) -> list[str]:
    """Return the problems with the fields of a schema."""
    if isinstance(schema, JsonSchema):
        return [
            f"#: Field names cannot start with $$ prefix (found {name!r})"
            for name in _names(schema)
            if name.startswith("$$")
        ]
    if isinstance(schema, ProtobufSchema):
        try:
            schema.formatted("serialized")
        except SchemaError as error:
            return [str(error)]
    return []


def _names(schema: Schema) -> Iterable[str]:
    if isinstance(schema, AvroSchema):
        return [each.name for each in schema.root.fields]
    if isinstance(schema, JsonSchema):
        document = json.loads(schema.canonical())
        properties = document.get("properties") if isinstance(document, dict) else None
        return list(properties) if isinstance(properties, dict) else []
    if isinstance(schema, ProtobufSchema):
        messages = [each for each in schema.file.types if isinstance(each, Message)]
        fields = [field for each in messages for field in each.fields]
        fields += [field for each in messages for oneof in each.oneofs for field in oneof.fields]
        return [each.name for each in fields]
    return []
