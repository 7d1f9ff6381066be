"""Columns to JSON documents, and the JSON Schema of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

_JSON_TYPES: Final = {
    "bool": "boolean",
    "float": "number",
    "double": "number",
    "string": "string",
    "date32[day]": "string",
}


def documents(column: pa.Array) -> pa.Array:
    """JSON: times as ISO 8601, decimals as texts, binary as base64."""
    values: Iterable[Any] = column.to_pylist(maps_as_pydicts="strict")
    return pa.array([msgspec.json.encode(value) for value in values], pa.binary())


def schema_of(kind: pa.DataType, name: str) -> dict[str, Any]:
    """The JSON Schema of what `documents` makes of a column."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": name, **_json_type(kind)}


def _json_type(kind: pa.DataType) -> dict[str, Any]:
    """As `documents` writes it. Below the whole everything may be null."""
    if pa.types.is_struct(kind):
        return {"type": "object", "properties": {f.name: _or_null(_json_type(f.type)) for f in kind}}
    if pa.types.is_map(kind):
        return {"type": "object", "additionalProperties": _or_null(_json_type(kind.item_type))}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _or_null(_json_type(kind.value_type))}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    made: dict[str, Any] = {"type": _JSON_TYPES.get(str(kind), "string")}
    if pa.types.is_date32(kind):
        made["format"] = "date"
    elif pa.types.is_timestamp(kind) and kind.tz:
        made["format"] = "date-time"
    return made


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, dict(schema)]}
