"""The formats with schemas in a registry: each value begins with a zero byte and the id of its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from penstock.cli.connection import EXIT_REFUSED, EXIT_USAGE, fail
from penstock.cli.records import avro_json, protobuf_json, simple, validated_json
from penstock.cli.records.codec import Decode, Decoded, Encoder, InvalidValue, shown
from penstock.cli.registry_http import registry_config, registry_unreachable
from penstock.registry.client.errors import RegistryRefused, RegistryUnreachable
from penstock.registry.client.registry import Registered, RegistryClient
from penstock.registry.formats import SchemaError, parse
from penstock.sql.formats.errors import FormatError
from penstock.sql.formats.registry.registered import PREFIX_BYTES, schema_id_of
from penstock.sql.formats.registry_schemas import REGISTRY_FORMATS, parsed

Reader = Callable[[bytes], bytes]
"""Reads the bytes behind the id as JSON; raises FormatError or InvalidValue."""
Writer = Callable[[bytes], bytes]
"""Writes JSON as the bytes behind the id; raises FormatError or InvalidValue."""

_ID_MAX: Final = 2**31 - 1


class _Kind(NamedTuple):
    name: str  # in penstock.sql
    reader: Callable[[Any], Reader]
    writer: Callable[[Any], Writer]


def _avro_reader(schema: Any) -> Reader:
    import msgspec

    return lambda data: msgspec.json.encode(avro_json.read(schema.root, data, 0)[0])


def _avro_writer(schema: Any) -> Writer:
    return lambda text: avro_json.write(schema.root, simple.read_json(text))


_KINDS: Final = {
    "avro": _Kind("AVRO", _avro_reader, _avro_writer),
    "json-schema": _Kind("JSON_SR", lambda schema: simple.compact_json, validated_json.writer),
    "protobuf": _Kind("PROTOBUF", protobuf_json.reader, protobuf_json.writer),
}


def registered_decoder(format: str, registry: str) -> Decode:
    """Build a decoder that asks the registry for the schema of each id once."""
    kind = _KINDS[format]
    client = _client(registry)
    readers: dict[int, Reader] = {}

    def decode(data: bytes) -> Decoded:
        with _as_invalid(), _asking(registry):
            schema_id = schema_id_of(data, format)
            if schema_id not in readers:
                readers[schema_id] = kind.reader(_by_id(client, schema_id, kind))
            text = readers[schema_id](data[PREFIX_BYTES:])
        return Decoded(text, text)

    return decode


def registered_encoder(
    format: str, registry: str, topic: str, side: str, schema: str | None, message: str | None
) -> Encoder:
    """Build an encoder with a schema: a text, which is registered, an id, or the latest of the subject.

    ``side`` is key or value. ``message`` is the full name of a Protobuf message, or None for the first of the
    schema. An invalid schema or an unknown message ends the command before the schema is registered.
    """
    kind = _KINDS[format]
    client = _client(registry)
    subject = f"{topic}-{side}"
    with _asking(registry):
        try:
            found, ask_id = _chosen(client, kind, subject, schema)
            write = kind.writer(found) if message is None else _message_writer(found, side, message)
        except (FormatError, InvalidValue, SchemaError) as error:
            if schema is None:
                fail(f"subject {subject!r}: {error}, or the option --{side}-schema")
            given = shown(schema.encode(errors="replace"))
            fail(f"--{side}-schema: found {given} ({error}), expected a file, an id or a schema", EXIT_USAGE)
        prefix = b"\0" + ask_id().to_bytes(PREFIX_BYTES - 1, "big")

    def encode(text: bytes) -> bytes:
        with _as_invalid():
            return prefix + write(text)

    return simple.JsonEncoder(encode)


def _message_writer(schema: Any, side: str, message: str) -> Writer:
    try:
        return protobuf_json.writer(schema, message)
    except FormatError as error:
        fail(f"--{side}-message: {error}", EXIT_USAGE)


def _client(registry: str) -> RegistryClient:
    return RegistryClient(registry_config(registry, {}))


def _chosen(
    client: RegistryClient, kind: _Kind, subject: str, schema: str | None
) -> tuple[Any, Callable[[], int]]:
    """Return the schema to write with, and a function that registers it if need be and returns its id.

    Raises FormatError, InvalidValue, SchemaError.
    """
    if schema is None:
        found = _latest(client, subject)
        return parsed(client, found, kind.name), lambda: found.id
    if schema.strip().isdigit():
        return _by_id(client, int(schema), kind), lambda: int(schema)
    type_ = REGISTRY_FORMATS[kind.name]
    return parse(type_, schema), lambda: client.register(subject, type_, schema)


def _latest(client: RegistryClient, subject: str) -> Registered:
    """Return the latest schema of a subject. Raises InvalidValue if it has none."""
    try:
        return client.latest(subject)
    except RegistryRefused as error:
        if not error.is_absence:
            raise
        raise InvalidValue("found no schema in the registry, expected one") from None


def _by_id(client: RegistryClient, schema_id: int, kind: _Kind) -> Any:
    """Return the schema of an id. Raises FormatError, or InvalidValue if the registry has no such id."""
    try:
        if schema_id <= _ID_MAX:
            return parsed(client, client.by_id(schema_id), kind.name)
    except RegistryRefused as error:
        if not error.is_absence:
            raise
    raise InvalidValue(f"found the schema id {schema_id}, expected one that the registry has")


@contextmanager
def _asking(registry: str) -> Iterator[None]:
    """End the command if the registry refuses a request or cannot be reached."""
    try:
        yield
    except RegistryRefused as error:
        fail(f"{error.message} ({error.code})", EXIT_REFUSED)
    except RegistryUnreachable as error:
        registry_unreachable(error, registry)


@contextmanager
def _as_invalid() -> Iterator[None]:
    try:
        yield
    except FormatError as error:
        raise InvalidValue(str(error)) from None
    except RecursionError:
        raise InvalidValue("found values nested too deeply, expected a few hundred levels") from None
