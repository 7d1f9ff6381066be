"""Check that values fit their schemas (ConnectSchema.validateValue)."""

from __future__ import annotations

import datetime
import decimal
from typing import Any, Final

from penstock.connect.data.logical import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

_CLASSES: Final[dict[Type, type]] = {
    Type.INT8: int,
    Type.INT16: int,
    Type.INT32: int,
    Type.INT64: int,
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: bytes,
    Type.ARRAY: list,
    Type.MAP: dict,
    Type.STRUCT: Struct,
}
_LOGICAL_CLASSES: Final[dict[str, type]] = {
    DECIMAL_NAME: decimal.Decimal,
    DATE_NAME: datetime.date,
    TIME_NAME: datetime.time,
    TIMESTAMP_NAME: datetime.datetime,
}
_BITS: Final = {Type.INT8: 7, Type.INT16: 15, Type.INT32: 31, Type.INT64: 63}


def validate_value(schema: Schema, value: Any, location: str = "value") -> None:
    """Check that a value fits its schema, its parts included.

    ``location`` names the value in messages. Raises DataError, which names value, schema and location.
    """
    if value is None:
        if not schema.optional:
            raise DataError(f"null used for required {location}, schema type: {schema.type.name}")
        return
    _validate_class(schema, value, location)
    if schema.type is Type.STRUCT:
        if value.schema != schema:
            raise DataError(f"the struct of {location} has another schema: {value.schema}, expected {schema}")
        validate_struct(value)
    elif schema.type is Type.ARRAY:
        for entry in value:
            validate_value(_required(schema.value_schema, location), entry, f"element of array {location}")
    elif schema.type is Type.MAP:
        for key, entry in value.items():
            validate_value(_required(schema.key_schema, location), key, f"key of map {location}")
            validate_value(_required(schema.value_schema, location), entry, f"value of map {location}")


def validate_struct(struct: Struct) -> None:
    """Check that each field of a struct has a value that fits, or needs none. Raises DataError."""
    for each in struct.schema.fields:
        value = struct.without_default(each.name)
        if value is None and each.schema.default is not None:
            continue
        validate_value(each.schema, value, f'field "{each.name}"')


def _validate_class(schema: Schema, value: Any, location: str) -> None:
    expected = _LOGICAL_CLASSES.get(schema.name or "", _CLASSES[schema.type])
    fits = isinstance(value, expected)
    if fits and expected is int:
        bits = _BITS[schema.type]
        fits = not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
    if not fits or (expected is datetime.date and isinstance(value, datetime.datetime)):
        named = f' "{schema.name}"' if schema.name else ""
        raise DataError(
            f"invalid value for schema{named} with type {schema.type.name}: {value!r} "
            f"({type(value).__name__}) for {location}"
        )


def _required(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataError(f"no schema defined for the parts of {location}")
    return schema
