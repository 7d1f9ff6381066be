"""The types of CSV columns: functions from the text of a field to a value of Connect."""

from __future__ import annotations

import datetime
import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from penstock.connect.data import logical
from penstock.connect.data.schema import (
    OPTIONAL_BOOLEAN,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT8,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    Schema,
)
from penstock.connect.errors import ConfigInvalid

_DECIMAL: Final = re.compile(r"decimal\((\d{1,3})\)")
_DIGITS: Final = Context(prec=4300, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""As many digits as Python reads of an integer; more would cost time that grows with their square."""
_BOOLEANS: Final = {
    "true": True,
    "t": True,
    "1": True,
    "yes": True,
    "false": False,
    "f": False,
    "0": False,
    "no": False,
}


class ColumnType(NamedTuple):
    """A schema, and the function that reads a field; it raises ValueError."""

    schema: Schema
    read: Callable[[str], Any]


def _integer(bits: int) -> Callable[[str], int]:
    valid = range(-(1 << (bits - 1)), 1 << (bits - 1))

    def read(text: str) -> int:
        number = int(_digits(text))
        if number not in valid:
            raise ValueError(f"{number} has more than {bits} bits")
        return number

    return read


def _digits(text: str) -> str:
    """Return the text of a number, in which Python would accept underscores."""
    if "_" in text:
        raise ValueError("no number has an underscore")
    return text


def _float(text: str) -> float:
    return float(_digits(text))


def _float32(text: str) -> float:
    number = _float(text)
    if math.isfinite(number):
        try:
            struct.pack(">f", number)
        except OverflowError as error:
            raise ValueError("it is too large for 32 bits") from error
    return number


def _boolean(text: str) -> bool:
    found = _BOOLEANS.get(text.strip().lower())
    if found is None:
        raise ValueError(f"expected one of {', '.join(_BOOLEANS)}")
    return found


def _timestamp(text: str) -> datetime.datetime:
    found = datetime.datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


TEXT: Final = ColumnType(OPTIONAL_STRING, str)
_TYPES: Final[Mapping[str, ColumnType]] = {
    "string": TEXT,
    "int8": ColumnType(OPTIONAL_INT8, _integer(8)),
    "int16": ColumnType(OPTIONAL_INT16, _integer(16)),
    "int32": ColumnType(OPTIONAL_INT32, _integer(32)),
    "int64": ColumnType(OPTIONAL_INT64, _integer(64)),
    "float": ColumnType(OPTIONAL_FLOAT32, _float32),
    "double": ColumnType(OPTIONAL_FLOAT64, _float),
    "boolean": ColumnType(OPTIONAL_BOOLEAN, _boolean),
    "date": ColumnType(logical.date_schema(optional=True), datetime.date.fromisoformat),
    "time": ColumnType(logical.time_schema(optional=True), datetime.time.fromisoformat),
    "timestamp": ColumnType(logical.timestamp_schema(optional=True), _timestamp),
}


def column_type(name: str) -> ColumnType:
    """Return the type of this name. Raises ConfigInvalid."""
    found = _DECIMAL.fullmatch(name)
    if found is not None:
        return _decimal(int(found[1]))
    if name not in _TYPES:
        raise ConfigInvalid(
            f"Unknown type '{name}' of a column, expected one of {', '.join(_TYPES)}, decimal(SCALE)"
        )
    return _TYPES[name]


def _decimal(scale: int) -> ColumnType:
    quantum = Decimal(1).scaleb(-scale)

    def read(text: str) -> Decimal:
        try:
            number = Decimal(_digits(text))
            scaled = number.quantize(quantum, context=_DIGITS)
        except InvalidOperation as error:
            raise ValueError(f"no decimal with {scale} digits after the point") from error
        if scaled != number:
            raise ValueError(f"more than {scale} digits after the point")
        return scaled

    return ColumnType(logical.decimal_schema(scale, optional=True), read)
