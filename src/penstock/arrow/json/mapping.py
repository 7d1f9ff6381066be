"""Which column a JSON Schema is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock.arrow.encoding import told_at
from penstock.client.settings import ConfigError

JsonValue: TypeAlias = Any
_SIMPLE: Final = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
_TIMES: Final = {"date": pa.date32(), "date-time": pa.timestamp("us", "UTC")}
_LENGTH_MAX: Final = 64


def column_of(schema: JsonValue, resolved: Mapping[str, str]) -> tuple[pa.DataType, frozenset[str]]:
    """The column of a schema, which may refer to ``resolved`` texts, and the paths in it of what may be
    anything and is left as JSON text. Raises ConfigError.
    """
    mapping = _Mapping(schema, {name: json.loads(text) for name, text in resolved.items()})
    kind = mapping.type(schema, "", ())
    if kind is None:
        mapping.texts.add("")
    return kind or pa.string(), frozenset(mapping.texts)


def refuse_unfit(kind: pa.DataType, wanted: pa.DataType, texts: frozenset[str], path: str = "") -> None:
    """Raise ConfigError where documents of a column don't fit a schema's: ``wanted`` and ``texts`` are what
    `column_of` says of that. What the schema does not name may be there.
    """
    if path in texts:
        return
    if pa.types.is_struct(wanted) and pa.types.is_struct(kind):
        for field in wanted:
            if (at := kind.get_field_index(field.name)) >= 0:
                refuse_unfit(kind.field(at).type, field.type, texts, f"{path}.{field.name}")
    elif pa.types.is_list(wanted) and pa.types.is_list(kind):
        refuse_unfit(kind.value_type, wanted.value_type, texts, f"{path}[]")
    elif pa.types.is_map(wanted) and (pa.types.is_map(kind) or pa.types.is_struct(kind)):
        parts = [kind.item_type] if pa.types.is_map(kind) else [field.type for field in kind]
        for part in parts:
            refuse_unfit(part, wanted.item_type, texts, f"{path}{{}}")
    elif not _is_written_as(kind, wanted):
        raise ConfigError(
            f"{told_at(path)} is of type {kind}, which the JSON Schema does not hold: expected {wanted}"
        )


def _is_written_as(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether simple values are written as the schema has them."""
    if pa.types.is_nested(kind) or pa.types.is_nested(wanted):
        return False
    if pa.types.is_boolean(wanted) or pa.types.is_integer(wanted):
        return bool(pa.types.is_boolean(wanted) == pa.types.is_boolean(kind)) and (
            pa.types.is_boolean(kind) or bool(pa.types.is_integer(kind))
        )
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
    if pa.types.is_string(wanted):  # times, decimals and binary are texts as well
        return not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))
    return bool(kind.id == wanted.id or pa.types.is_string(kind))


class _Mapping:
    def __init__(self, root: JsonValue, resolved: Mapping[str, JsonValue]) -> None:
        self._documents = {"": root, **resolved}
        self.texts: set[str] = set()

    def type(self, schema: JsonValue, path: str, inside: tuple[int, ...]) -> pa.DataType | None:
        """None: anything."""
        if not isinstance(schema, dict):
            return None
        if id(schema) in inside or len(inside) > _LENGTH_MAX:
            raise ConfigError(
                f"{_at(path)} contains itself: a column has no such type. Give a reader schema that leaves "
                "the field out, or read the text"
            )
        inside = (*inside, id(schema))
        if "$ref" in schema:
            return self.type(self._target(schema["$ref"], path), path, inside)
        for several in ("oneOf", "anyOf"):
            if isinstance(schema.get(several), list):
                others = [each for each in schema[several] if not _is_null(each)]
                return self.type(others[0], path, inside) if len(others) == 1 else None
        schema = self._merged(schema, path)
        kinds = schema.get("type", "object" if "properties" in schema else _kinds_of_values(schema))
        kinds = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
        if sorted(map(str, kinds)) == ["integer", "number"]:
            kinds = ["number"]
        if len(kinds) != 1:
            return None
        return self._of_kind(str(kinds[0]), schema, path, inside)

    def _of_kind(
        self, kind: str, schema: dict[str, Any], path: str, inside: tuple[int, ...]
    ) -> pa.DataType | None:
        match kind:
            case "object":
                return self._object(schema, path, inside)
            case "array":
                items = schema.get("items")
                return pa.list_(pa.field("element", self._part(items, f"{path}[]", inside)))
            case "string":
                return _TIMES.get(str(schema.get("format")), pa.string())
        return _SIMPLE.get(kind)

    def _object(self, schema: dict[str, Any], path: str, inside: tuple[int, ...]) -> pa.DataType | None:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            return pa.struct(
                [pa.field(name, self._part(of, f"{path}.{name}", inside)) for name, of in properties.items()]
            )
        if isinstance(others := schema.get("additionalProperties"), dict):
            return pa.map_(pa.string(), self._part(others, f"{path}{{}}", inside))
        return None

    def _part(self, schema: JsonValue, path: str, inside: tuple[int, ...]) -> pa.DataType:
        kind = self.type(schema, path, inside)
        if kind is None:
            self.texts.add(path)
        return kind or pa.string()

    def _merged(self, schema: dict[str, Any], path: str) -> dict[str, Any]:
        """With what ``allOf`` adds: of objects the properties, of all else what is not said before."""
        parts = schema.get("allOf")
        if not isinstance(parts, list):
            return schema
        merged = {name: value for name, value in schema.items() if name != "allOf"}
        for part in parts:
            if isinstance(part, dict) and "$ref" in part:
                part = self._target(part["$ref"], path)
            if not isinstance(part, dict):
                continue
            part = self._merged(part, path)
            properties = {**merged.get("properties", {}), **part.get("properties", {})}
            merged = {**part, **merged}
            if properties:
                merged["properties"] = properties
        return merged

    def _target(self, reference: JsonValue, path: str) -> JsonValue:
        name, _, pointer = str(reference).partition("#")
        found = self._documents.get(name)
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            else:
                found = found.get(step) if isinstance(found, dict) else None
        if found is None:
            raise ConfigError(
                f"{_at(path)} refers to {reference!r}: expected '#/…' or a reference of the schema"
            )
        return found


def _kinds_of_values(schema: dict[str, Any]) -> list[str]:
    """Of a schema that names values and no type."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return sorted({names.get(type(value), "object") for value in values}) if isinstance(values, list) else []


def _is_null(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _at(path: str) -> str:
    return f"field '{path.lstrip('.')}' of the JSON Schema" if path else "the JSON Schema"
