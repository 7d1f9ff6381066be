"""Protobuf messages in Protobuf's JSON, as Google's library and Confluent's console tools print them."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from penstock.cli.records.codec import InvalidValue, shown
from penstock.cli.records.simple import compact_json
from penstock.registry.formats.protobuf.indexes import indexes_bytes
from penstock.registry.formats.protobuf.schema import ProtobufSchema
from penstock.sql.formats.protobuf.rows import descriptor_of, indexes_in, named_indexes


def reader(schema: ProtobufSchema) -> Callable[[bytes], bytes]:
    """Build a reader of a schema's messages. Each begins with the indexes of its type."""
    known: dict[tuple[int, ...], Descriptor] = {}

    def read(data: bytes) -> bytes:
        indexes, at = indexes_in(data, 0)
        if indexes not in known:
            known[indexes] = descriptor_of(schema, indexes)
        descriptor = known[indexes]
        try:
            message = message_factory.GetMessageClass(descriptor).FromString(data[at:])
            text: str = json_format.MessageToJson(
                message,
                indent=None,
                ensure_ascii=False,
                always_print_fields_with_no_presence=True,
                descriptor_pool=descriptor.file.pool,
            )
        except (DecodeError, json_format.Error, TypeError, ValueError) as error:
            raise _invalid(data[at:], error, descriptor) from None
        return compact_json(text.encode())

    return read


def writer(schema: ProtobufSchema, message: str | None = None) -> Callable[[bytes], bytes]:
    """Build a writer of the messages with this full name; None means the first of the schema.

    Raises FormatError if the schema has no such message.
    """
    indexes = named_indexes(schema, message)
    descriptor = descriptor_of(schema, indexes)
    make = message_factory.GetMessageClass(descriptor)
    prefix = indexes_bytes(indexes)

    def write(text: bytes) -> bytes:
        try:
            made = json_format.Parse(text, make(), descriptor_pool=descriptor.file.pool)
        except (json_format.ParseError, UnicodeDecodeError) as error:
            raise _invalid(text, error, descriptor) from None
        data: bytes = made.SerializeToString()
        return prefix + data

    return write


def _invalid(found: bytes, error: Exception, descriptor: Descriptor) -> InvalidValue:
    reason = " ".join(str(error).split())  # Google's library lists the known fields on a second line
    return InvalidValue(f"found {shown(found)} ({reason}), expected {descriptor.full_name}")
