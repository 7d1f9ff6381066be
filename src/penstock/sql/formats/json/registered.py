"""The format JSON_SR: JSON prefixed by the ID of a JSON schema.

The schema generated for columns equals that of Connect's JsonSchemaData. A MAP is an array of objects with
`key` and `value`, since its keys may be null.
"""

from __future__ import annotations

import json
from typing import Any, Final

from penstock.sql.formats.json import reading as json_reading
from penstock.sql.formats.json import writing as json_writing
from penstock.sql.formats.registry_schemas import Reader, Writer
from penstock.sql.formats.settings import SideFormat
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct

_CONNECT: Final = "org.apache.kafka.connect.data"
_SIMPLE: Final[dict[SqlType, dict[str, Any]]] = {
    types.BOOLEAN: {"type": "boolean"},
    types.INTEGER: {"type": "integer", "connect.type": "int32"},
    types.BIGINT: {"type": "integer", "connect.type": "int64"},
    types.DOUBLE: {"type": "number", "connect.type": "float64"},
    types.STRING: {"type": "string"},
    types.BYTES: {"type": "string", "connect.type": "bytes"},
}
_TEMPORAL: Final[dict[SqlType, str]] = {types.TIME: "Time", types.DATE: "Date", types.TIMESTAMP: "Timestamp"}


def schema_text(chosen: SideFormat) -> str:
    """Generate the schema to register for a side's columns."""
    if chosen.is_alone:
        made = _nullable(chosen.fields[0][1], None)
    else:
        made = _base(Struct(chosen.fields))
    return json.dumps(made, separators=(",", ":"), ensure_ascii=False)


def _nullable(type_: SqlType, index: int | None) -> dict[str, Any]:
    place = {} if index is None else {"connect.index": index}
    return {"oneOf": [{"type": "null"}, _base(type_)], **place}


def _base(type_: SqlType) -> dict[str, Any]:
    if type_ in _SIMPLE:
        return _SIMPLE[type_]
    match type_:
        case types.Decimal(precision, scale):
            return {
                "type": "number",
                "title": f"{_CONNECT}.Decimal",
                "connect.type": "bytes",
                "connect.version": 1,
                "connect.parameters": {"scale": str(scale), "connect.decimal.precision": str(precision)},
            }
        case Array(element):
            return {"type": "array", "items": _nullable(element, None)}
        case Map(key, value):
            entry = {"key": _nullable(key, 0), "value": _nullable(value, 1)}
            return {
                "type": "array",
                "items": {"type": "object", "properties": entry},
                "connect.type": "map",
            }
        case Struct(fields):
            properties = {name: _nullable(each, index) for index, (name, each) in enumerate(fields)}
            return {"type": "object", "properties": properties}
    bits = "int64" if type_ == types.TIMESTAMP else "int32"
    return {
        "type": "integer",
        "title": f"{_CONNECT}.{_TEMPORAL[type_]}",
        "connect.type": bits,
        "connect.version": 1,
    }


def reader(schema: Any, chosen: SideFormat) -> Reader:
    """Build a reader. It ignores the schema and reads the JSON value as it is."""
    if chosen.is_alone:
        read = json_reading.single_reader(*chosen.fields[0], has_entries=True)
    else:
        read = json_reading.ObjectReader(chosen.fields, has_entries=True).read
    return lambda data, at: read(data[at:])


def writer(schema: Any, chosen: SideFormat) -> Writer:
    if chosen.is_alone:
        return json_writing.single_writer(*chosen.fields[0], has_entries=True)
    others = _others(schema, chosen)
    write = json_writing.row_writer((*chosen.fields, *others), has_entries=True)
    nulls = (None,) * len(others)
    return lambda row: write((*row, *nulls))


def _others(schema: Any, chosen: SideFormat) -> tuple[tuple[str, SqlType], ...]:
    """The fields of a *_SCHEMA_ID's schema without a column, which are written as null."""
    if chosen.schema_id is None:
        return ()
    known = {name for name, _ in chosen.fields}
    properties = json.loads(schema.canonical()).get("properties", {})
    return tuple((name, types.STRING) for name in properties if name not in known)
