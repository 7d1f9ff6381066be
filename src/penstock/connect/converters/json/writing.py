"""Writes values with schemas as JSON: each schema becomes a function from its values to their text."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from penstock.connect.data import logical
from penstock.connect.data.json_text import base64_text, number_text, quoted, text_of
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError
from penstock.java.numbers import float32, float_text

Write: TypeAlias = Callable[[Any], str]

_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """The settings of a converter for writing values."""

    decimals_are_numbers: bool
    replaces_nulls: bool
    """Whether a default takes the place of null."""

    def writer(self, schema: Schema | None) -> Write:
        """Make the function that writes values of a schema. It raises DataError for values that don't fit."""
        if schema is None:
            return text_of
        write = self._logical(schema) or self._plain(schema)
        null = self._null(schema, write)
        if null is None:
            return write

        def write_or_null(value: Any) -> str:
            return null if value is None else write(value)

        return write_or_null

    def _null(self, schema: Schema, write: Write) -> str | None:
        """The text of a null, if there may be one."""
        if schema.default is not None and self.replaces_nulls:
            return write(schema.default)
        return "null" if schema.optional else None

    def _logical(self, schema: Schema) -> Write | None:
        match schema.name:
            case logical.DECIMAL_NAME:
                return self._decimal(schema)
            case logical.DATE_NAME:
                return _date_writer(schema)
            case logical.TIME_NAME:
                return _number_writer(schema, datetime.time, logical.millis_of_day)
            case logical.TIMESTAMP_NAME:
                return _number_writer(schema, datetime.datetime, logical.epoch_millis)
        return None

    def _decimal(self, schema: Schema) -> Write:
        def write(value: Any) -> str:
            if not isinstance(value, Decimal) or not value.is_finite():
                raise misfit(schema, value)
            if self.decimals_are_numbers:
                return str(value if value else value.copy_abs())  # BigDecimal has no negative zero
            return base64_text(logical.unscaled_bytes(value, logical.scale_parameter(schema)))

        return write

    def _plain(self, schema: Schema) -> Write:
        match schema.type:
            case Type.STRUCT:
                return self._struct(schema)
            case Type.ARRAY:
                return self._array(schema)
            case Type.MAP:
                return self._map(schema)
            case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
                return _integer_writer(schema)
            case Type.FLOAT32 | Type.FLOAT64:
                return _float_writer(schema)
            case Type.BOOLEAN:
                return _boolean_writer(schema)
            case Type.STRING:
                return _string_writer(schema)
        return _bytes_writer(schema)

    def _struct(self, schema: Schema) -> Write:
        fields = [
            (f"{',' if each.index else '{'}{quoted(each.name)}:", self.writer(each.schema))
            for each in schema.fields
        ]
        end = "}" if fields else "{}"
        equal = schema  # the last that was found to be equal, since a comparison takes long

        def write(value: Any) -> str:
            nonlocal equal
            if not isinstance(value, Struct):
                raise misfit(schema, value)
            found = value.schema
            if found is not schema and found is not equal:
                if found != schema:
                    raise DataError(f"Mismatching schema: the struct has {found}, expected {schema}")
                equal = found
            texts = [
                f"{name}{write(each)}" for (name, write), each in zip(fields, value.own_values, strict=True)
            ]
            return f"{''.join(texts)}{end}"

        return write

    def _array(self, schema: Schema) -> Write:
        write_element = self.writer(schema.value_schema)

        def write(value: Any) -> str:
            if not isinstance(value, list | tuple):
                raise misfit(schema, value)
            return f"[{','.join([write_element(each) for each in value])}]"

        return write

    def _map(self, schema: Schema) -> Write:
        write_value = self.writer(schema.value_schema)
        write_key = self.writer(schema.key_schema)
        has_names = schema.key_schema is not None and schema.key_schema.type is Type.STRING
        default_key = schema.key_schema.default if schema.key_schema is not None else None

        def write_object(value: Any) -> str:
            if not isinstance(value, dict):
                raise misfit(schema, value)
            if None in value:  # Jackson writes it as a name
                null = "null" if write_key(None) == "null" else default_key
                value = {null if key is None else key: each for key, each in value.items()}
            return f"{{{','.join([f'{write_key(key)}:{write_value(each)}' for key, each in value.items()])}}}"

        def write_pairs(value: Any) -> str:
            if not isinstance(value, dict):
                raise misfit(schema, value)
            return f"[{','.join([f'[{write_key(key)},{write_value(each)}]' for key, each in value.items()])}]"

        return write_object if has_names else write_pairs


def _integer_writer(schema: Schema) -> Write:
    bits = _BITS[schema.type]
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def write(value: Any) -> str:
        if value.__class__ is int and low <= value <= high:
            return str(value)
        raise misfit(schema, value)

    return write


def _float_writer(schema: Schema) -> Write:
    is_short = schema.type is Type.FLOAT32

    def write(value: Any) -> str:
        if not isinstance(value, float):
            raise misfit(schema, value)
        return number_text(float32(value), float_text) if is_short else number_text(value)

    return write


def _boolean_writer(schema: Schema) -> Write:
    def write(value: Any) -> str:
        if value is True:
            return "true"
        if value is False:
            return "false"
        raise misfit(schema, value)

    return write


def _string_writer(schema: Schema) -> Write:
    def write(value: Any) -> str:
        if not isinstance(value, str):
            raise misfit(schema, value)
        return quoted(value)

    return write


def _bytes_writer(schema: Schema) -> Write:
    def write(value: Any) -> str:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise misfit(schema, value)
        return base64_text(value)

    return write


def _date_writer(schema: Schema) -> Write:
    def write(value: Any) -> str:
        if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
            raise misfit(schema, value)
        return str(logical.days_of(value))

    return write


def _number_writer(schema: Schema, class_: type, number: Callable[[Any], int]) -> Write:
    def write(value: Any) -> str:
        if not isinstance(value, class_):
            raise misfit(schema, value)
        return str(number(value))

    return write


def misfit(schema: Schema, value: Any) -> DataError:
    """Return the error for a value that does not fit its schema."""
    if value is None:
        return DataError(f"null value for {schema}, which is required and has no default value")
    named = f"{schema.name} ({schema.type.name})" if schema.name else schema.type.name
    return DataError(f"Invalid value for {named}: {value!r} ({type(value).__name__})")
