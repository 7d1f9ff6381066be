"""Schemas of values that have none, such as those of JSON without schemas."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from penstock.connect.data import schema as schemas
from penstock.connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from penstock.connect.data.schema import Schema, Type
from penstock.connect.errors import DataError

_SCALARS: Final[Mapping[type, Schema]] = {
    bool: schemas.OPTIONAL_BOOLEAN,
    int: schemas.OPTIONAL_INT64,
    float: schemas.OPTIONAL_FLOAT64,
    str: schemas.OPTIONAL_STRING,
    bytes: schemas.OPTIONAL_BYTES,
    datetime.date: date_schema(optional=True),
    datetime.time: time_schema(optional=True),
    datetime.datetime: timestamp_schema(optional=True),
}


def inferred(values: Sequence[Any]) -> Schema:
    """Return one schema for maps without one; an entry whose values are all null or empty has no field.

    Raises DataError if there is no such schema, or one of the values is not a map.
    """
    found: Schema | None = None
    for value in values:
        if not isinstance(value, Mapping):
            raise DataError(
                f"a table needs records with fields: expected a map, found {type(value).__name__}"
            )
        found = _common(found, _schema_of(value))
    if found is None:
        raise DataError("a record needs one field at least that is not null")
    return found


def _schema_of(value: Any) -> Schema | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        fields = {str(name): _schema_of(each) for name, each in value.items()}
        known = {name: each for name, each in fields.items() if each is not None}
        return Schema.struct(known, optional=True) if known else None
    if isinstance(value, list | tuple):
        entry: Schema | None = None
        for each in value:
            entry = _common(entry, _schema_of(each))
        return None if entry is None else Schema.array(entry, optional=True)
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and exponent <= 0:
            return decimal_schema(-exponent, optional=True)
    elif (found := _SCALARS.get(type(value))) is not None:
        return found
    raise DataError(f"no column has values such as {value!r} ({type(value).__name__})")


def _common(one: Schema | None, other: Schema | None) -> Schema | None:
    """Return the schema of values that have either: fields of both, and FLOAT64 for numbers of any kind."""
    if one is None or other is None or one == other:
        return one or other
    if one.type is Type.STRUCT and other.type is Type.STRUCT:
        names = dict.fromkeys([*one.by_name, *other.by_name])
        merged = {name: _common(_field(one, name), _field(other, name)) for name in names}
        return Schema.struct({name: each for name, each in merged.items() if each}, optional=True)
    if one.type is Type.ARRAY and other.type is Type.ARRAY:
        return replace(one, value_schema=_common(one.value_schema, other.value_schema))
    numbers = {schemas.OPTIONAL_INT64, schemas.OPTIONAL_FLOAT64}
    if {one, other} <= numbers:
        return schemas.OPTIONAL_FLOAT64
    raise DataError(f"values of one field have different types: {one} and {other}")


def _field(schema: Schema, name: str) -> Schema | None:
    found = schema.by_name.get(name)
    return None if found is None else found.schema
