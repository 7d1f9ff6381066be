"""Translates Connect's schemas to Avro's, with the attributes that Confluent's converter adds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, TypeAlias

from penstock.connect.converters.avro import settings as avro
from penstock.connect.converters.avro.settings import AvroSettings, is_fixed, is_union, parameter, scrubbed
from penstock.connect.data import logical
from penstock.connect.data.schema import Schema, Type
from penstock.connect.errors import DataError
from penstock.java.numbers import double_text, float32, float_text
from penstock.registry.formats.json_text import write

Json: TypeAlias = Any

_CONNECT_TYPES: Final = {Type.INT8: "int8", Type.INT16: "int16"}
_LOGICAL_TYPES: Final = {
    logical.TIME_NAME: "time-millis",
    logical.TIMESTAMP_NAME: "timestamp-millis",
    logical.DATE_NAME: "date",
}
_NUMBERS: Final[Mapping[str, Any]] = {
    logical.TIME_NAME: logical.millis_of_day,
    logical.TIMESTAMP_NAME: logical.epoch_millis,
    logical.DATE_NAME: logical.days_of,
}
_OPTIONAL: Final = ("boolean", "bytes", "double", "float", "int", "long", "string")
ANYTHING_TEXT: Final = json.dumps(
    {
        "type": "record",
        "name": "Anything",
        "namespace": avro.NAMESPACE,
        "fields": [
            *({"name": each, "type": ["null", each], "default": None} for each in _OPTIONAL),
            {"name": "array", "type": ["null", {"type": "array", "items": "Anything"}], "default": None},
            {
                "name": "map",
                "type": [
                    "null",
                    {
                        "type": "array",
                        "items": {
                            "type": "record",
                            "name": avro.MAP_ENTRY,
                            "fields": [
                                {"name": avro.KEY, "type": "Anything"},
                                {"name": avro.VALUE, "type": "Anything"},
                            ],
                        },
                    },
                ],
                "default": None,
            },
        ],
    }
)
"""The schema of values without a schema: a record of which one field has a value."""


def avro_text(schema: Schema | None, settings: AvroSettings) -> str:
    """Return the text of the Avro schema for a schema. Raises DataError."""
    if schema is None:
        return ANYTHING_TEXT
    made = _Translation(settings).schema(schema)
    return write(_with_names(made, {}))


def _with_names(given: Json, known: dict[str, Json]) -> Json:
    """Replace the definition of a name by the name where it is repeated."""
    if isinstance(given, list):
        return [_with_names(each, known) for each in given]
    if not isinstance(given, dict):
        return given
    if "name" in given and given["type"] in ("record", "enum", "fixed"):
        full = f"{given['namespace']}.{given['name']}" if given["namespace"] else given["name"]
        if known.get(full) == given:
            return full
        known[full] = given
    parts = {part: _with_names(given[part], known) for part in ("type", "items", "values") if part in given}
    if isinstance(given.get("fields"), list):
        parts["fields"] = [{**each, "type": _with_names(each["type"], known)} for each in given["fields"]]
    return {**given, **parts}


@dataclass(slots=True)
class _Translation:
    """Translates one schema with all its parts; definitions of names are repeated in full."""

    settings: AvroSettings
    made: dict[Schema, Json] = field(default_factory=dict)
    unnamed: int = 0

    def schema(self, schema: Schema | None) -> Json:
        """Return the Avro schema of a schema."""
        if schema is None:
            return json.loads(ANYTHING_TEXT)
        reusable = not schema.optional and not is_union(schema)
        if reusable and schema in self.made:
            return self.made[schema]
        base = self._base(schema)
        if isinstance(base, list):
            return base
        base = {**base, **self._attributes(schema)}
        final: Json = base
        if schema.optional:
            final = ["null", base] if schema.default is None else [base, "null"]
        if reusable:
            self.made[schema] = final
        return final

    def _base(self, schema: Schema) -> Json:
        match schema.type:
            case Type.INT8 | Type.INT16:
                return {"type": "int"}
            case Type.STRING if self.settings.enhanced and parameter(schema, avro.ENUM) is not None:
                return self._enum(schema)
            case Type.BYTES:
                return self._bytes(schema)
            case Type.ARRAY:
                return {"type": "array", "items": self.schema(schema.value_schema)}
            case Type.MAP:
                return self._map(schema)
            case Type.STRUCT:
                return self._struct(schema)
        return {"type": avro.AVRO_KINDS[schema.type]}

    def _bytes(self, schema: Schema) -> Json:
        made: dict[str, Json] = {"type": "bytes"}
        if is_fixed(schema):
            made = {**self._named("fixed", schema), "size": _number(schema, avro.FIXED_SIZE, 0)}
        if schema.name == logical.DECIMAL_NAME:
            made["scale"] = logical.scale_parameter(schema)
            made["precision"] = _number(schema, avro.PRECISION, avro.PRECISION_DEFAULT)
        return made

    def _enum(self, schema: Schema) -> Json:
        name = self._split(schema.name)[1]
        parameters = schema.parameters or {}
        begin = f"{avro.ENUM}."
        space, own = _split(parameters[avro.ENUM])
        made: dict[str, Json] = {"type": "enum", "name": own, "namespace": space}
        keeps_all = not self.settings.only_docs_and_defaults
        doc = parameters.get(avro.ENUM_DOC + name if keeps_all else avro.ENUM_DOC_ONLY)
        if doc is not None:
            made["doc"] = doc
        made["symbols"] = [each.removeprefix(begin) for each in parameters if each.startswith(begin)]
        default = parameters.get(avro.ENUM_DEFAULT + name)
        if keeps_all and default is not None:
            made["default"] = default
        return made

    def _map(self, schema: Schema) -> Json:
        if self.settings.is_avro_map(schema):
            return {"type": "map", "values": self.schema(schema.value_schema)}
        entry: dict[str, Json] = {"type": "record", "name": avro.MAP_ENTRY, "namespace": avro.NAMESPACE}
        if schema.name is not None:
            entry = {**self._named("record", schema)}
        parts = {avro.KEY: schema.key_schema, avro.VALUE: schema.value_schema}
        entry["fields"] = [self._field(name, each, None) for name, each in parts.items()]
        if schema.name is not None:
            entry[avro.INTERNAL_TYPE] = avro.MAP_ENTRY
        return {"type": "array", "items": entry}

    def _struct(self, schema: Schema) -> Json:
        if is_union(schema):
            members = [self.schema(replace(each.schema, optional=False)) for each in schema.fields]
            return ["null", *members] if schema.optional else members
        if schema.optional:
            return ["null", self.schema(replace(schema, optional=False))]
        made = self._named("record", schema)
        only_fields = self.settings.only_docs_and_defaults
        doc = parameter(schema, avro.RECORD_DOC_ONLY if only_fields else avro.RECORD_DOC)
        if doc is not None:
            made["doc"] = doc
        made["fields"] = []
        for each in schema.fields:
            field_doc = each.schema.doc if only_fields else parameter(schema, avro.FIELD_DOC + each.name)
            made["fields"].append(self._field(self._scrubbed(each.name), each.schema, field_doc))
        return made

    def _field(self, name: str, schema: Schema | None, doc: str | None) -> Json:
        made: dict[str, Json] = {"name": name, "type": self.schema(schema)}
        if doc is not None:
            made["doc"] = doc
        if schema is None:
            return made
        if schema.default is not None:
            if self._fits(schema, schema.default):
                made["default"] = self._default(schema, schema.default)
        elif schema.optional:
            made["default"] = None
        return made

    def _named(self, kind: str, schema: Schema) -> dict[str, Json]:
        space, name = self._split(schema.name)
        return {"type": kind, "name": name, "namespace": space}

    def _split(self, name: str | None) -> tuple[str, str]:
        """Return namespace and name; a schema without a name gets one that Confluent's converter ignores."""
        if name is not None:
            space, own = _split(name)
            return ".".join(map(self._scrubbed, space.split("."))), self._scrubbed(own)
        self.unnamed += 1
        return avro.NAMESPACE, f"{avro.DEFAULT_NAME}{self.unnamed if self.unnamed > 1 else ''}"

    def _scrubbed(self, name: str) -> str:
        return scrubbed(name) if self.settings.scrubs_names else name

    def _attributes(self, schema: Schema) -> dict[str, Json]:
        made: dict[str, Json] = {}
        if self.settings.has_metadata:
            made |= self._metadata(schema)
        if schema.name == logical.DECIMAL_NAME:
            made["logicalType"] = "decimal"
        elif schema.name in _LOGICAL_TYPES:
            made["logicalType"] = _LOGICAL_TYPES[schema.name]
        for name, value in (schema.parameters or {}).items():
            if name.startswith(avro.AVRO_PREFIX):
                made[name] = value
        return made

    def _metadata(self, schema: Schema) -> dict[str, Json]:
        made: dict[str, Json] = {}
        if schema.doc is not None:
            made[avro.DOC] = schema.doc
        if schema.version is not None:
            made[avro.VERSION] = schema.version
        keeps_all = not self.settings.only_docs_and_defaults
        parameters = dict(schema.parameters or {})
        flagged = keeps_all and parameters.pop(avro.FIELD_DEFAULT, None) is not None
        if parameters:
            made[avro.PARAMETERS] = parameters
        if schema.default is not None and not flagged:
            made[avro.DEFAULT] = self._default(schema, schema.default)
        if schema.name is not None:
            made[avro.NAME] = schema.name
        if schema.type in _CONNECT_TYPES:
            made[avro.TYPE] = _CONNECT_TYPES[schema.type]
        return made

    def _default(self, schema: Schema, value: Any) -> Json:
        """Return the JSON of a default."""
        if value is None:
            return None
        if (number := _NUMBERS.get(schema.name or "")) is not None:
            return number(value)
        if schema.name == logical.DECIMAL_NAME:
            return logical.unscaled_bytes(value, logical.scale_parameter(schema)).decode("latin-1")
        match schema.type:
            case Type.FLOAT32:
                return _json_number(value, float_text(float32(value)))
            case Type.FLOAT64:
                return _json_number(value, double_text(value))
            case Type.BYTES:
                return bytes(value).decode("latin-1")
            case Type.ARRAY:
                return [self._default(_part(schema.value_schema), each) for each in value]
            case Type.MAP:
                return self._default_map(schema, value)
            case Type.STRUCT:
                parts = [(each.name, self._default(each.schema, value[each.name])) for each in schema.fields]
                found = {self._scrubbed(name): part for name, part in parts}
                return next(iter(found.values()), None) if is_union(schema) else found
        return value

    def _default_map(self, schema: Schema, value: dict[Any, Any]) -> Json:
        keys, values = _part(schema.key_schema), _part(schema.value_schema)
        if self.settings.is_avro_map(schema):
            return {key: self._default(values, each) for key, each in value.items()}
        return [[self._default(keys, key), self._default(values, each)] for key, each in value.items()]

    def _fits(self, schema: Schema | None, value: Any) -> bool:
        """Whether Avro accepts a default, which JSON must be able to express without pairs for records."""
        if schema is None:
            return False
        if value is None:
            return schema.optional
        match schema.type:
            case Type.FLOAT32 | Type.FLOAT64:
                return bool(value - value == 0)  # finite
            case Type.ARRAY:
                return all(self._fits(schema.value_schema, each) for each in value)
            case Type.MAP if self.settings.is_avro_map(schema):
                return all(self._fits(schema.value_schema, each) for each in value.values())
            case Type.MAP:
                return not value
            case Type.STRUCT if is_union(schema):
                return schema.optional or value[schema.fields[0].name] is not None
            case Type.STRUCT:
                return all(self._fits(each.schema, value[each.name]) for each in schema.fields)
        return True


def _split(name: str) -> tuple[str, str]:
    space, _, own = name.rpartition(".")
    return space, own


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("a default needs schemas of its parts")
    return schema


def _number(schema: Schema, name: str, default: int) -> int:
    text = parameter(schema, name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise DataError(f"Invalid parameter {name} of {schema}: {text!r}, expected a number") from None


def _json_number(value: float, text: str) -> Json:
    return Decimal(text) if value - value == 0 else text
