"""Arithmetic with Java's semantics.

Integers of 32 and 64 bits wrap around, division truncates towards zero, doubles overflow to infinity, and
decimals are rounded only by casts.
"""

from __future__ import annotations

import math
from decimal import (
    ROUND_HALF_UP,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
)
from functools import cache
from typing import Final

from penstock.sql.language import types

INTEGER_BOUND: Final = 2**31
BIGINT_BOUND: Final = 2**63
_DIGITS: Final = 1200
"""Enough digits for the exact result of an operation on two decimals of 38 digits, and for any double."""
EXACT: Final = Context(
    prec=_DIGITS, rounding=ROUND_HALF_UP, traps=[InvalidOperation, DivisionByZero, Overflow]
)
_UNROUNDED: Final = Context(prec=_DIGITS, traps=[InvalidOperation, DivisionByZero, Overflow, Inexact])


def wrapped_integer(value: int) -> int:
    return (value + INTEGER_BOUND & 0xFFFFFFFF) - INTEGER_BOUND


def wrapped_bigint(value: int) -> int:
    return (value + BIGINT_BOUND & 0xFFFFFFFFFFFFFFFF) - BIGINT_BOUND


def quotient(one: int, other: int) -> int:
    """Divide and truncate towards zero, where Python's // rounds down."""
    whole = one // other
    return whole + 1 if whole < 0 and whole * other != one else whole


def remainder(one: int, other: int) -> int:
    """The remainder with the sign of the dividend."""
    return one - quotient(one, other) * other


def double_quotient(one: float, other: float) -> float:
    if other:
        return one / other
    if one != one or not one or other != other:
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def double_remainder(one: float, other: float) -> float:
    if math.isinf(one) or not other:
        return math.nan
    return math.fmod(one, other)


def integer_of_double(value: float) -> int:
    """Convert as Java's cast does: truncate, clamp to the type's range, and map NaN to 0."""
    return 0 if value != value else int(max(-2147483648.0, min(2147483647.0, value)))


def bigint_of_double(value: float) -> int:
    if value != value:
        return 0
    return BIGINT_BOUND - 1 if value >= BIGINT_BOUND else int(max(-9223372036854775808.0, value))


def unsigned_zero(value: Decimal) -> Decimal:
    """Remove the sign of a zero, as Java's decimals have no negative zero."""
    return value if value else value.copy_abs()


@cache
def unit(scale: int) -> Decimal:
    """One unit in the last place of this scale."""
    return Decimal((0, (1,), -scale))


@cache
def within(precision: int) -> Context:
    """A context that raises an error if a result needs more digits than this."""
    return Context(prec=precision, traps=[InvalidOperation, DivisionByZero, Overflow, Inexact])


def at_scale(value: Decimal, scale: int) -> Decimal:
    """Add or remove trailing zeros to reach a scale. Raises Inexact if digits would be lost."""
    if value.as_tuple().exponent == -scale:
        return unsigned_zero(value)
    return unsigned_zero(value.quantize(unit(scale), context=_UNROUNDED))


def decimal_remainder(one: Decimal, other: Decimal, context: Context) -> Decimal:
    whole = EXACT.divide_int(one, other)
    context.plus(whole)  # raises an error if the quotient does not fit the precision either
    return EXACT.subtract(one, EXACT.multiply(whole, other))


def fitted(value: Decimal, type_: types.Decimal) -> Decimal:
    """Cast a decimal to a type, rounding half up. Raises OverflowError if its integer part is too large."""
    bound = type_.precision - type_.scale
    if abs(value) >= unit(-bound):
        raise OverflowError(f"found {value:f}, expected a number that fits {type_}")
    if value.as_tuple().exponent == -type_.scale:
        return unsigned_zero(value)
    return unsigned_zero(value.quantize(unit(type_.scale), context=EXACT))


def decimal_of_double(value: float, type_: types.Decimal) -> Decimal:
    if not math.isfinite(value):
        raise ValueError(f"found {value}, expected a number that fits {type_}")
    rounded = Context(prec=type_.precision, rounding=ROUND_HALF_UP).plus(Decimal(value))
    return fitted(rounded, type_)


def decimal_of_integer(value: int, type_: types.Decimal) -> Decimal:
    return fitted(Decimal(value), type_)


def shortest_decimal(value: float) -> Decimal:
    """Convert a double, by its shortest notation, to a decimal for comparison with decimals."""
    if not math.isfinite(value):
        raise ValueError(f"found {value}, expected a finite number beside a DECIMAL")
    return Decimal(repr(value))
