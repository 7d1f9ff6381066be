"""Mappings of Connect's schemas, as Aiven's and Confluent's connectors make them. Pure."""

from __future__ import annotations

from typing import Any, Final

from penstock.connect.data import logical
from penstock.connect.data.schema import Schema, Type

_TYPES: Final = {
    Type.INT8: "byte",
    Type.INT16: "short",
    Type.INT32: "integer",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.BYTES: "binary",
}
_LOGICAL: Final = {
    logical.DECIMAL_NAME: "double",
    logical.DATE_NAME: "date",
    logical.TIME_NAME: "date",
    logical.TIMESTAMP_NAME: "date",
}
_KEYWORD_MAX: Final = 256
"""Texts that are longer are found by their words only."""


def mapping_of(schema: Schema, *, compact_maps: bool) -> dict[str, Any]:
    """Return the mapping of a schema."""
    if (found := _LOGICAL.get(schema.name or "")) is not None:
        return {"type": found}
    match schema.type:
        case Type.STRUCT:
            return {
                "properties": {
                    each.name: mapping_of(each.schema, compact_maps=compact_maps) for each in schema.fields
                }
            }
        case Type.ARRAY:
            assert schema.value_schema is not None, "arrays have a schema of their elements"
            return mapping_of(schema.value_schema, compact_maps=compact_maps)
        case Type.MAP:
            return _map_mapping(schema, compact_maps)
        case Type.STRING:
            keyword = {"type": "keyword", "ignore_above": _KEYWORD_MAX}
            return {"type": "text", "fields": {"keyword": keyword}}
    mapping: dict[str, Any] = {"type": _TYPES[schema.type]}
    if schema.default is not None and schema.type is not Type.BYTES:
        mapping["null_value"] = schema.default
    return mapping


def _map_mapping(schema: Schema, compact_maps: bool) -> dict[str, Any]:
    """A compact map is an object whose fields are not known; others are lists of pairs."""
    assert schema.key_schema is not None, "maps have a schema of their keys"
    assert schema.value_schema is not None, "maps have a schema of their values"
    if compact_maps and schema.key_schema.type is Type.STRING:
        return {"type": "object"}
    pair = {"key": schema.key_schema, "value": schema.value_schema}
    properties = {name: mapping_of(each, compact_maps=compact_maps) for name, each in pair.items()}
    return {"type": "nested", "properties": properties}
