"""Translates JSON Schemas to Connect's schemas, with the keywords that Confluent's converter has added."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from penstock.connect.converters.json_schema import settings as keywords
from penstock.connect.converters.json_schema.reading import SchemaReading
from penstock.connect.converters.json_schema.settings import JsonSchemaSettings
from penstock.connect.data.schema import STRING, Schema, Type
from penstock.connect.data.validation import validate_value
from penstock.connect.errors import DataError
from penstock.registry.formats.json_schema.drafts import draft_of
from penstock.registry.formats.json_schema.loader import look_up, resolver_of, within
from penstock.registry.formats.json_schema.schema import JsonSchema
from penstock.registry.formats.json_text import read

if TYPE_CHECKING:
    from referencing._core import Resolver

Json: TypeAlias = Any

_NUMBERS: Final = {
    "int8": Type.INT8,
    "int16": Type.INT16,
    "int32": Type.INT32,
    "int64": Type.INT64,
    "float32": Type.FLOAT32,
    "float64": Type.FLOAT64,
    "bytes": Type.BYTES,
}
_UNIONS: Final = ("oneOf", "anyOf")


def connect_schema(found: JsonSchema, settings: JsonSchemaSettings, version: int | None = None) -> Schema:
    """Return the schema for a JSON Schema; ``version`` is the one of its subject. Raises DataError."""
    document = read(found.canonical())
    place = _Place(document, resolver_of(document, found.resolved))
    return _Translation(settings, draft_of(document)).schema(place, version=version)


class _Place(NamedTuple):
    """A schema inside a document, and the resolver of its references."""

    given: Json
    resolver: Resolver[Json]


@dataclass(slots=True)
class _Translation:
    settings: JsonSchemaSettings
    draft: Any
    within: list[int] = field(default_factory=list)

    def schema(self, place: _Place, *, optional: bool = False, version: int | None = None) -> Schema:
        """Translate a schema that a document has at a place."""
        given = place.given
        if not isinstance(given, dict):
            raise DataError(f"Unsupported JSON Schema {given!r}: it allows anything or nothing")
        if id(given) in self.within:
            raise DataError("the JSON Schema contains itself, which a schema of Connect cannot here")
        self.within.append(id(given))
        try:
            return self._translated(self._inside(place), optional, version)
        finally:
            self.within.pop()

    def _inside(self, place: _Place) -> _Place:
        return _Place(place.given, within(self.draft, place.given, place.resolver))

    def _translated(self, place: _Place, optional: bool, version: int | None) -> Schema:
        given = place.given
        if isinstance(given.get("$ref"), str):
            return self.schema(self._target(place), optional=optional, version=version)
        if isinstance(given.get("allOf"), list):
            return self._all_of(place, optional)
        for keyword in _UNIONS:
            if isinstance(given.get(keyword), list):
                return self._union(place, given[keyword], optional, version)
        types = given.get("type")
        if isinstance(types, list):
            return self._union(place, [{**given, "type": each} for each in types], optional, version)
        return self._described(self._simple(place), given, optional, version)

    def _target(self, place: _Place) -> _Place:
        reference = place.given["$ref"]
        try:
            found = look_up(place.resolver, reference)
        except LookupError:
            raise DataError(f"the reference {reference!r} of the JSON Schema leads nowhere") from None
        return _Place(found.contents, found.resolver)

    def _union(self, place: _Place, members: list[Json], optional: bool, version: int | None) -> Schema:
        parts = [_Place(each, place.resolver) for each in members]
        if len(parts) == 1 and self.settings.flattens_unions:
            return self.schema(parts[0])
        others = [each for each in parts if not _is_null(each.given)]
        if len(parts) == 2 and len(others) == 1:
            return self.schema(others[0], optional=True, version=version)
        fields = {
            f"{keywords.UNION_FIELD}{index}": self.schema(each, optional=True)
            for index, each in enumerate(others)
        }
        made = Schema.struct(fields, name=keywords.UNION, optional=len(others) < len(parts))
        return self._described(made, place.given, optional, version)

    def _all_of(self, place: _Place, optional: bool) -> Schema:
        """Join the properties of all parts; without any, take the part that is no limit on another."""
        given = place.given
        parts = [_Place(each, place.resolver) for each in given["allOf"]]
        own = {name: value for name, value in given.items() if name != "allOf"}
        properties: dict[str, tuple[_Place, bool]] = {}
        for part in [_Place(own, place.resolver), *parts]:
            properties |= dict(self._properties(part))
        if properties:
            fields = {name: self._field(each, needed) for name, (each, needed) in properties.items()}
            return Schema.struct(fields, optional=optional)
        candidates = [each for each in [*parts, _Place(own, place.resolver)] if isinstance(each.given, dict)]
        for names in (("oneOf", "anyOf", "allOf"), ("enum",), ("type",), ("$ref",)):
            for each in candidates:
                if any(name in each.given for name in names):
                    return self.schema(each, optional=optional)
        raise DataError("Unsupported criterion allOf: its parts have neither properties nor a type")

    def _properties(self, place: _Place) -> Iterator[tuple[str, tuple[_Place, bool]]]:
        given = place.given
        if not isinstance(given, dict):
            return
        if isinstance(given.get("$ref"), str):
            yield from self._properties(self._target(place))
        for each in given.get("allOf", ()):
            yield from self._properties(_Place(each, place.resolver))
        required = given.get("required", ())
        for name, each in _in_order(given.get("properties", {})):
            yield name, (_Place(each, place.resolver), name in required)

    def _field(self, place: _Place, required: bool) -> Schema:
        return self.schema(place, optional=self.settings.optional_unless_required and not required)

    def _simple(self, place: _Place) -> Schema:
        given = place.given
        if "enum" in given or "const" in given:
            return self._enum(given)
        match given.get("type"):
            case "boolean":
                return Schema(Type.BOOLEAN)
            case "integer" | "number":
                return self._number(given)
            case "string":
                return Schema(Type.BYTES if given.get(keywords.TYPE) == "bytes" else Type.STRING)
            case "array":
                return self._array(place)
        if given.get("type") == "object" or "properties" in given:
            return self._object(place)
        raise DataError(f"Unsupported JSON Schema with the keywords {sorted(given)}")

    def _enum(self, given: dict[str, Json]) -> Schema:
        values = given["enum"] if "enum" in given else [given["const"]]
        if given.get("type") in ("integer", "number"):
            return self._number(given)
        symbols = [keywords.NULL if each is None else _text(each) for each in values]
        parameters = {keywords.ENUM: "", **{f"{keywords.ENUM}.{each}": each for each in symbols}}
        return Schema(Type.STRING, parameters=parameters)

    def _number(self, given: dict[str, Json]) -> Schema:
        found = given.get(keywords.TYPE, "int64" if given["type"] == "integer" else "float64")
        if found not in _NUMBERS:
            raise DataError(f"Unsupported {keywords.TYPE} {found!r} of a number")
        return Schema(_NUMBERS[found])

    def _array(self, place: _Place) -> Schema:
        given = place.given
        items = given.get("items")
        if not isinstance(items, dict):
            raise DataError("Array schema did not specify the items type")
        if given.get(keywords.TYPE) == "map" and isinstance(items.get("properties"), dict):
            parts = [items["properties"].get(name) for name in (keywords.KEY, keywords.VALUE)]
            key, value = (self.schema(_Place(each, place.resolver)) for each in parts)
            return Schema.map(key, value)
        return Schema.array(self.schema(_Place(items, place.resolver)))

    def _object(self, place: _Place) -> Schema:
        given = place.given
        if given.get(keywords.TYPE) == "map":
            return Schema.map(STRING, self.schema(_Place(given.get("additionalProperties"), place.resolver)))
        fields = {name: self._field(each, needed) for name, (each, needed) in self._properties(place)}
        return Schema.struct(fields)

    def _described(self, made: Schema, given: dict[str, Json], optional: bool, version: int | None) -> Schema:
        """Add what the keywords of a schema say besides its type."""
        more: dict[str, Any] = {}
        if made.name is None and isinstance(given.get("title"), str):
            more["name"] = given["title"]
        if isinstance(given.get("description"), str):
            more["doc"] = given["description"]
        more["version"] = (
            version if (own_version := _whole(given.get(keywords.VERSION))) is None else own_version
        )
        parameters = given.get(keywords.PARAMETERS)
        if isinstance(parameters, dict):
            more["parameters"] = {**(made.parameters or {}), **parameters}
        made = replace(made, optional=made.optional or optional, **more)
        if "default" not in given or made.type is Type.STRUCT:
            return made  # the default of a struct would have a schema without the default
        default = SchemaReading(replaces_nulls=True).reader(made)(given["default"])
        validate_value(made, default, "default value")
        return replace(made, default=default)


def _in_order(properties: dict[str, Json]) -> list[tuple[str, Json]]:
    """Sort properties by the places of the fields; those without one keep the place that they have."""
    places = {}
    for place, (name, each) in enumerate(properties.items()):
        found = _whole(each.get(keywords.INDEX)) if isinstance(each, dict) else None
        places[name] = place if found is None else found
    return sorted(properties.items(), key=lambda pair: places[pair[0]])


def _is_null(given: Json) -> bool:
    return isinstance(given, dict) and given.get("type") == "null"


def _whole(value: Json) -> int | None:
    """Return a number without its fraction; None if the value is none."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return int(value) if is_number else None


def _text(value: Json) -> str:
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
