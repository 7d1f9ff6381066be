"""Schemas in JSON, as they stand beside each value in the envelope of JsonConverter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from penstock.connect.converters.json.reading import Reading
from penstock.connect.converters.json.writing import Writing
from penstock.connect.data.json_text import quoted
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.validation import validate_value
from penstock.connect.errors import DataError
from penstock.java.numbers import wrapped

_TYPES: Final = {each.value: each for each in Type}


def schema_text(schema: Schema | None, writing: Writing) -> str:
    """Return the JSON of a schema. Raises DataError if its default does not fit."""
    if schema is None:
        return "null"
    parts = [f'"type":"{schema.type.value}"']
    match schema.type:
        case Type.ARRAY:
            parts.append(f'"items":{schema_text(schema.value_schema, writing)}')
        case Type.MAP:
            parts.append(f'"keys":{schema_text(schema.key_schema, writing)}')
            parts.append(f'"values":{schema_text(schema.value_schema, writing)}')
        case Type.STRUCT:
            fields = (
                f'{schema_text(each.schema, writing)[:-1]},"field":{quoted(each.name)}}}'
                for each in schema.fields
            )
            parts.append(f'"fields":[{",".join(fields)}]')
    parts.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        parts.append(f'"name":{quoted(schema.name)}')
    if schema.version is not None:
        parts.append(f'"version":{schema.version}')
    if schema.doc is not None:
        parts.append(f'"doc":{quoted(schema.doc)}')
    if schema.parameters is not None:
        pairs = (f"{quoted(name)}:{quoted(value)}" for name, value in schema.parameters.items())
        parts.append(f'"parameters":{{{",".join(pairs)}}}')
    if schema.default is not None:
        parts.append(f'"default":{writing.writer(schema)(schema.default)}')
    return f"{{{','.join(parts)}}}"


def schema_of_json(given: Any, reading: Reading) -> Schema | None:
    """Return the schema that a parsed JSON value describes. Raises DataError."""
    if given is None:
        return None
    found = given.get("type") if isinstance(given, dict) else None
    if not isinstance(found, str):
        raise DataError("Schema must contain 'type' field")
    type_ = _TYPES.get(found)
    if type_ is None:
        raise DataError(f"Unknown schema type: {found}")
    schema = Schema(type_, **_inner(type_, given, reading), **_more(given))
    if "default" not in given:
        return schema
    default = replace(reading, refuses_nulls=True).reader(schema)(given["default"])
    validate_value(schema, default, "default value")
    return replace(schema, default=default)


def _inner(type_: Type, given: dict[str, Any], reading: Reading) -> dict[str, Any]:
    match type_:
        case Type.ARRAY:
            problem = "Array schema did not specify the element type"
            return {"value_schema": _required(given, "items", problem, reading)}
        case Type.MAP:
            return {
                "key_schema": _required(given, "keys", "Map schema did not specify the key type", reading),
                "value_schema": _required(
                    given, "values", "Map schema did not specify the value type", reading
                ),
            }
        case Type.STRUCT:
            return {"fields": _fields(given.get("fields"), reading)}
    return {}


def _required(given: dict[str, Any], name: str, problem: str, reading: Reading) -> Schema:
    found = schema_of_json(given.get(name), reading)
    if found is None:
        raise DataError(problem)
    return found


def _fields(given: Any, reading: Reading) -> Any:
    if not isinstance(given, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields: dict[str, Schema] = {}
    for each in given:
        name = each.get("field") if isinstance(each, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        if not name:
            raise DataError("fieldName cannot be null.")
        if name in fields:
            raise DataError(f"Cannot create field because of field name duplication {name}")
        schema = schema_of_json(each, reading)
        assert schema is not None, "an object describes a schema"
        fields[name] = schema
    return Schema.struct(fields).fields


def _more(given: dict[str, Any]) -> dict[str, Any]:
    more: dict[str, Any] = {"optional": given.get("optional") is True}
    for part in ("name", "doc"):
        if isinstance(given.get(part), str):
            more[part] = given[part]
    if given.get("version").__class__ is int:
        more["version"] = wrapped(given["version"], 32)
    parameters = given.get("parameters")
    if isinstance(parameters, dict) and parameters:
        if not all(isinstance(each, str) for each in parameters.values()):
            raise DataError("Schema parameters must have string values.")
        more["parameters"] = parameters
    return more
