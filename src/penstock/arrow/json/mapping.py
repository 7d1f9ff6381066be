"""Map JSON Schemas to column types."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from penstock.arrow.encoding import at_path
from penstock.client.settings import ConfigError
from penstock.registry.formats.json_schema.drafts import draft_of
from penstock.registry.formats.json_schema.loader import look_up, resolver_of, within
from penstock.registry.formats.json_schema.schema import JsonSchema
from penstock.registry.formats.json_text import read

if TYPE_CHECKING:
    from referencing._core import Resolver

JsonValue: TypeAlias = Any
_SIMPLE: Final = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
_TIMES: Final = {"date": pa.date32(), "date-time": pa.timestamp("us", "UTC")}
_LENGTH_MAX: Final = 64
# Keywords that limit which values a schema allows, and name no type.
_LIMITS: Final = {"required", "not", "minProperties", "maxProperties", "dependentRequired", "dependencies"}
_REMARKS: Final = {"title", "description", "$comment"}


def column_of(schema: JsonSchema) -> tuple[pa.DataType, frozenset[str]]:
    """Return the column type of a schema, and the paths of parts that may be anything. Raises ConfigError.

    Parts that may be anything are kept as JSON text.
    """
    document = read(schema.canonical())
    mapping = _Mapping(document)
    place = _Place(document, resolver_of(document, schema.resolved))
    kind = mapping.type(place, "", ())
    if kind is None:
        mapping.texts.add("")
    return kind or pa.string(), frozenset(mapping.texts)


def refuse_unfit(kind: pa.DataType, wanted: pa.DataType, texts: frozenset[str], path: str = "") -> None:
    """Raise ConfigError if documents of a column don't fit a schema.

    ``wanted`` and ``texts`` are the results of `column_of` for the schema. Fields that the schema does not
    name are allowed.
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
            f"{at_path(path)} is of type {kind}, which the JSON Schema can't hold: expected {wanted}"
        )


def _is_written_as(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether simple values of the column are written as the schema requires."""
    if pa.types.is_nested(kind) or pa.types.is_nested(wanted):
        return False
    if pa.types.is_boolean(wanted) or pa.types.is_integer(wanted):
        return bool(pa.types.is_boolean(wanted) == pa.types.is_boolean(kind)) and (
            pa.types.is_boolean(kind) or bool(pa.types.is_integer(kind))
        )
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
    if pa.types.is_string(wanted):  # times, decimals and binary are texts too
        return not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))
    return bool(kind.id == wanted.id or pa.types.is_string(kind))


class _Place(NamedTuple):
    """A part of a schema, and the resolver for its references."""

    schema: JsonValue
    resolver: Resolver[JsonValue]

    def at(self, schema: JsonValue) -> _Place:
        return _Place(schema, self.resolver)


class _Merged(NamedTuple):
    """The keywords and properties of a schema and of its ``allOf`` parts, each with its place."""

    keywords: dict[str, _Place]
    properties: dict[str, _Place]

    def get(self, keyword: str) -> JsonValue:
        place = self.keywords.get(keyword)
        return None if place is None else place.schema


class _Mapping:
    def __init__(self, document: JsonValue) -> None:
        self._document = document
        self._draft = draft_of(document)
        self.texts: set[str] = set()

    def type(self, place: _Place, path: str, inside: tuple[int, ...]) -> pa.DataType | None:
        """Return the column type of a part, or None if it may be anything."""
        if not isinstance(place.schema, dict):
            return None
        place, inside = self._entered(place, path, inside)
        merged = self._merged(place, path, inside)
        for several in ("oneOf", "anyOf"):
            choices = merged.get(several)
            if isinstance(choices, list):
                others = [each for each in choices if not _is_null(each)]
                if all(_is_limit(each) for each in others):
                    continue
                one = merged.keywords[several].at(others[0])
                return self.type(one, path, inside) if len(others) == 1 else None
        kinds = merged.get("type") or ("object" if merged.properties else _kinds_of_values(merged))
        kinds = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
        if sorted(map(str, kinds)) == ["integer", "number"]:
            kinds = ["number"]
        return self._of_kind(str(kinds[0]), merged, path, inside) if len(kinds) == 1 else None

    def _entered(self, place: _Place, path: str, inside: tuple[int, ...]) -> tuple[_Place, tuple[int, ...]]:
        """Follow references until one leads to a schema. Raises ConfigError for cycles and missing ones."""
        while True:
            schema = place.schema
            if id(schema) in inside or len(inside) > _LENGTH_MAX:
                raise ConfigError(
                    f"{_at(path)} contains itself: a column has no such type. Give a reader schema that "
                    "leaves the field out, or read the text"
                )
            inside = (*inside, id(schema))
            if not isinstance(schema, dict):
                return place, inside
            resolver = place.resolver
            if schema is not self._document:  # its resolver already knows its id
                resolver = within(self._draft, schema, resolver)
            if "$ref" not in schema:
                return _Place(schema, resolver), inside
            try:
                found = look_up(resolver, str(schema["$ref"]))
            except LookupError:
                raise ConfigError(
                    f"{_at(path)} refers to {schema['$ref']!r}: expected '#/…' or a reference of the schema"
                ) from None
            place = _Place(found.contents, found.resolver)

    def _merged(self, place: _Place, path: str, inside: tuple[int, ...]) -> _Merged:
        """Merge the parts of ``allOf``: all properties, and the first of each other keyword."""
        schema = place.schema
        if not isinstance(schema, dict):
            return _Merged({}, {})
        keywords = {name: place.at(value) for name, value in schema.items()}
        properties = {}
        if isinstance(schema.get("properties"), dict):
            properties = {name: place.at(value) for name, value in schema["properties"].items()}
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            entered, within_it = self._entered(place.at(part), path, inside)
            more = self._merged(entered, path, within_it)
            keywords = {**more.keywords, **keywords}
            properties = {**properties, **more.properties}
        return _Merged(keywords, properties)

    def _of_kind(self, kind: str, merged: _Merged, path: str, inside: tuple[int, ...]) -> pa.DataType | None:
        match kind:
            case "object":
                return self._object(merged, path, inside)
            case "array":
                items = merged.keywords.get("items")
                element = self._part(items, f"{path}[]", inside)
                return pa.list_(pa.field("element", element))
            case "string":
                return _TIMES.get(str(merged.get("format")), pa.string())
        return _SIMPLE.get(kind)

    def _object(self, merged: _Merged, path: str, inside: tuple[int, ...]) -> pa.DataType | None:
        if merged.properties:
            fields = merged.properties.items()
            return pa.struct(
                [pa.field(name, self._part(of, f"{path}.{name}", inside)) for name, of in fields]
            )
        if isinstance(merged.get("additionalProperties"), dict):
            others = merged.keywords["additionalProperties"]
            return pa.map_(pa.string(), self._part(others, f"{path}{{}}", inside))
        return None

    def _part(self, place: _Place | None, path: str, inside: tuple[int, ...]) -> pa.DataType:
        kind = None if place is None else self.type(place, path, inside)
        if kind is None:
            self.texts.add(path)
        return kind or pa.string()


def _kinds_of_values(merged: _Merged) -> list[str]:
    """Return the types of the values in a schema that names values but no type."""
    values = merged.get("enum")
    if values is None and "const" in merged.keywords:
        values = [merged.get("const")]
    names = {str: "string", bool: "boolean", int: "integer", Decimal: "number", type(None): "null"}
    return sorted({names.get(type(value), "object") for value in values}) if isinstance(values, list) else []


def _is_limit(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and bool(schema) and schema.keys() <= _LIMITS | _REMARKS


def _is_null(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _at(path: str) -> str:
    return f"field '{path.lstrip('.')}' of the JSON Schema" if path else "the JSON Schema"
