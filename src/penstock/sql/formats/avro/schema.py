"""Generation of Avro schemas for columns, equal to those of Connect's AvroData for ksqlDB's types.

Every field is nullable, temporal types and decimals are Connect's logical types, and a MAP is an array of
entries because its keys are nullable too.
"""

from __future__ import annotations

import json
from typing import Any, Final

from penstock.sql.formats.settings import SideFormat
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct

NAMESPACE: Final = "io.confluent.ksql.avro_schemas"
_VALUE_NAME: Final = f"{NAMESPACE}.KsqlDataSourceSchema"
_CONNECT: Final = "org.apache.kafka.connect.data"
_SIMPLE: Final[dict[SqlType, str]] = {
    types.BOOLEAN: "boolean",
    types.INTEGER: "int",
    types.BIGINT: "long",
    types.DOUBLE: "double",
    types.STRING: "string",
    types.BYTES: "bytes",
}
_TEMPORAL: Final[dict[SqlType, tuple[str, str, str]]] = {
    types.TIME: ("int", "Time", "time-millis"),
    types.DATE: ("int", "Date", "date"),
    types.TIMESTAMP: ("long", "Timestamp", "timestamp-millis"),
}


def key_schema_name(source: str) -> str:
    """The name of the record of a source's key. For MY_TABLE it is MyTableKey."""
    camel = "".join(word[:1].upper() + word[1:].lower() for word in source.split("_"))
    return f"{NAMESPACE}.{camel}Key"


def schema_text(chosen: SideFormat) -> str:
    """Generate the schema to register for a side's columns."""
    name = chosen.full_name or _VALUE_NAME
    if chosen.is_alone:
        schema = _base(chosen.fields[0][1], name, is_root=True)
    else:
        schema = _base(Struct(chosen.fields), name, is_root=True)
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def _nullable(type_: SqlType, name: str) -> list[Any]:
    return ["null", _base(type_, name)]


def _base(type_: SqlType, name: str, *, is_root: bool = False) -> Any:
    """Generate the schema of a non-null type. ``name`` is used if it is or contains a record."""
    if type_ in _SIMPLE:
        return _SIMPLE[type_]
    version = {} if is_root else {"connect.version": 1}
    match type_:
        case types.Decimal(precision, scale):
            parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
            return {
                "type": "bytes",
                "scale": scale,
                "precision": precision,
                **version,
                "connect.parameters": parameters,
                "connect.name": f"{_CONNECT}.Decimal",
                "logicalType": "decimal",
            }
        case Array(element):
            return {"type": "array", "items": _nullable(element, name)}
        case Map(key, value):
            entry = _record(
                name,
                (("key", _nullable(key, f"{name}_MapKey")), ("value", _nullable(value, f"{name}_MapValue"))),
            )
            return {
                "type": "array",
                "items": {**entry, "connect.internal.type": "MapEntry"},
                "connect.name": name,
            }
        case Struct(fields):
            inner = tuple(
                (field.replace(".", "_"), _nullable(each, f"{name}_{field}")) for field, each in fields
            )
            return {**_record(name, inner, has_space=is_root), "connect.name": name}
    kind, connect, logical = _TEMPORAL[type_]
    return {"type": kind, **version, "connect.name": f"{_CONNECT}.{connect}", "logicalType": logical}


def _record(name: str, fields: tuple[tuple[str, Any], ...], *, has_space: bool = True) -> dict[str, Any]:
    """Generate a record. With ``has_space`` it declares its namespace, which nested records inherit."""
    space, _, last = name.rpartition(".")
    made: dict[str, Any] = {"type": "record", "name": last}
    if space and has_space:
        made["namespace"] = space
    made["fields"] = [{"name": field, "type": type_, "default": None} for field, type_ in fields]
    return made
