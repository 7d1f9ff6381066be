"""Arithmetic as Java does it: integers of 32 and 64 bits that wrap, division towards zero, doubles that
become infinite, and decimals that are never rounded unless a cast asks for it.
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

from penstock.sql import types

INTEGER_BOUND: Final = 2**31
BIGINT_BOUND: Final = 2**63
# Wide enough for anything that two decimals of 38 digits, or a double, give exactly.
_DIGITS: Final = 1200
EXACT: Final = Context(
    prec=_DIGITS, rounding=ROUND_HALF_UP, traps=[InvalidOperation, DivisionByZero, Overflow]
)
_UNROUNDED: Final = Context(prec=_DIGITS, traps=[InvalidOperation, DivisionByZero, Overflow, Inexact])


def wrapped_integer(value: int) -> int:
    return (value + INTEGER_BOUND & 0xFFFFFFFF) - INTEGER_BOUND


def wrapped_bigint(value: int) -> int:
    return (value + BIGINT_BOUND & 0xFFFFFFFFFFFFFFFF) - BIGINT_BOUND


def quotient(one: int, other: int) -> int:
    """Cut towards zero, where Python goes down."""
    whole = one // other
    return whole + 1 if whole < 0 and whole * other != one else whole


def remainder(one: int, other: int) -> int:
    """With the sign of what is divided."""
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
    """As Java casts: cut, and held within the type."""
    return 0 if value != value else int(max(-2147483648.0, min(2147483647.0, value)))


def bigint_of_double(value: float) -> int:
    if value != value:
        return 0
    return BIGINT_BOUND - 1 if value >= BIGINT_BOUND else int(max(-9223372036854775808.0, value))


def double_of(value: int | Decimal) -> float:
    return float(value)


def unsigned_zero(value: Decimal) -> Decimal:
    """The decimal; zero has no sign in Java."""
    return value if value else value.copy_abs()


@cache
def unit(scale: int) -> Decimal:
    """One in the last place."""
    return Decimal((0, (1,), -scale))


@cache
def within(precision: int) -> Context:
    """A result that would have to be rounded to so many digits is an error."""
    return Context(prec=precision, traps=[InvalidOperation, DivisionByZero, Overflow, Inexact])


def at_scale(value: Decimal, scale: int) -> Decimal:
    """With zeros added or taken; an error where digits would be lost."""
    if value.as_tuple().exponent == -scale:
        return unsigned_zero(value)
    return unsigned_zero(value.quantize(unit(scale), context=_UNROUNDED))


def decimal_remainder(one: Decimal, other: Decimal, context: Context) -> Decimal:
    whole = EXACT.divide_int(one, other)
    context.plus(whole)  # the quotient, too, has to fit
    return EXACT.subtract(one, EXACT.multiply(whole, other))


def fitted(value: Decimal, type_: types.Decimal) -> Decimal:
    """A decimal cast to a type: rounded half up; an error where its whole part is too large."""
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
    """The decimal that a double is written as; what decimals are compared with."""
    if not math.isfinite(value):
        raise ValueError(f"found {value}, expected a finite number beside a DECIMAL")
    return Decimal(repr(value))
