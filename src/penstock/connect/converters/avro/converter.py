"""AvroConverter (io.confluent.connect.avro.AvroConverter): Avro's binary data behind the id of its schema."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from penstock.connect.converters.avro.from_avro import connect_schema
from penstock.connect.converters.avro.reading import reader
from penstock.connect.converters.avro.settings import ANYTHING, AvroSettings
from penstock.connect.converters.avro.to_avro import avro_text
from penstock.connect.converters.avro.writing import Writing, add_long
from penstock.connect.converters.registry import Reader, RegistryConverter, Writer, registry_definition
from penstock.connect.data.schema import Schema
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.errors import DataError
from penstock.registry.formats import Schema as RegisteredSchema
from penstock.registry.formats import SchemaError, parse
from penstock.registry.formats.avro.schema import AvroSchema
from penstock.registry.formats.avro.types import Type

_SETTINGS: Final = {
    "enhanced.avro.schema.support": (
        False,
        Importance.MEDIUM,
        "Whether enums stay enums, and members of unions are named with their namespaces.",
    ),
    "scrub.invalid.names": (
        False,
        Importance.MEDIUM,
        "Whether characters that Avro forbids in names are replaced.",
    ),
    "connect.meta.data": (True, Importance.LOW, "Whether schemas carry the attributes connect.*."),
    "ignore.default.for.nullables": (
        False,
        Importance.MEDIUM,
        "Whether a null stays null although its field has a default.",
    ),
    "discard.type.doc.default": (
        False,
        Importance.LOW,
        "Whether of all docs and defaults only those of Avro's fields are kept.",
    ),
    "allow.optional.map.keys": (
        False,
        Importance.LOW,
        "Whether maps from optional strings are written as Avro's maps.",
    ),
    "flatten.singleton.unions": (True, Importance.LOW, "Whether a union of one type is read as that type."),
}


def _definition() -> ConfigDef:
    definition = registry_definition()
    for name, (default, importance, doc) in _SETTINGS.items():
        definition.define(name, ConfigType.BOOLEAN, default, importance=importance, doc=doc)
    return definition


class AvroConverter(RegistryConverter):
    """Converts keys and values to Avro and back, with their schemas in a schema registry."""

    definition: ClassVar[ConfigDef] = _definition()
    format: ClassVar[str] = AvroSchema.format

    def _take(self, config: Mapping[str, Any]) -> None:
        self._settings = AvroSettings(
            enhanced=config["enhanced.avro.schema.support"],
            has_metadata=config["connect.meta.data"],
            ignores_defaults=config["ignore.default.for.nullables"],
            optional_map_keys=config["allow.optional.map.keys"],
            scrubs_names=config["scrub.invalid.names"],
            flattens_unions=config["flatten.singleton.unions"],
            only_docs_and_defaults=config["discard.type.doc.default"],
        )

    def _make_writer(self, schema: Schema | None) -> Writer:
        try:
            translated = parse(self.format, avro_text(schema, self._settings))
        except SchemaError as error:
            raise DataError(f"{schema} has no form in Avro: {error}") from error
        assert isinstance(translated, AvroSchema)
        root = translated.root
        write = Writing(self._settings).writer(schema, root)
        may_be_null = schema is None or schema.optional

        def body(value: Any) -> bytearray | None:
            if value is None and may_be_null:
                return None
            out = bytearray()
            write(value, out)
            if root.kind == "union" and out == b"\0":
                return None  # the struct of a union without a value
            # Confluent's serializer writes bytes without their length, in contrast to Avro
            return _without_length(out) if root.kind == "bytes" else out

        return Writer(translated.canonical(), _record_name(root), body)

    def _make_reader(self, topic: str, schema_id: int, found: RegisteredSchema) -> Reader:
        assert isinstance(found, AvroSchema)
        root = found.root
        is_anything = root.full_name == ANYTHING
        version = None if is_anything else self._link.version_of(topic, _record_name(root), schema_id)
        schema = connect_schema(root, self._settings, version)
        read = reader(schema, root)

        def value(data: bytes, at: int) -> Any:
            if root.kind == "bytes":
                length = bytearray()
                add_long(len(data) - at, length)
                data, at = bytes(length) + data[at:], 0
            try:
                return read(data, at)[0]
            except (IndexError, struct.error):
                raise DataError(f"Avro data of topic {topic} end too early: {len(data)} bytes") from None
            except RecursionError:
                raise DataError(f"Avro data of topic {topic} are nested too deeply") from None

        return Reader(schema, value)


def _record_name(root: Type) -> str | None:
    return root.full_name if root.kind == "record" else None


def _without_length(out: bytearray) -> bytearray:
    """Remove the length before bytes, which has the highest bit in each of its bytes but the last."""
    at = next(at for at, byte in enumerate(out) if byte < 0x80)
    return out[at + 1 :]
