"""The use of a schema registry by statements, which register schemas and infer columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.registry.client.errors import RegistryRefused
from penstock.registry.client.registry import Registered, RegistryClient
from penstock.sql.catalog import Column, DataSource, Role
from penstock.sql.formats.avro.schema import key_schema_name
from penstock.sql.formats.errors import FormatError
from penstock.sql.formats.registry.inference import Unsupported, columns_of, of_avro, of_json_schema
from penstock.sql.formats.registry.registered import kinds
from penstock.sql.formats.registry_schemas import REGISTRY_FORMATS, own_schema, parsed
from penstock.sql.formats.settings import Side, SideFormat, side_format
from penstock.sql.language.types import SqlType

_SINGLE_NAMES: Final = {Side.KEY: "ROWKEY", Side.VALUE: "ROWVAL"}
"""The name of the column for an unwrapped value, whose schema has no name."""


def format_settings(source: DataSource, properties: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings for the serdes of a source.

    They are its WITH (…), ksqlDB's name for the record of an Avro key, and the registry's ``properties``.
    """
    made = {**(properties or {}), **dict(source.settings)}
    if source.key_format == "AVRO":
        made.setdefault("KEY_SCHEMA_FULL_NAME", key_schema_name(source.name))
    return made


def sides_of(source: DataSource) -> list[SideFormat]:
    """The formats of a source's keys and values. Raises FormatError for invalid settings."""
    settings = format_settings(source)
    values = [each for each in source.columns if each.role is Role.VALUE]
    return [
        side_format(Side.KEY, source.keys, source.key_format, settings, source.topic),
        side_format(Side.VALUE, values, source.value_format, settings, source.topic),
    ]


def register_schemas(source: DataSource, registry: RegistryClient, *, is_result: bool) -> dict[str, int]:
    """Register the schemas of a new source, and return their IDs by subject.

    Unless the source is a query's result (``is_result``), a subject that already has a schema keeps it.
    Raises FormatError, RegistryRefused, RegistryUnreachable.
    """
    found: dict[str, int] = {}
    for side in sides_of(source):
        kind = kinds().get(side.format)
        if kind is None or not side.fields:
            continue
        if side.schema_id is not None:
            named = registry.by_id(side.schema_id)
            _check_columns(side, registry, named)
            found[side.subject] = registry.register(side.subject, named.format, named.text, named.references)
        elif is_result or not _has_schema(registry, side.subject):
            format_ = REGISTRY_FORMATS[side.format]
            found[side.subject] = registry.register(side.subject, format_, kind.schema_text(side))
    return found


def _check_columns(side: SideFormat, registry: RegistryClient, named: Registered) -> None:
    """Check that a *_SCHEMA_ID's schema starts with the columns. It may have further fields."""
    try:
        found = _type_of(parsed(registry, named, side.format), side, is_named=True)
    except Unsupported as error:
        raise FormatError(
            f"found {error} in the schema {named.id}, expected the types of the columns", str(side.side)
        ) from None
    theirs = columns_of(found, side.fields[0][0] if side.is_alone else None)
    wrong = [
        f"{name} {type_}"
        for place, (name, type_) in enumerate(side.fields)
        if theirs[place : place + 1] != ((name, type_),)
    ]
    if wrong:
        shown = ", ".join(f"{name} {type_}" for name, type_ in theirs)
        raise FormatError(
            f"found {', '.join(wrong)}, expected the columns as the schema {named.id} has them: {shown}",
            str(side.side),
        )


def _has_schema(registry: RegistryClient, subject: str) -> bool:
    try:
        registry.latest(subject)
    except RegistryRefused as error:
        if not error.is_absence:
            raise
        return False
    return True


def registered_columns(
    side: Side, topic: str, format_: str, settings: Mapping[str, str], registry: RegistryClient
) -> tuple[Column, ...]:
    """Infer columns from the latest schema of the topic's subject, or from the one of *_SCHEMA_ID.

    With *_SCHEMA_ID the columns have the schema's names, otherwise these names in upper case. The result is
    empty if the registry has no schema.
    """
    chosen = side_format(side, (), format_, settings, topic)
    if format_ not in REGISTRY_FORMATS:
        return ()
    try:
        if chosen.schema_id is not None:
            schema = registry.by_id(chosen.schema_id)
        else:
            schema = registry.latest(chosen.subject)
    except RegistryRefused as error:
        if not error.is_absence:
            raise
        return ()
    is_named = chosen.schema_id is not None
    alone = format_ != "PROTOBUF" and (
        side is Side.KEY or settings.get("WRAP_SINGLE_VALUE", "true").lower() == "false"
    )
    try:
        found = _type_of(parsed(registry, schema, format_), chosen, is_named)
    except Unsupported as error:
        raise FormatError(
            f"found {error} in the schema {schema.id}, expected types of ksqlDB", str(side)
        ) from None
    columns = columns_of(found, _SINGLE_NAMES[side] if alone else None)
    if side is Side.KEY and len(columns) > 1:
        raise FormatError(f"found {len(columns)} columns in the schema {schema.id}, expected one", str(side))
    role = Role.KEY if side is Side.KEY else Role.VALUE
    return tuple(Column(name, type_, role) for name, type_ in columns)


def type_of_schema(
    client: RegistryClient, registered: Registered, chosen: SideFormat
) -> tuple[SqlType, SqlType]:
    """The types of a schema in the registry and of the schema generated from the columns."""
    try:
        found = _type_of(parsed(client, registered, chosen.format), chosen, False)
        own = _type_of(own_schema(chosen, kinds()[chosen.format].schema_text(chosen)), chosen, False)
    except Unsupported as error:
        raise FormatError(f"found {error} in the schema {registered.id}, expected types of ksqlDB") from None
    return found, own


def _type_of(schema: object, chosen: SideFormat, is_named: bool) -> SqlType:
    from penstock.registry.formats.avro.schema import AvroSchema
    from penstock.registry.formats.protobuf.schema import ProtobufSchema

    name_of = str if is_named else str.upper
    if isinstance(schema, AvroSchema):
        return of_avro(schema.root, name_of)
    if isinstance(schema, ProtobufSchema):
        from penstock.sql.formats.protobuf.rows import message_of
        from penstock.sql.formats.registry.protobuf_inference import of_message

        message = message_of(schema, chosen.full_name)
        return of_message(schema, message, name_of)
    return of_json_schema(schema.canonical(), name_of)  # type: ignore[attr-defined]
