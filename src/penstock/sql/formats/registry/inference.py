"""Inference of columns from a schema of the registry, for a CREATE that lists none.

The types are those that ksqlDB infers by way of Connect's converters. A field of an unsupported type is
omitted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from penstock.registry.formats.avro.types import Type
from penstock.sql.formats.avro.reading import is_map
from penstock.sql.formats.errors import FormatError
from penstock.sql.language import types
from penstock.sql.language.errors import SqlError
from penstock.sql.language.types import Array, Map, SqlType, Struct

NameOf = Callable[[str], str]
_CONNECT: Final = "org.apache.kafka.connect.data."
_AVRO: Final[dict[str, SqlType]] = {
    "boolean": types.BOOLEAN,
    "int": types.INTEGER,
    "long": types.BIGINT,
    "float": types.DOUBLE,
    "double": types.DOUBLE,
    "string": types.STRING,
    "enum": types.STRING,
    "bytes": types.BYTES,
    "fixed": types.BYTES,
}
_AVRO_LOGICAL: Final[dict[tuple[str, str], SqlType]] = {
    ("int", "date"): types.DATE,
    ("int", "time-millis"): types.TIME,
    ("long", "timestamp-millis"): types.TIMESTAMP,
}
_CONNECT_TYPES: Final[dict[str, SqlType]] = {
    **dict.fromkeys(("int8", "int16", "int32"), types.INTEGER),
    "int64": types.BIGINT,
    "float32": types.DOUBLE,
    "float64": types.DOUBLE,
    "bytes": types.BYTES,
}
_CONNECT_NAMES: Final[dict[str, SqlType]] = {
    "Date": types.DATE,
    "Time": types.TIME,
    "Timestamp": types.TIMESTAMP,
}


class Unsupported(ValueError):
    """A schema has a type that ksqlDB does not support."""


def struct_of(fields: Mapping[str, Callable[[], SqlType]], name_of: NameOf) -> Struct:
    """Build a STRUCT of the fields with supported types. Raises Unsupported if there are none."""
    made: dict[str, SqlType] = {}
    for name, type_of in fields.items():
        try:
            made[name_of(name)] = type_of()
        except Unsupported:
            continue
    if not made:
        raise Unsupported("a record without fields that ksqlDB has types for")
    return Struct(tuple(made.items()))


def _decimal(precision: Any, scale: Any) -> SqlType:
    try:
        return types.decimal(int(precision), int(scale))
    except (SqlError, TypeError, ValueError) as error:
        raise Unsupported(f"a decimal of precision {precision} and scale {scale} ({error})") from None


def of_avro(of: Type, name_of: NameOf, inside: tuple[Type, ...] = ()) -> SqlType:
    """Convert an Avro type. Raises Unsupported."""
    if of in inside:
        raise Unsupported(f"{of.full_name}, which contains itself")
    inside = (*inside, of)
    match of.kind:
        case "union":
            return _of_union(of, name_of, inside)
        case "record":
            return struct_of(
                {each.name: partial(of_avro, each.type, name_of, inside) for each in of.fields},
                name_of,
            )
        case "map":
            return Map(types.STRING, of_avro(of.items[0], name_of, inside))
        case "array":
            if is_map(of):
                return Map(types.STRING, of_avro(of.items[0].fields[1].type, name_of, inside))
            return Array(of_avro(of.items[0], name_of, inside))
    logical = of.properties.get("logicalType")
    if logical == "decimal":
        return _decimal(of.properties.get("precision"), of.properties.get("scale", 0))
    if of.kind not in _AVRO:
        raise Unsupported(of.kind)
    return _AVRO_LOGICAL.get((of.kind, str(logical)), _AVRO[of.kind])


def _of_union(of: Type, name_of: NameOf, inside: tuple[Type, ...]) -> SqlType:
    others = [each for each in of.items if each.kind != "null"]
    if len(others) == 1:
        return of_avro(others[0], name_of, inside)
    return struct_of(
        {
            each.name.name if each.name is not None else each.kind: partial(of_avro, each, name_of, inside)
            for each in others
        },
        name_of,
    )


def of_json_schema(text: str, name_of: NameOf) -> SqlType:
    """Convert a JSON schema, resolving references within the document. Raises Unsupported."""
    root = json.loads(text)
    return _of_node(root, root, name_of, ())


def _of_node(node: Any, root: Any, name_of: NameOf, inside: tuple[str, ...]) -> SqlType:
    if not isinstance(node, dict):
        raise Unsupported(f"the schema {node!r}")
    if "$ref" in node:
        path = str(node["$ref"])
        if path in inside:
            raise Unsupported(f"{path}, which contains itself")
        return _of_node(_referred(root, path), root, name_of, (*inside, path))
    for choice in ("oneOf", "anyOf"):
        if choice in node:
            return _of_choice(node[choice], root, name_of, inside)
    kind = node.get("type")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        if len(kinds) != 1:
            raise Unsupported(f"a value of {kind}")
        kind = kinds[0]
    match kind:
        case "object":
            return _of_object(node, root, name_of, inside)
        case "array":
            items = node.get("items")
            if node.get("connect.type") == "map" and isinstance(items, dict):
                value = items.get("properties", {}).get("value")
                return Map(types.STRING, _of_node(value, root, name_of, inside))
            return Array(_of_node(items, root, name_of, inside))
    if "enum" in node or "const" in node:
        return types.STRING
    return _of_simple(node, kind)


def _referred(root: Any, path: str) -> Any:
    found = root
    if not path.startswith("#"):
        raise Unsupported(f"the reference {path}")
    for step in filter(None, path[1:].split("/")):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _of_choice(branches: Any, root: Any, name_of: NameOf, inside: tuple[str, ...]) -> SqlType:
    others = [each for each in branches if each != {"type": "null"}]
    if len(others) == 1:
        return _of_node(others[0], root, name_of, inside)
    raise Unsupported(f"a choice of {len(others)} types")


def _of_object(node: Any, root: Any, name_of: NameOf, inside: tuple[str, ...]) -> SqlType:
    if node.get("connect.type") == "map":
        return Map(types.STRING, _of_node(node.get("additionalProperties"), root, name_of, inside))
    properties = node.get("properties", {})
    place = {name: each.get("connect.index", at) for at, (name, each) in enumerate(properties.items())}
    return struct_of(
        {
            name: partial(_of_node, properties[name], root, name_of, inside)
            for name in sorted(properties, key=place.__getitem__)
        },
        name_of,
    )


def _of_simple(node: Any, kind: Any) -> SqlType:
    title = str(node.get("title", ""))
    if title == f"{_CONNECT}Decimal":
        parameters = node.get("connect.parameters", {})
        return _decimal(parameters.get("connect.decimal.precision"), parameters.get("scale"))
    if title.startswith(_CONNECT) and title.removeprefix(_CONNECT) in _CONNECT_NAMES:
        return _CONNECT_NAMES[title.removeprefix(_CONNECT)]
    written = node.get("connect.type")
    if written in _CONNECT_TYPES and (kind != "string" or written == "bytes"):
        return _CONNECT_TYPES[written]
    simple: dict[Any, SqlType] = {
        "boolean": types.BOOLEAN,
        "integer": types.BIGINT,
        "number": types.DOUBLE,
        "string": types.STRING,
    }
    if kind not in simple:
        raise Unsupported(f"the type {kind}")
    return simple[kind]


def columns_of(found: SqlType, single: str | None) -> tuple[tuple[str, SqlType], ...]:
    """The columns of a schema: a struct's fields, or one column ``single`` for an unwrapped value."""
    if single is not None:
        return ((single, found),)
    if not isinstance(found, Struct):
        raise FormatError(
            f"found a schema of {found}, expected a record, or WRAP_SINGLE_VALUE = false for one value"
        )
    return found.fields
