"""Reads JSON with schemas: each schema becomes a function from parsed JSON to its values.

A value of another type than its schema's is rarely an error to Connect. Jackson gives 0 or false for what is
no number or boolean, the low-order bits of a number that is too large, and null for what is no string.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, TypeAlias

from penstock.connect.data import logical
from penstock.connect.data.json_text import without_schema
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError
from penstock.java.numbers import float32_of_exact, float64, low_bits, wrapped

Read: TypeAlias = Callable[[Any], Any]

_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_INT32: Final = range(-(1 << 31), 1 << 31)
_GROUP: Final = r"[\x00-\x20]*([A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]{2}|[A-Za-z0-9+/]=|==))"
_BASE64_GROUP: Final = re.compile(_GROUP)
_BASE64: Final = re.compile(rf"(?:{_GROUP})*[\x00-\x20]*")


def needs_exact_numbers(schema: Schema | None) -> bool:
    """Whether values of a schema must be parsed with Decimals, since doubles have too few digits for them."""
    if schema is None:
        return False
    if schema.type is Type.FLOAT32 or schema.name == logical.DECIMAL_NAME:
        return True
    parts = (schema.key_schema, schema.value_schema, *(each.schema for each in schema.fields))
    return any(map(needs_exact_numbers, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The settings of a converter for reading values."""

    replaces_nulls: bool
    """Whether a default takes the place of null."""
    refuses_nulls: bool = False
    """Whether null in place of a value of another type is refused where it is required, as in structs."""

    def reader(self, schema: Schema | None) -> Read:
        """Make the function that reads values of a schema. It raises DataError."""
        if schema is None:
            return without_schema
        null = self._null(schema)
        special = _logical(schema)
        read = special or self._plain(schema)

        def read_or_null(value: Any) -> Any:
            return null() if value is None else read(value)

        return read_or_null if special else _expected_first(schema.type, read_or_null)

    def _null(self, schema: Schema) -> Callable[[], Any]:
        """Make the function that reads a null."""
        has_default = schema.default is not None and self.replaces_nulls
        default = schema.default if has_default else None
        if has_default or schema.optional:
            return lambda: default

        def refuse() -> Any:
            raise DataError(f"Invalid null value for required {schema.type.name} field")

        return refuse

    def _plain(self, schema: Schema) -> Read:
        match schema.type:
            case Type.STRUCT:
                return self._struct(schema)
            case Type.ARRAY:
                return self._array(schema)
            case Type.MAP:
                return self._map(schema)
            case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
                return _integer_reader(_BITS[schema.type])
            case Type.FLOAT32:
                return _read_float32
            case Type.FLOAT64:
                return _read_float64
            case Type.BOOLEAN:
                return _read_boolean
            case Type.STRING:
                return self._string(schema)
        return self._bytes(schema)

    def _struct(self, schema: Schema) -> Read:
        inner = replace(self, refuses_nulls=True)
        fields = [(each.name, inner.reader(each.schema)) for each in schema.fields]

        def read(value: Any) -> Struct:
            if value.__class__ is not dict:
                raise DataError(f"Structs should be encoded as JSON objects, but found {value!r}")
            get = value.get
            return Struct.of_values(schema, [read(get(name)) for name, read in fields])

        return read

    def _array(self, schema: Schema) -> Read:
        read_element = self.reader(schema.value_schema)

        def read(value: Any) -> list[Any]:
            elements = value.values() if value.__class__ is dict else value
            if value.__class__ is not list and value.__class__ is not dict:
                return []  # a scalar has no elements to Jackson
            return [read_element(each) for each in elements]

        return read

    def _map(self, schema: Schema) -> Read:
        read_key, read_value = self.reader(schema.key_schema), self.reader(schema.value_schema)

        def read_object(value: Any) -> dict[str, Any]:
            if value.__class__ is not dict:
                raise DataError(f"Maps with names should be encoded as JSON objects, but found {value!r}")
            return {name: read_value(each) for name, each in value.items()}

        def read_pairs(value: Any) -> dict[Any, Any]:
            if value.__class__ is not list:
                raise DataError(f"Maps with other keys should be encoded as JSON arrays, but found {value!r}")
            found = {}
            for pair in value:
                if pair.__class__ is not list or len(pair) != 2:
                    raise DataError(f"Found invalid map entry {pair!r}, expected an array of key and value")
                key = read_key(pair[0])
                if isinstance(key, list | dict):
                    raise DataError(f"{key!r} cannot be the key of a map in Python")
                found[key] = read_value(pair[1])
            return found

        has_names = schema.key_schema is not None and schema.key_schema.type is Type.STRING
        return read_object if has_names else read_pairs

    def _string(self, schema: Schema) -> Read:
        is_refused = self.refuses_nulls and not schema.optional

        def read(value: Any) -> str | None:
            if value.__class__ is str:
                found: str = value
                return found
            if is_refused:
                raise DataError(f"Invalid value for required STRING field: {value!r}")
            return None

        return read

    def _bytes(self, schema: Schema) -> Read:
        is_refused = self.refuses_nulls and not schema.optional

        def read(value: Any) -> bytes | None:
            if value.__class__ is str:
                return decoded(value)
            if is_refused:
                raise DataError(f"Invalid value for required BYTES field: {value!r}")
            return None

        return read


def _expected_first(type_: Type, read_other: Read) -> Read:
    """Make a function that returns the expected values of simple types at once, to save calls."""
    match type_:
        case Type.STRING:

            def read(value: Any) -> Any:
                return value if value.__class__ is str else read_other(value)

        case Type.FLOAT64:

            def read(value: Any) -> Any:
                return value if value.__class__ is float and value else read_other(value)

        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            low, high = -(1 << (_BITS[type_] - 1)), (1 << (_BITS[type_] - 1)) - 1

            def read(value: Any) -> Any:
                return value if value.__class__ is int and low <= value <= high else read_other(value)

        case _:
            return read_other
    return read


def _integer_reader(bits: int) -> Read:
    def read(value: Any) -> int:
        if value.__class__ is int:
            return wrapped(value, bits)
        if isinstance(value, float):
            value = Decimal(value) if math.isfinite(value) else 0  # 1e999 has only zeros as low-order bits
        return low_bits(value, bits) if isinstance(value, Decimal) else 0

    return read


def _read_float64(value: Any) -> float:
    if value.__class__ is float:
        number: float = value
        return number + 0.0  # Java parses it by way of BigDecimal, which has no negative zero
    return float64(value) + 0.0 if value.__class__ is int or isinstance(value, Decimal) else 0.0


def _read_float32(value: Any) -> float:
    return float32_of_exact(value) + 0.0 if value.__class__ is int or isinstance(value, Decimal) else 0.0


def _read_boolean(value: Any) -> bool:
    return value is True


def _logical(schema: Schema) -> Read | None:
    match schema.name:
        case logical.DECIMAL_NAME:
            return _decimal_reader(schema)
        case logical.DATE_NAME:
            return _number_reader(schema, _INT32, logical.date_of)
        case logical.TIME_NAME:
            return _number_reader(schema, _INT32, logical.time_of)
        case logical.TIMESTAMP_NAME:
            return _number_reader(schema, None, logical.timestamp_of)
    return None


def _decimal_reader(schema: Schema) -> Read:
    def read(value: Any) -> Decimal:
        if value.__class__ is int or isinstance(value, Decimal):
            number = Decimal(value)
            return number if number else number.copy_abs()
        if value.__class__ is str:
            return logical.decimal_of_bytes(decoded(value), logical.scale_parameter(schema))
        raise DataError(f"Invalid value for Decimal: {value!r}, expected a number or base64")

    return read


def _number_reader(schema: Schema, valid: range | None, make: Callable[[int], Any]) -> Read:
    def read(value: Any) -> Any:
        if value.__class__ is not int or (valid is not None and value not in valid):
            raise DataError(f"Invalid value for {schema.name}: {value!r}, expected an integer")
        return make(wrapped(value, 64))

    return read


def decoded(text: str) -> bytes:
    """Decode base64 as Jackson does: white space may separate the groups, and each may be padded.

    Raises DataError.
    """
    if len(text) % 4 == 0 and text.isalnum() and text.isascii():
        return base64.b64decode(text)
    if _BASE64.fullmatch(text) is None:
        raise DataError(f"Invalid bytes field: {text!r}, expected base64")
    return b"".join(base64.b64decode(group) for group in _BASE64_GROUP.findall(text))
