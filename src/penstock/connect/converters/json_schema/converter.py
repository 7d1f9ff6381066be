"""JsonSchemaConverter (io.confluent.connect.json.JsonSchemaConverter): JSON behind the id of its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from penstock.connect.converters.json.reading import needs_exact_numbers
from penstock.connect.converters.json_schema.from_json_schema import connect_schema
from penstock.connect.converters.json_schema.reading import SchemaReading
from penstock.connect.converters.json_schema.settings import JsonSchemaSettings
from penstock.connect.converters.json_schema.to_json_schema import json_schema_text
from penstock.connect.converters.json_schema.writing import SchemaWriting
from penstock.connect.converters.registry import Reader, RegistryConverter, Writer, registry_definition
from penstock.connect.data.json_text import encoded, parsed
from penstock.connect.data.schema import Schema
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import CaseInsensitiveValidString
from penstock.connect.errors import DataError
from penstock.registry.formats import Schema as RegisteredSchema
from penstock.registry.formats.json_schema.schema import JsonSchema

_SETTINGS: Final = {
    "object.additional.properties": (True, "Whether objects may have properties that their schema lacks."),
    "use.optional.for.nonrequired": (False, "Whether properties that are not required are optional."),
    "flatten.singleton.unions": (True, "Whether a union of one type is read as that type."),
    "ignore.default.for.nullables": (False, "Whether a null stays null although its field has a default."),
}


def _definition() -> ConfigDef:
    definition = registry_definition()
    for name, (default, doc) in _SETTINGS.items():
        definition.define(name, ConfigType.BOOLEAN, default, doc=doc)
    return definition.define(
        "decimal.format",
        ConfigType.STRING,
        "BASE64",
        CaseInsensitiveValidString("BASE64", "NUMERIC"),
        Importance.LOW,
        "How decimals are written: BASE64 or NUMERIC. Both are read.",
    )


class JsonSchemaConverter(RegistryConverter):
    """Converts keys and values to JSON and back, with their schemas in a schema registry."""

    definition: ClassVar[ConfigDef] = _definition()
    format: ClassVar[str] = JsonSchema.format

    def _take(self, config: Mapping[str, Any]) -> None:
        is_numeric = config["decimal.format"].upper() == "NUMERIC"
        self._settings = JsonSchemaSettings(
            additional_properties=config["object.additional.properties"],
            optional_unless_required=config["use.optional.for.nonrequired"],
            decimals_are_numbers=is_numeric,
            flattens_unions=config["flatten.singleton.unions"],
        )
        replaces_nulls = not config["ignore.default.for.nullables"]
        self._writing = SchemaWriting(decimals_are_numbers=is_numeric, replaces_nulls=replaces_nulls)

    def _make_writer(self, schema: Schema | None) -> Writer:
        if schema is None:
            raise DataError("JsonSchemaConverter needs a schema for each value")
        write = self._writing.writer(schema)
        is_nullable = schema.optional or (schema.default is not None and self._writing.replaces_nulls)

        def body(value: Any) -> bytes | None:
            return None if value is None and not is_nullable else encoded(write(value))

        text = json_schema_text(schema, self._settings, self._writing)
        return Writer(text, schema.name, body)

    def _make_reader(self, topic: str, schema_id: int, found: RegisteredSchema) -> Reader:
        assert isinstance(found, JsonSchema)
        version = self._link.version_of(topic, found.root.title, schema_id)
        schema = connect_schema(found, self._settings, version)
        read = SchemaReading(replaces_nulls=True).reader(schema)
        exact = needs_exact_numbers(schema)

        def value(data: bytes, at: int) -> Any:
            return read(parsed(data[at:], exact=exact))

        return Reader(schema, value)
