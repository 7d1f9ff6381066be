"""Formats with a schema registry.

Each value is prefixed by the ID of the schema it was written with. The schema of the columns is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.registry.client.errors import RegistryRefused
from penstock.sql.formats.errors import FormatError
from penstock.sql.formats.kafka import Pair
from penstock.sql.formats.registry_schemas import (
    REGISTRY_FORMATS,
    Reader,
    Writer,
    client_of,
    own_schema,
    parsed,
)
from penstock.sql.formats.settings import SideFormat

PREFIX_BYTES: Final = 5


class Kind(NamedTuple):
    """The functions of one format. Readers and writers are built from a schema that the registry parsed."""

    schema_text: Callable[[SideFormat], str]
    reader: Callable[[Any, SideFormat], Reader]
    writer: Callable[[Any, SideFormat], Writer]


def schema_id_of(data: bytes, format_: str) -> int:
    if len(data) < PREFIX_BYTES or data[0] != 0:
        found = data[:PREFIX_BYTES].hex(" ") or "nothing"
        raise FormatError(f"found {found}, expected a zero byte and the id of a schema for {format_}")
    return int.from_bytes(data[1:PREFIX_BYTES], "big")


def _by_id(chosen: SideFormat, schema_id: int) -> Any:
    client = client_of(chosen)
    try:
        return parsed(client, client.by_id(schema_id), chosen.format)
    except RegistryRefused as error:
        if not error.is_absence:
            raise
        raise FormatError(f"found the schema id {schema_id}, which the registry doesn't know") from None


def registered_pair(chosen: SideFormat, kind: Kind) -> Pair:
    """Build the functions that write and read rows.

    The first row that is written registers the schema, unless *_SCHEMA_ID names an existing one.
    """
    readers: dict[int, Reader] = {}
    writing: list[tuple[bytes, Writer]] = []

    def deserialize(data: bytes) -> tuple[Any, ...]:
        schema_id = schema_id_of(data, chosen.format)
        read = readers.get(schema_id)
        if read is None:
            read = readers[schema_id] = kind.reader(_by_id(chosen, schema_id), chosen)
        try:
            return read(data, PREFIX_BYTES)
        except RecursionError:
            raise FormatError("found values nested too deeply, expected a few hundred levels") from None

    def serialize(row: Sequence[Any]) -> bytes | None:
        if chosen.is_alone and row[0] is None:
            return None
        if not writing:
            writing.append(_writing(chosen, kind))
        prefix, write = writing[0]
        return prefix + write(row)

    return serialize, deserialize


def _writing(chosen: SideFormat, kind: Kind) -> tuple[bytes, Writer]:
    if chosen.schema_id is not None:
        schema_id, schema = chosen.schema_id, _by_id(chosen, chosen.schema_id)
    else:
        text = kind.schema_text(chosen)
        schema = own_schema(chosen, text)
        schema_id = client_of(chosen).register(chosen.subject, REGISTRY_FORMATS[chosen.format], text)
    return b"\0" + schema_id.to_bytes(4, "big"), kind.writer(schema, chosen)


def kinds() -> Mapping[str, Kind]:
    """The functions of each format. The modules are imported only if a registry is used."""
    from penstock.sql.formats.avro import reading as avro_reading
    from penstock.sql.formats.avro import schema as avro_schema
    from penstock.sql.formats.avro import writing as avro_writing
    from penstock.sql.formats.json import registered as json_registered
    from penstock.sql.formats.protobuf import rows as protobuf
    from penstock.sql.formats.protobuf import schema as protobuf_schema

    return {
        "AVRO": Kind(
            avro_schema.schema_text,
            lambda schema, chosen: avro_reading.row_reader(schema.root, chosen.fields, chosen.is_alone),
            lambda schema, chosen: avro_writing.row_writer(schema.root, chosen.fields, chosen.is_alone),
        ),
        "JSON_SR": Kind(json_registered.schema_text, json_registered.reader, json_registered.writer),
        "PROTOBUF": Kind(protobuf_schema.schema_text, protobuf.reader, protobuf.writer),
    }
