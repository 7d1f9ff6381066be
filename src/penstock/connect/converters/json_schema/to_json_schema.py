"""Translates Connect's schemas to JSON Schemas, with the keywords that Confluent's converter adds."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from penstock.connect.converters.json.writing import Writing
from penstock.connect.converters.json_schema import settings as keywords
from penstock.connect.converters.json_schema.settings import JsonSchemaSettings, is_object_map, is_union
from penstock.connect.data import logical
from penstock.connect.data.schema import Schema, Type
from penstock.connect.errors import DataError

Json: TypeAlias = Any

_INTEGERS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)
_TYPES: Final = {Type.FLOAT32: "float32", Type.FLOAT64: "float64"}


def json_schema_text(schema: Schema, settings: JsonSchemaSettings, writing: Writing) -> str:
    """Return the text of the JSON Schema for a schema; ``writing`` writes defaults. Raises DataError."""
    made = _Translation(settings, writing).schema(schema)
    return json.dumps(made, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class _Translation:
    settings: JsonSchemaSettings
    writing: Writing

    def schema(self, schema: Schema | None, index: int | None = None) -> Json:
        """Translate a schema; ``index`` is the place of a field."""
        if schema is None:
            raise DataError("JSON Schema needs schemas of all parts, found none")
        if is_union(schema):
            made = self._union(schema)
        elif schema.optional:
            made = {"oneOf": [{"type": "null"}, self.schema(replace(schema, optional=False))]}
        else:
            made = {**self._base(schema), **self._description(schema)}
        return made if index is None else {**made, keywords.INDEX: index}

    def _base(self, schema: Schema) -> dict[str, Json]:
        match schema.type:
            case each if each in _INTEGERS:
                return {"type": "integer", keywords.TYPE: each.value}
            case Type.FLOAT32 | Type.FLOAT64:
                return {"type": "number", keywords.TYPE: _TYPES[schema.type]}
            case Type.BOOLEAN:
                return {"type": "boolean"}
            case Type.STRING:
                return self._string(schema)
            case Type.BYTES:
                is_number = schema.name == logical.DECIMAL_NAME and self.settings.decimals_are_numbers
                return {"type": "number" if is_number else "string", keywords.TYPE: "bytes"}
            case Type.ARRAY:
                return {"type": "array", "items": self.schema(schema.value_schema)}
            case Type.MAP:
                return self._map(schema)
        return self._struct(schema)

    def _string(self, schema: Schema) -> dict[str, Json]:
        parameters = schema.parameters or {}
        if keywords.ENUM not in parameters:
            return {"type": "string"}
        begin = f"{keywords.ENUM}."
        symbols = [each.removeprefix(begin) for each in parameters if each.startswith(begin)]
        return {"enum": [None if each == keywords.NULL else each for each in symbols]}

    def _map(self, schema: Schema) -> dict[str, Json]:
        if is_object_map(schema):
            values = self.schema(schema.value_schema)
            return {"type": "object", "additionalProperties": values, keywords.TYPE: "map"}
        parts = {keywords.KEY: schema.key_schema, keywords.VALUE: schema.value_schema}
        properties = {name: self.schema(each, index) for index, (name, each) in enumerate(parts.items())}
        entry = {"type": "object", "properties": properties}
        return {"type": "array", "items": entry, keywords.TYPE: "map"}

    def _struct(self, schema: Schema) -> dict[str, Json]:
        properties = {each.name: self.schema(each.schema, each.index) for each in schema.fields}
        made: dict[str, Json] = {"type": "object", "properties": properties}
        if not self.settings.additional_properties:
            made["additionalProperties"] = False
        return made

    def _union(self, schema: Schema) -> dict[str, Json]:
        members = (self.schema(replace(each.schema, optional=False), each.index) for each in schema.fields)
        return {"oneOf": [*([{"type": "null"}] if schema.optional else []), *members]}

    def _description(self, schema: Schema) -> dict[str, Json]:
        made: dict[str, Json] = {}
        if schema.name is not None:
            made["title"] = schema.name
        if schema.doc is not None:
            made["description"] = schema.doc
        if schema.default is not None:
            made["default"] = json.loads(self.writing.writer(schema)(schema.default))
        if schema.version is not None:
            made[keywords.VERSION] = schema.version
        own = {
            name: each
            for name, each in (schema.parameters or {}).items()
            if not name.startswith(keywords.NAMESPACE)
        }
        return {**made, keywords.PARAMETERS: own} if own else made
