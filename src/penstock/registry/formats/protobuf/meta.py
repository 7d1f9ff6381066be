"""Read Confluent's field option `confluent.field_meta`."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.registry.formats.protobuf.model import Message
from penstock.registry.formats.protobuf.names import joined
from penstock.registry.formats.protobuf.schema import ProtobufSchema


def field_parameters(schema: ProtobufSchema) -> dict[str, Mapping[str, str]]:
    """Return the ``params`` of all fields that have some, by the fields' full names.

    They include fields of imported files. A decimal's precision and scale are among these parameters.
    """
    found: dict[str, Mapping[str, str]] = {}
    for file in (*schema.imported.values(), schema.file):
        for each in file.types:
            if isinstance(each, Message):
                found |= _of_message(each, file.package or "")
    return found


def _of_message(message: Message, scope: str) -> dict[str, Mapping[str, str]]:
    name = joined(scope, message.name)
    found: dict[str, Mapping[str, str]] = {}
    oneofs = (field for oneof in message.oneofs for field in oneof.fields)
    for field in (*message.fields, *oneofs):
        for option in field.options:
            if option.name == "confluent.field_meta" and isinstance(option.value, dict):
                entries = option.value.get("params", [])
                entries = entries if isinstance(entries, list) else [entries]
                found[joined(name, field.name)] = {
                    str(each.get("key")): str(each.get("value")) for each in entries if isinstance(each, dict)
                }
    for each in message.types:
        if isinstance(each, Message):
            found |= _of_message(each, name)
    return found
