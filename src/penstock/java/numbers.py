"""Java's numbers: casts, rounding and texts, where bytes or values in topics depend on them."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal, InvalidOperation
from typing import Final

# 10**64 is divisible by 2**64, so that a larger exponent leaves no low-order bits.
_EXPONENT_BITS: Final = 64
_SCALE_MAX: Final = (1 << 31) - 1  # BigDecimal's scale is an int
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,10})?")
_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_HEX: Final = r"[\da-fA-F]"
_HEXADECIMAL: Final = re.compile(rf"([+-]?0[xX](?:{_HEX}+\.?|{_HEX}*\.{_HEX}+)[pP][+-]?\d+)[fFdD]?", re.ASCII)
_FLOAT32: Final = struct.Struct("<f")
_FLOAT64: Final = struct.Struct("<d")
_INT64: Final = struct.Struct("<q")
_SUBNORMAL_MAX: Final = 1e-307  # larger doubles are identified by fewer digits than their neighbours need


def wrapped(value: int, bits: int) -> int:
    """Return the low-order bits as a signed number, as a cast between Java's integers does."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def low_bits(value: int | Decimal, bits: int) -> int:
    """Return a number without its fraction as `intValue` of BigInteger and BigDecimal do."""
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int), "BigDecimal has no NaN"
        if exponent > _EXPONENT_BITS or value.adjusted() < 0:
            return 0  # also spares the time and memory for a huge number
        value = int(value)
    return wrapped(value, bits)


def saturated(value: float, bits: int) -> int:
    """Return a double without its fraction as a cast does: the nearest integer of the type, and 0 for NaN."""
    if math.isnan(value):
        return 0
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if math.isinf(value):
        return high if value > 0 else low
    return max(low, min(high, int(value)))


def float64(value: int | Decimal) -> float:
    """Return the nearest double; an infinity if the number is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def float32(value: float) -> float:
    """Return the nearest four-byte float; an infinity if the number is too large."""
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def float32_of_exact(value: int | Decimal) -> float:
    """Return the four-byte float nearest to a number that may have more digits than a double.

    Rounding to a double first must not decide between two floats. A double that is not exact therefore gets
    an odd last bit, which tells that the number lies beside it.
    """
    double = float64(value)
    if math.isfinite(double) and Decimal(double) != value and not _bits(double) & 1:
        double = math.nextafter(double, math.inf if Decimal(double) < value else -math.inf)
    return float32(double)


def _bits(value: float) -> int:
    bits: int = _INT64.unpack(_FLOAT64.pack(value))[0]
    return bits


def double_text(value: float) -> str:
    """Format a double as Double.toString does (JDK 19 and newer).

    It has the fewest digits that identify the number, two at least, and an exponent outside 0.001 to 10⁷.
    """
    size = abs(value)
    if 1e-3 <= size < 1e7 or size == 0:
        return repr(float(value))
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shortest = repr(float(value))
    if size < _SUBNORMAL_MAX and float(two := f"{value:.1e}") == value:
        shortest = two  # of the decimals with two digits, the one nearest to the number
    return _scientific(shortest)


def float_text(value: float) -> str:
    """Format a four-byte float as Float.toString does (JDK 19 and newer)."""
    if not math.isfinite(value):
        return double_text(value)
    packed = _FLOAT32.pack(value)
    for digits in range(2, 9):
        shortest = f"{value:.{digits}g}"
        if _packs_to(float(shortest), packed):
            break
    else:
        shortest = f"{value:.9g}"
    size = abs(value)
    return repr(float(shortest)) if 1e-3 <= size < 1e7 or size == 0 else _scientific(shortest)


def _packs_to(value: float, packed: bytes) -> bool:
    try:
        return _FLOAT32.pack(value) == packed
    except OverflowError:
        return False


def _scientific(shortest: str) -> str:
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits))
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{exponent + len(figures) - 1}"


def parse_double(text: str) -> float | None:
    """Parse what Double.parseDouble accepts, except white space around it; None for any other text.

    Python's `float` accepts other texts, such as "1_0" and "nan".
    """
    if (found := _DOUBLE.fullmatch(text)) is not None:
        return float(text.rstrip("fFdD") if found[2] else text)
    if (found := _HEXADECIMAL.fullmatch(text)) is not None:
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    return None


def decimal_of(text: str) -> Decimal | None:
    """Parse a number as ``new BigDecimal(text)`` does; None if it would throw. Zero has no sign."""
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        parsed = Decimal(text)
    except InvalidOperation:
        return None
    exponent = parsed.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > _SCALE_MAX:
        return None
    return parsed if parsed else parsed.copy_abs()


def scale_of(value: Decimal) -> int:
    """Return the number of digits after the point; negative if zeros follow the digits."""
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0
