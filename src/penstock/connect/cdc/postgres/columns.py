"""Columns' schemas, and the functions that turn PostgreSQL's texts into values, as Debezium 3.6.1 has them.

Pure. A `ColumnType` is chosen once per column, by type and modifier; rows then call `convert` only.

Differences from Debezium, all on purpose: ``name`` columns keep their text (null there), numeric keeps a
negative scale (2046 for -2 there), times in arrays keep their microseconds, arrays of bit(n) are left out (a
column of nulls there), and geometric types of ``include.unknown.datatypes`` keep the server's text. In
``time.precision.mode`` connect, values outside the years 1 to 9999 become null, and 24:00:00 becomes
00:00:00, for Python's types end there.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from penstock.connect.cdc.column_type import ColumnType
from penstock.connect.cdc.modes import BinaryMode
from penstock.connect.cdc.postgres.catalog import Catalog, PostgresType
from penstock.connect.cdc.postgres.containers import Elements, read_array
from penstock.connect.cdc.postgres.scalars import (
    binary,
    bits,
    hstore,
    hstore_json,
    interval,
    money,
    numeric,
    point,
)
from penstock.connect.cdc.postgres.settings import HstoreMode, ValueSettings
from penstock.connect.cdc.postgres.times import (
    date_type,
    time_type,
    timestamp_type,
    timestamptz_type,
    timetz_type,
)
from penstock.connect.cdc.postgres.value_types import ValueType, bound, is_true, strings
from penstock.connect.data.logical import DATE_NAME
from penstock.connect.data.schema import BOOLEAN, FLOAT32, FLOAT64, INT16, INT32, INT64, Schema, Type
from penstock.connect.errors import DataError

_PLAIN: Final[dict[str, ValueType]] = {
    "bool": ValueType(BOOLEAN, is_true, False),
    "int2": ValueType(INT16, int, 0),
    "int4": ValueType(INT32, int, 0),
    "int8": ValueType(INT64, int, 0),
    "oid": ValueType(INT64, int, 0),
    "float4": ValueType(FLOAT32, lambda text: _float32(text), 0.0),
    "float8": ValueType(FLOAT64, float, 0.0),
    "uuid": strings("io.debezium.data.Uuid"),
    "json": strings("io.debezium.data.Json"),
    "jsonb": strings("io.debezium.data.Json"),
    "xml": strings("io.debezium.data.Xml"),
    "tsvector": strings("io.debezium.data.Tsvector"),
    "ltree": strings("io.debezium.data.Ltree"),
    **dict.fromkeys(
        [
            *["text", "varchar", "bpchar", "char", "name", "citext", "isbn", "inet", "cidr", "macaddr"],
            *["macaddr8", "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"],
        ],
        strings(),
    ),
}
_BY_SETTINGS: Final[dict[str, Callable[[ValueSettings, int], ValueType]]] = {
    "numeric": numeric,
    "money": money,
    "bytea": binary,
    "bit": bits,
    "varbit": bits,
    "date": date_type,
    "time": time_type,
    "timetz": timetz_type,
    "timestamp": timestamp_type,
    "timestamptz": timestamptz_type,
    "interval": interval,
    "point": point,
    "hstore": hstore,
}
_NO_ARRAYS: Final = {"money", "name", "interval", "bit", "varbit", "xml", "point", "refcursor"}
"""Types whose arrays Debezium leaves out; so do we, for equal schemas."""


def column_type(catalog: Catalog, settings: ValueSettings, oid: int, modifier: int) -> ColumnType | None:
    """The type of a column by its type's oid and modifier; None if such columns are left out."""
    while catalog.types[oid].kind == "d":
        domain = catalog.types[oid]
        oid, modifier = domain.base_oid, domain.base_modifier if modifier == -1 else modifier
    found = _value_type(catalog, settings, catalog.types[oid], modifier)
    if found is None:
        return None
    unchanged = _unchanged(catalog, settings, catalog.types[oid], found.schema)
    return ColumnType(found.schema, found.convert, found.fallback, unchanged)


def _value_type(
    catalog: Catalog, settings: ValueSettings, kind: PostgresType, modifier: int
) -> ValueType | None:
    if kind.is_array:
        return _array(catalog, settings, catalog.types[kind.element_oid], modifier)
    if kind.kind == "e":
        return strings("io.debezium.data.Enum", {"allowed": ",".join(kind.labels)})
    if kind.name in _PLAIN:
        return _PLAIN[kind.name]
    if kind.name in _BY_SETTINGS:
        return _BY_SETTINGS[kind.name](settings, modifier)
    return _unknown(settings) if settings.include_unknown_datatypes else None


def _unknown(settings: ValueSettings) -> ValueType:
    """A type without a schema of its own: the bytes of its text."""
    as_binary = binary(settings)
    return replace(as_binary, convert=lambda text: as_binary.convert("\\x" + text.encode().hex()))


def _array(
    catalog: Catalog, settings: ValueSettings, element: PostgresType, modifier: int
) -> ValueType | None:
    if element.name in _NO_ARRAYS and element.kind == "b":
        return None
    is_known = element.kind != "d" and (
        element.kind == "e" or element.name in _PLAIN or element.name in _BY_SETTINGS
    )
    if is_known:
        of_element = _value_type(catalog, settings, element, modifier)
    else:
        of_element = _unknown(settings) if settings.include_unknown_datatypes else None
    if of_element is None:
        return None
    nullable = is_known and element.kind != "e" and element.name not in ("isbn",)
    element_schema = of_element.schema.as_optional() if nullable else of_element.schema
    delimiter = ";" if element.name == "box" else ","
    convert = bound(of_element.convert, element_schema)
    return ValueType(
        Schema.array(element_schema),
        lambda text: _elements(read_array(text, delimiter), convert, nullable),
        [],
    )


def _elements(elements: Elements, convert: Callable[[str], Any], nullable: bool) -> list[Any]:
    """The values of an array; those of further dimensions are null, as Debezium has them."""
    if not nullable and None in elements:
        raise DataError("an element is NULL, which the array's schema does not allow")
    return [convert(each) if isinstance(each, str) else None for each in elements]


def _unchanged(catalog: Catalog, settings: ValueSettings, kind: PostgresType, schema: Schema) -> Any:
    """Debezium's placeholder for a value that an update did not change; None if the schema has none."""
    placeholder = settings.unavailable_value_placeholder
    text = placeholder.decode(errors="replace")
    if kind.name == "hstore":
        return {text: text} if settings.hstore is HstoreMode.MAP else hstore_json({text: text})
    if kind.is_array and schema.value_schema is not None:
        return _unchanged_array(catalog.types[kind.element_oid].name, schema.value_schema, placeholder)
    if schema.type is Type.STRING:
        return text
    return placeholder if kind.name == "bytea" and settings.binary is BinaryMode.BYTES else None


def _unchanged_array(element: str, schema: Schema, placeholder: bytes) -> Any:
    if element in ("text", "varchar", "bpchar", "json", "jsonb"):
        return [placeholder.decode(errors="replace")]
    if element == "bytea" and schema.type is Type.BYTES:
        return [placeholder]
    is_number = schema.type in (Type.INT32, Type.INT64) and schema.name != DATE_NAME
    if element in ("int4", "date", "int8") and is_number:
        return [each - 256 if each > 127 else each for each in placeholder]
    if element == "uuid":
        digest = hashlib.md5(placeholder, usedforsecurity=False).digest()
        return [str(uuid.UUID(bytes=digest, version=3))]
    return None


def _float32(text: str) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", float(text)))
    return float(rounded)
