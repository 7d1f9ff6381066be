"""Functions on numbers, and functions that choose among values of any type."""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal as Number
from typing import Any, Final

from penstock.sql.evaluation.builtin.nulls import primitive, strict
from penstock.sql.evaluation.equality import equality_key
from penstock.sql.evaluation.numbers import (
    EXACT,
    at_scale,
    bigint_of_double,
    unit,
    unsigned_zero,
    wrapped_bigint,
    wrapped_integer,
)
from penstock.sql.evaluation.order import largest, smallest
from penstock.sql.evaluation.texts import trimmed
from penstock.sql.language import types
from penstock.sql.language.types import Decimal, SqlType

_EARTH_RADIUS_KM: Final = 6371.0
_EARTH_RADII: Final = {
    **dict.fromkeys(("km", "kilometer", "kilometers", "kilometre", "kilometres"), _EARTH_RADIUS_KM),
    **dict.fromkeys(("mi", "mile", "miles"), 3959.0),
}
_CUBE_BITS: Final = 129
"""Bits added to a double's 53 before its cube root is taken, so that the root has more bits than a double."""


def _safe(function: Callable[..., float]) -> Callable[..., Any]:
    """Return NaN for an undefined result and infinity for an overflow, as Java's Math does."""

    def computed(*values: float) -> float:
        try:
            return function(*values)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return strict(computed)


def _log(*values: float) -> float:
    """LOG(value) or LOG(base, value)."""
    if len(values) == 1:
        return _ln(values[0])
    base, value = values
    return math.nan if base <= 0 or base == 1 else _ln(value) / _ln(base)


def _ln(value: float) -> float:
    if value == 0:
        return -math.inf
    return math.log(value)


def _cot(value: float) -> float:
    return 1.0 / math.tan(value) if math.tan(value) else math.copysign(math.inf, value)


def _power(base: float, exponent: float) -> float:
    if abs(base) == 1 and not math.isfinite(exponent):
        return math.nan
    is_odd = math.isfinite(exponent) and abs(math.fmod(exponent, 2)) == 1
    negative = is_odd and math.copysign(1.0, base) < 0
    if base == 0 and exponent < 0:
        return -math.inf if negative else math.inf
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if negative else math.inf


def _sinh(value: float) -> float:
    try:
        return math.sinh(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _cbrt(value: float) -> float:
    """The double nearest to the cube root.

    The C library's function may be off by more than one unit in the last place: it is -3.0000000000000004 of
    -27. So this takes the root of an integer of more bits, whose last bit says whether the root is inexact.
    """
    if not value or not math.isfinite(value):
        return value
    mantissa, exponent = math.frexp(abs(value))
    exponent -= 53
    added_bits = _CUBE_BITS + exponent % 3
    cube = int(math.ldexp(mantissa, 53)) << added_bits
    root = int(float(cube) ** (1.0 / 3.0))
    root = (2 * root + cube // root**2) // 3
    while root**3 > cube:
        root -= 1
    while (root + 1) ** 3 <= cube:
        root += 1
    rounded = float(2 * root + (root**3 != cube))
    return math.copysign(math.ldexp(rounded, (exponent - added_bits) // 3 - 1), value)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


@primitive(0, 1, 2, 3)
def _geo_distance(
    latitude: float,
    longitude: float,
    other_latitude: float,
    other_longitude: float,
    unit_of_length: str | None = None,
) -> float:
    if abs(latitude) > 90 or abs(other_latitude) > 90:
        raise ValueError(
            f"found the latitudes {latitude} and {other_latitude}, expected numbers from -90 to 90"
        )
    if abs(longitude) > 180 or abs(other_longitude) > 180:
        raise ValueError(
            f"found the longitudes {longitude} and {other_longitude}, expected numbers from -180 to 180"
        )
    radius = _earth_radius(unit_of_length)
    half = _haversine(other_latitude - latitude) + _haversine(other_longitude - longitude) * math.cos(
        math.radians(latitude)
    ) * math.cos(math.radians(other_latitude))
    return 2 * math.asin(math.sqrt(half)) * radius if half <= 1 else math.nan


def _haversine(degrees: float) -> float:
    return math.sin(math.radians(degrees) / 2) ** 2


def _earth_radius(unit_of_length: str | None) -> float:
    name = trimmed(unit_of_length or "").lower()
    radius = _EARTH_RADII.get(name) if name else _EARTH_RADIUS_KM
    if radius is None:
        raise ValueError(f"found the unit {unit_of_length}, expected one of {', '.join(_EARTH_RADII)}")
    return radius


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(*values: Any) -> Any:
        there = [value for value in values if value is not None]
        return choose(there) if there else None

    return chosen


def _coalesce(*values: Any) -> Any:
    for value in values:
        if value is not None:
            return value
    return None


def _nullif(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    key = equality_key(result)

    def unless_equal(one: Any, other: Any) -> Any:
        if one is None or other is None:
            return one
        return None if key(one) == key(other) else one

    return unless_equal


def _half_up(value: Number) -> str:
    """The way to round halves up, also negative ones."""
    return decimal.ROUND_HALF_UP if value > 0 else decimal.ROUND_HALF_DOWN


def _down(value: Number) -> str:
    return decimal.ROUND_DOWN


def _rounded(value: Number, places: int, way: Callable[[Number], str]) -> Number:
    """Round a decimal to a number of decimal places, or before the point if it is negative."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if places >= -exponent:
        return value
    if -places > len(digits) + exponent:
        return Number(0)
    return unsigned_zero(value.quantize(unit(places), rounding=way(value), context=EXACT))


def _nearest_bigint(value: float) -> int:
    if not math.isfinite(value):
        return bigint_of_double(value)
    below = math.floor(value)
    return bigint_of_double(below + (value - below >= 0.5))


def _rounded_double(value: float, places: int, way: Callable[[Number], str]) -> float:
    if not math.isfinite(value):
        raise ValueError(f"found {value}, expected a finite number")
    return float(unsigned_zero(_rounded(Number(repr(value)), places, way)))


def _rounding(
    way: Callable[[Number], str], whole: Callable[[float], int], of_integer: Callable[[Any], Any]
) -> Callable[[Sequence[Any], SqlType], Callable[..., Any]]:
    def choose(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
        of = given[0]
        if of in (types.INTEGER, types.BIGINT):
            return of_integer
        if isinstance(of, Decimal):
            scale = result.scale if isinstance(result, Decimal) else 0
            return strict(lambda value, places=0: at_scale(_rounded(value, places, way), scale))
        if len(given) == 1:
            return strict(whole)
        return strict(lambda value, places: _rounded_double(value, places, way))

    return choose


def _same(value: Any) -> Any:
    return value


def _absolute(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    if isinstance(given[0], Decimal):
        return strict(Number.copy_abs)
    fit = {types.INTEGER: wrapped_integer, types.BIGINT: wrapped_bigint}.get(given[0])
    if fit is None:
        return strict(abs)
    return strict(lambda value: fit(abs(value)))


def _next(whole: Callable[[float], int], way: str) -> Callable[[Sequence[Any], SqlType], Callable[..., Any]]:
    def next_double(value: float) -> float:
        return math.copysign(float(whole(value)), value) if math.isfinite(value) else value

    def choose(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
        if given[0] in (types.INTEGER, types.BIGINT):
            return strict(lambda value: value)
        if isinstance(given[0], Decimal):
            scale = given[0].scale
            return strict(lambda value: at_scale(value.quantize(unit(0), way, EXACT), scale))
        return strict(next_double)

    return choose


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "ACOS": _safe(math.acos),
    "ASIN": _safe(math.asin),
    "ATAN": _safe(math.atan),
    "ATAN2": _safe(math.atan2),
    "CBRT": _safe(_cbrt),
    "COS": _safe(math.cos),
    "COSH": _safe(math.cosh),
    "COT": _safe(_cot),
    "DEGREES": _safe(math.degrees),
    "EXP": _safe(math.exp),
    "GEO_DISTANCE": _geo_distance,
    "LN": _safe(_ln),
    "LOG": _safe(_log),
    "PI": lambda: math.pi,
    "POWER": _safe(_power),
    "RADIANS": _safe(math.radians),
    "RANDOM": random.random,
    "SIGN": strict(_sign),
    "SIN": _safe(math.sin),
    "SINH": strict(_sinh),
    "SQRT": _safe(math.sqrt),
    "TAN": _safe(math.tan),
    "TANH": _safe(math.tanh),
    "AS_VALUE": _same,
    "COALESCE": _coalesce,
    "IFNULL": lambda value, other: other if value is None else value,
}
BY_TYPE: Final[dict[str, Callable[[Sequence[Any], SqlType], Callable[..., Any]]]] = {
    "ABS": _absolute,
    "CEIL": _next(math.ceil, decimal.ROUND_CEILING),
    "FLOOR": _next(math.floor, decimal.ROUND_FLOOR),
    "GREATEST": lambda given, result: _extreme(largest(result)),
    "LEAST": lambda given, result: _extreme(smallest(result)),
    "NULLIF": _nullif,
    "ROUND": _rounding(_half_up, _nearest_bigint, primitive(0)(_same)),
    "TRUNC": _rounding(_down, bigint_of_double, _same),
}
