"""Parsing and formatting of numbers with Java's rules, for ksqlDB's text formats."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Final

from penstock.sql.formats.errors import FormatError, shown
from penstock.sql.language import types

_WHOLE: Final = re.compile(r"[+-]?\d{1,64}")
_REAL: Final = re.compile(r"([+-]?)(NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?", re.ASCII)
_HEX_REAL: Final = re.compile(r"([+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+)[fFdD]?")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,10})?")
_JAVA_SPACES: Final = "".join(map(chr, range(33)))
_SHORT_MAX: Final = 1e-300
"""Below this, doubles are so far apart that several two-digit decimals may denote the same one."""
DAY_MS: Final = 86_400_000
EXACT: Final = Context(prec=1_000)
"""Has enough digits for any DECIMAL, and for other numbers that occur in place of one."""
_NO_LOW_BITS: Final = 64
"""Ten to this power has no bits below the 64th."""


def whole(text: str, bits: int, expected: object) -> int:
    """Parse an integer as Integer.parseInt and Long.parseLong do."""
    if _WHOLE.fullmatch(text):
        value = int(text)
        if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return value
    raise FormatError(f"found {shown(text)}, expected {expected}")


def truncated(value: int | Decimal, bits: int) -> int:
    """Drop the fraction and keep the low bits, as Java's narrowing does."""
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        value = 0 if exponent >= _NO_LOW_BITS else int(value)
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def real(text: str) -> float:
    """Parse a double as Double.parseDouble does."""
    stripped = text.strip(_JAVA_SPACES)
    found = _REAL.fullmatch(stripped)
    if found is not None:
        return float(found[1] + found[2])
    found = _HEX_REAL.fullmatch(stripped)
    if found is not None:
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return float("-inf" if stripped.startswith("-") else "inf")
        except ValueError:
            pass
    raise FormatError(f"found {shown(text)}, expected DOUBLE")


def real_text(value: float) -> str:
    """Format a double as Double.toString does.

    It has the fewest digits that identify the number, and an exponent outside of 0.001 to 10⁷.
    """
    size = abs(value)
    if 1e-3 <= size < 1e7 or size == 0:
        return repr(float(value))
    if size != size:
        return "NaN"
    if size == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = repr(float(value))
    if size < _SHORT_MAX and float(f"{value:.1e}") == value:
        shortest = f"{value:.1e}"  # the closest with two digits, even if one would identify it
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits))
    power = exponent + len(figures) - 1
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{power}"


def float_text(value: float) -> str:
    """Format a four-byte float with the fewest digits that identify it, as Float.toString does."""
    packed = struct.pack("<f", value)
    for digits in range(1, 9):
        short = float(f"{value:.{digits}g}")
        if struct.pack("<f", short) == packed:
            return real_text(short)
    return real_text(float(f"{value:.9g}"))


def decimal_of(text: str, expected: object) -> Decimal:
    """Parse a decimal as BigDecimal does."""
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    raise FormatError(f"found {shown(text)}, expected {expected}")


def scaled(unscaled: int, scale: int) -> Decimal:
    """Build a decimal from its unscaled value and scale, as in binary formats."""
    try:
        return Decimal(unscaled).scaleb(-scale, EXACT)
    except ArithmeticError:
        raise FormatError(f"found a scale of {scale}, expected at most 38 decimals") from None


def fitting(type_: types.Decimal) -> Callable[[Decimal], Decimal]:
    """Build a function that sets the scale of a type. It raises FormatError if a number needs rounding."""
    unit = Decimal((0, (1,), -type_.scale))
    context = Context(prec=type_.precision, traps=[Inexact, InvalidOperation])

    def fit(value: Decimal) -> Decimal:
        try:
            fitted = value.quantize(unit, context=context)
        except (Inexact, InvalidOperation):
            raise FormatError(f"found {shown(str(value))}, expected a number that fits {type_}") from None
        return fitted if fitted else fitted.copy_abs()

    return fit


def time_of_day(value: int) -> int:
    if 0 <= value <= DAY_MS:
        return value
    raise FormatError(f"found {value}, expected TIME, the milliseconds of a day, 0 to {DAY_MS}")
