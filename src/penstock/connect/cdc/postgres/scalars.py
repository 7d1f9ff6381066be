"""Value types that depend on a setting or a modifier: numbers, bytes, bits and more. Pure."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from penstock.connect.cdc.modes import BinaryMode, DecimalMode
from penstock.connect.cdc.postgres.containers import read_hstore
from penstock.connect.cdc.postgres.settings import HstoreMode, IntervalMode, ValueSettings
from penstock.connect.cdc.postgres.temporal import iso_interval, micros_of_interval, read_interval
from penstock.connect.cdc.postgres.value_types import ValueType, named
from penstock.connect.data.logical import DECIMAL_NAME, decimal_schema
from penstock.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    INT32,
    OPTIONAL_BYTES,
    OPTIONAL_INT32,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Type,
)
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

VARIABLE_SCALE_DECIMAL: Final = Schema.struct(
    {"scale": INT32, "value": BYTES},
    name="io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)
POINT: Final = Schema.struct(
    {"x": FLOAT64, "y": FLOAT64, "wkb": OPTIONAL_BYTES, "srid": OPTIONAL_INT32},
    name="io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)
UNLIMITED: Final = 2_147_483_647
"""The length of ``bit varying`` without a limit, as Debezium has it."""

_EXACT: Final = Context(prec=200_000)
"""Digits enough for every numeric, which has at most 147,455."""
_NO_TIME: Final = "P0Y0M0DT0H0M0S"
_SPECIAL: Final = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}
"""Debezium's texts of the numerics that are no numbers."""


def numeric(settings: ValueSettings, modifier: int) -> ValueType:
    """numeric(p,s): the modifier holds precision and scale, or is -1."""
    if settings.decimal is DecimalMode.DOUBLE:
        return ValueType(FLOAT64, float, 0.0)
    if modifier < 4:
        if settings.decimal is DecimalMode.STRING:
            return ValueType(STRING, lambda text: _SPECIAL.get(text, text), "0")
        return ValueType(VARIABLE_SCALE_DECIMAL, _variable_scale, _variable_scale("0"))
    scale = _scale(modifier)
    unit = Decimal(1).scaleb(-scale)
    if settings.decimal is DecimalMode.STRING:
        return ValueType(
            STRING, lambda text: _SPECIAL.get(text) or _scaled_text(text, unit), _scaled_text("0", unit)
        )
    parameters = {"scale": str(scale), "connect.decimal.precision": str(modifier - 4 >> 16 & 0xFFFF)}
    schema = Schema(Type.BYTES, name=DECIMAL_NAME, version=1, parameters=parameters)
    return ValueType(schema, ScaledDecimal(scale), _scaled("0", unit))


@dataclass(frozen=True, slots=True)
class ScaledDecimal:
    """Reads a decimal with a fixed number of digits after the point."""

    scale: int

    def __call__(self, text: str) -> Decimal:
        return _scaled(text, Decimal(1).scaleb(-self.scale))


def _scaled(text: str, unit: Decimal) -> Decimal:
    return _finite(text).quantize(unit, context=_EXACT)


def _scaled_text(text: str, unit: Decimal) -> str:
    return f"{_scaled(text, unit):f}"


def _scale(modifier: int) -> int:
    """The scale of numeric: 11 bits with a sign (PostgreSQL 15)."""
    return ((modifier - 4 & 0x7FF) ^ 1024) - 1024


def _finite(text: str) -> Decimal:
    if text in _SPECIAL:
        raise DataError(f"{text} is no number; the decimal.handling.mode string or double can express it")
    return Decimal(text)


def _variable_scale(text: str) -> Struct:
    value = _finite(text).normalize(_EXACT)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    unscaled = int(value.scaleb(scale, _EXACT))
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return Struct.of_values(VARIABLE_SCALE_DECIMAL, [scale, unscaled.to_bytes(size, "big", signed=True)])


def money(settings: ValueSettings, modifier: int = -1) -> ValueType:
    """money, whose text has the currency and separators of the server's lc_monetary."""
    unit = Decimal(1).scaleb(-settings.money_fraction_digits)
    if settings.decimal is DecimalMode.DOUBLE:
        return ValueType(FLOAT64, lambda text: float(_amount(text)), 0.0)
    if settings.decimal is DecimalMode.STRING:
        return ValueType(STRING, lambda text: f"{_amount(text):f}", f"{Decimal(0).quantize(unit):f}")
    return ValueType(
        decimal_schema(settings.money_fraction_digits),
        lambda text: _amount(text).quantize(unit, ROUND_HALF_UP, _EXACT),
        Decimal(0).quantize(unit),
    )


def _amount(text: str) -> Decimal:
    digits = "".join(each for each in text if each in "0123456789.")
    return Decimal(f"-{digits}" if text.startswith(("-", "(")) else digits)


def binary(settings: ValueSettings, modifier: int = -1) -> ValueType:
    """bytea, whose text is ``\\x`` and hexadecimal digits (bytea_output = hex)."""
    encoders: dict[BinaryMode, Callable[[bytes], Any]] = {
        BinaryMode.BYTES: bytes,
        BinaryMode.HEX: bytes.hex,
        BinaryMode.BASE64: lambda data: base64.b64encode(data).decode(),
        BinaryMode.BASE64_URL_SAFE: lambda data: base64.urlsafe_b64encode(data).decode(),
    }
    encode = encoders[settings.binary]
    schema = BYTES if settings.binary is BinaryMode.BYTES else STRING
    return ValueType(schema, lambda text: encode(bytes.fromhex(text[2:])), encode(b""))


def bits(settings: ValueSettings, modifier: int) -> ValueType:
    """bit(n) and bit varying(n): little-endian bytes without zeros at the end, or a boolean if n is 1."""
    length = modifier if modifier > 0 else UNLIMITED
    if length == 1:
        return ValueType(BOOLEAN, lambda text: text == "1", False)
    schema = named(Type.BYTES, "io.debezium.data.Bits", {"length": str(length)})
    return ValueType(schema, _little_endian, b"")


def _little_endian(text: str) -> bytes:
    number = int(text or "0", 2)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def interval(settings: ValueSettings, modifier: int = -1) -> ValueType:
    """interval: microseconds, or ISO 8601."""
    if settings.interval is IntervalMode.STRING:
        schema = named(Type.STRING, "io.debezium.time.Interval")
        return ValueType(schema, lambda text: iso_interval(read_interval(text)), _NO_TIME)
    schema = named(Type.INT64, "io.debezium.time.MicroDuration")
    return ValueType(schema, lambda text: micros_of_interval(read_interval(text)), 0)


def point(settings: ValueSettings, modifier: int = -1) -> ValueType:
    """point, with its well-known binary form."""
    return ValueType(POINT, _point, _point("(0,0)"))


def _point(text: str) -> Struct:
    x, y = (float(each) for each in text.strip("()").split(","))
    return Struct.of_values(POINT, [x, y, struct.pack("<BIdd", 1, 1, x, y), None])


def hstore(settings: ValueSettings, modifier: int = -1) -> ValueType:
    """hstore: JSON text, or a map."""
    if settings.hstore is HstoreMode.MAP:
        return ValueType(Schema.map(STRING, OPTIONAL_STRING), read_hstore, {})
    schema = named(Type.STRING, "io.debezium.data.Json")
    return ValueType(schema, lambda text: hstore_json(read_hstore(text)), "{}")


def hstore_json(pairs: Mapping[str, str | None]) -> str:
    """The JSON text of an hstore's pairs."""
    return json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))
