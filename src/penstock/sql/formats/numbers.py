"""Numbers as Java reads and writes them in text: what ksqlDB's text formats are made of."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Final

from penstock.sql import types
from penstock.sql.formats.errors import FormatError, shown

_WHOLE: Final = re.compile(r"[+-]?\d{1,64}")
_REAL: Final = re.compile(r"([+-]?)(NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?", re.ASCII)
_HEX_REAL: Final = re.compile(r"([+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+)[fFdD]?")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,10})?")
_JAVA_SPACES: Final = "".join(map(chr, range(33)))
# Below it doubles are so far apart that several of two digits may mean the same.
_SHORT_MAX: Final = 1e-300
DAY_MS: Final = 86_400_000
# Enough for what a DECIMAL holds, and for what may come in its place.
EXACT: Final = Context(prec=1_000)
# Ten to this power has no bit below the 64th.
_NO_LOW_BITS: Final = 64


def whole(text: str, bits: int, expected: object) -> int:
    """As Integer.parseInt and Long.parseLong read."""
    if _WHOLE.fullmatch(text):
        value = int(text)
        if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return value
    raise FormatError(f"found {shown(text)}, expected {expected}")


def truncated(value: int | Decimal, bits: int) -> int:
    """The low bits of a number without its fraction, as Java narrows."""
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        value = 0 if exponent >= _NO_LOW_BITS else int(value)
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def real(text: str) -> float:
    """As Double.parseDouble reads."""
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
    """As Double.toString writes: digits as few as tell the number, an exponent outside of 0.001 to 10⁷."""
    size = abs(value)
    if 1e-3 <= size < 1e7 or size == 0:
        return repr(float(value))
    if size != size:
        return "NaN"
    if size == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = repr(float(value))
    if size < _SHORT_MAX and float(f"{value:.1e}") == value:
        shortest = f"{value:.1e}"  # of two digits the closest, where one would do
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits))
    power = exponent + len(figures) - 1
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{power}"


def float_text(value: float) -> str:
    """The fewest digits that tell a float of four bytes, as Float.toString."""
    packed = struct.pack("<f", value)
    for digits in range(1, 9):
        short = float(f"{value:.{digits}g}")
        if struct.pack("<f", short) == packed:
            return real_text(short)
    return real_text(float(f"{value:.9g}"))


def decimal_of(text: str, expected: object) -> Decimal:
    """As BigDecimal reads a text."""
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    raise FormatError(f"found {shown(text)}, expected {expected}")


def scaled(unscaled: int, scale: int) -> Decimal:
    """A decimal of the two numbers that binary formats have for it."""
    try:
        return Decimal(unscaled).scaleb(-scale, EXACT)
    except ArithmeticError:
        raise FormatError(f"found a scale of {scale}, expected at most 38 decimals") from None


def fitting(type_: types.Decimal) -> Callable[[Decimal], Decimal]:
    """Gives a number its type's scale; refuses one that would have to be rounded for it."""
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
