"""Values of one type as another, as Java casts numbers, parses texts and prints values."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from penstock.connect.data.logical import (
    DATE_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    days_of,
    epoch_millis,
    millis_of_day,
)
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.values import value_text
from penstock.connect.definitions.config_types import INTEGER, SPACE
from penstock.connect.errors import DataError
from penstock.connect.transforms.fields.part import java_class
from penstock.java.numbers import (
    float32,
    float32_of_exact,
    float64,
    low_bits,
    parse_double,
    saturated,
    wrapped,
)

_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_INPUT_TYPES: Final = (*_BITS, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING, Type.BYTES)
_TYPES: Final[dict[type, Type]] = {
    bool: Type.BOOLEAN,
    int: Type.INT64,
    float: Type.FLOAT64,
    str: Type.STRING,
    bytes: Type.BYTES,
    list: Type.ARRAY,
    dict: Type.MAP,
}
"""The types of values without a schema. Logical types have none, as in Connect."""
_NUMBERS: Final[dict[str, Callable[[Any], int]]] = {
    DATE_NAME: days_of,
    TIME_NAME: millis_of_day,
    TIMESTAMP_NAME: epoch_millis,
}
"""Functions from the values of logical types to the numbers that stand for them in messages."""
OUTPUT_TYPES: Final = (*_BITS, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING)
"""The types to which values can be cast."""

Caster = Callable[[Any], Any]


def type_without_schema(value: Any) -> Type | None:
    """Return the type of a value that has no schema; None for a value that only a schema explains."""
    return _TYPES.get(type(value))


def names_of(types: tuple[Type, ...]) -> str:
    """List types as Java prints a set of them."""
    return f"[{', '.join(each.name for each in types)}]"


def caster(schema: Schema, target: Type) -> Caster:
    """Return a function that casts values with this schema, except None. It raises DataError."""
    number = _NUMBERS.get(schema.name or "")

    def cast(value: Any) -> Any:
        _check_input(schema.type)
        if target is Type.STRING:
            return value_text(schema, value)
        return _cast(value if number is None else number(value), schema, target)

    return cast


def cast_without_schema(value: Any, target: Type) -> Any:
    """Cast a value that has no schema. Raises DataError."""
    found = type_without_schema(value)
    if found is None:
        raise DataError(
            f"Cast transformation was passed a value of type class {java_class(value)} which is not "
            "supported by Connect's data API"
        )
    _check_input(found)
    return value_text(None, value) if target is Type.STRING else _cast(value, None, target)


def _check_input(type_: Type) -> None:
    if type_ not in _INPUT_TYPES:
        raise DataError(
            f"Cast transformation does not support casting from {type_.name}; supported types are "
            f"{names_of(_INPUT_TYPES)}"
        )


def _cast(value: Any, schema: Schema | None, target: Type) -> Any:
    if not isinstance(value, int | float | Decimal | str):
        raise DataError(f"Unexpected type in Cast transformation: class {java_class(value, schema)}")
    if target is Type.BOOLEAN:
        if isinstance(value, str):
            return value.lower() == "true"
        return value if isinstance(value, bool) else bool(_integer(value, 64))
    return _text_number(value, target) if isinstance(value, str) else _number(value, target)


def _number(value: Any, target: Type) -> int | float:
    match target:
        case Type.FLOAT32:
            return float32(value) if isinstance(value, float) else float32_of_exact(value)
        case Type.FLOAT64:
            return float64(value)
        case Type.INT8 | Type.INT16:
            return wrapped(_integer(value, 32), _BITS[target])
        case _:
            return _integer(value, _BITS[target])


def _integer(value: float | Decimal, bits: int) -> int:
    """Cast a number to 32 or 64 bits. Java casts to fewer bits from these 32."""
    return saturated(value, bits) if isinstance(value, float) else low_bits(value, bits)


def _text_number(text: str, target: Type) -> int | float:
    """Parse a number as the Java class of its type does. Raises DataError."""
    if (bits := _BITS.get(target)) is not None:
        if INTEGER.fullmatch(text) and -(1 << bits - 1) <= (number := int(text)) < 1 << bits - 1:
            return number
    elif (double := parse_double(trimmed := text.strip(SPACE))) is not None:
        return double if target is Type.FLOAT64 else _nearest_float32(double, trimmed)
    raise DataError(f"Value ({text}) was out of range for requested data type")


def _nearest_float32(double: float, text: str) -> float:
    """Round a number in a text once, and not first to a double."""
    if not math.isfinite(double) or not double or "x" in text.lower():
        return float32(double)
    return float32_of_exact(Decimal(text.rstrip("fFdD")))
