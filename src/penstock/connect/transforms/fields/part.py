"""A transform of either the keys or the values of records, and the refusals of values that do not fit."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from decimal import Decimal
from typing import Any, Final

from penstock.connect.data.records import ConnectRecord
from penstock.connect.data.schema import Field, Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError
from penstock.connect.transforms.transform import R, Transform

_NUMBERS: Final = {
    Type.INT8: "java.lang.Byte",
    Type.INT16: "java.lang.Short",
    Type.INT32: "java.lang.Integer",
    Type.FLOAT32: "java.lang.Float",
}
_CLASSES: Final[dict[type, str]] = {
    bool: "java.lang.Boolean",
    int: "java.lang.Long",
    float: "java.lang.Double",
    str: "java.lang.String",
    bytes: "[B",
    list: "java.util.ArrayList",
    dict: "java.util.HashMap",
    Struct: "org.apache.kafka.connect.data.Struct",
    Decimal: "java.math.BigDecimal",
    datetime.date: "java.util.Date",
    datetime.time: "java.util.Date",
    datetime.datetime: "java.util.Date",
}


class PartTransform(Transform):
    """Changes either the key or the value of a record; the subclasses of `OnKey` and `OnValue` say which."""

    @abstractmethod
    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> tuple[Schema | None, Any]:
        """Return the schema and value in place of those of the record; the same ones keep the record."""


class OnKey(PartTransform):
    """Changes the key of a record."""

    def apply(self, record: R) -> R | None:
        schema, key = self.change(record.key_schema, record.key, record)
        if key is record.key and schema is record.key_schema:
            return record
        return record.with_key(schema, key)


class OnValue(PartTransform):
    """Changes the value of a record."""

    def apply(self, record: R) -> R | None:
        schema, value = self.change(record.value_schema, record.value, record)
        if value is record.value and schema is record.value_schema:
            return record
        return record.with_value(schema, value)


def require_dict(value: Any, purpose: str) -> dict[str, Any]:
    """Return a value without a schema if it is a dict, or raise DataError."""
    if not isinstance(value, dict):
        found = java_class(value)
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {found}")
    return value


def require_struct(value: Any, schema: Schema, purpose: str) -> Struct:
    """Return a value with a schema if it is a struct, or raise DataError."""
    if not isinstance(value, Struct):
        found = java_class(value, schema)
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {found}")
    return value


def java_class(value: Any, schema: Schema | None = None) -> str:
    """Return the name of the Java class that Connect has for a value, as messages show it."""
    if value is None:
        return "null"
    if schema is not None and type(value) in (int, float) and schema.type in _NUMBERS:
        return _NUMBERS[schema.type]
    return _CLASSES.get(type(value), type(value).__name__)


def filled(schema: Schema, values: list[Any]) -> Struct:
    """Make a struct of a value for each field.

    Raises:
        DataError: a field that needs a value has none. Fields with a default need one too, as in Connect.
    """
    if None in values:
        refuse_nulls(schema, values)
    return Struct.of_values(schema, values)


def refuse_nulls(schema: Schema, values: list[Any]) -> None:
    """Raise DataError if a field that needs a value has none."""
    for field in schema.required:
        if values[field.index] is None:
            refuse_null(field)


def refuse_null(field: Field) -> None:
    """Raise DataError if a field needs a value."""
    if not field.schema.optional:
        type_ = field.schema.type.name
        raise DataError(f'Invalid value: null used for required field: "{field.name}", schema type: {type_}')
