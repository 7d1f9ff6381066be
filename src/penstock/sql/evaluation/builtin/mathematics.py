"""Functions on numbers, and functions that choose among values of any type."""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal as Number
from typing import Any, Final

from penstock.sql.evaluation.builtin.nulls import strict
from penstock.sql.evaluation.numbers import wrapped_bigint, wrapped_integer
from penstock.sql.evaluation.order import largest, smallest
from penstock.sql.language import types
from penstock.sql.language.types import Decimal, SqlType

_EARTH_RADIUS: Final = {"KM": 6371.0, "MILES": 3959.0}
_WIDE: Final = decimal.Context(prec=100)
_LONG_BOUNDS: Final = (-(2**63), 2**63 - 1)


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
    if base == 0 and exponent < 0:
        return math.inf
    made = math.pow(base, exponent)
    return made


def _cbrt(value: float) -> float:
    root = math.copysign(abs(value) ** (1.0 / 3.0), value)
    nearest = round(root)
    return float(nearest) if nearest**3 == value else root


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _geo_distance(
    latitude: float | None,
    longitude: float | None,
    other_latitude: float | None,
    other_longitude: float | None,
    unit: str | None = None,
) -> float | None:
    if latitude is None or longitude is None or other_latitude is None or other_longitude is None:
        return None
    radius = _EARTH_RADIUS["MILES" if unit is not None and unit.upper().startswith("M") else "KM"]
    one, other = math.radians(latitude), math.radians(other_latitude)
    across = math.radians(other_longitude - longitude)
    half = math.sin((other - one) / 2) ** 2 + math.cos(one) * math.cos(other) * math.sin(across / 2) ** 2
    return 2 * radius * math.asin(min(1.0, math.sqrt(half)))


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


def _nullif(one: Any, other: Any) -> Any:
    return None if one == other else one


def _half_up(value: Number, places: int) -> Number:
    """Round halves up, also negative ones."""
    mode = decimal.ROUND_HALF_UP if value > 0 else decimal.ROUND_HALF_DOWN
    return value.quantize(Number(1).scaleb(-places), rounding=mode, context=_WIDE)


def _down(value: Number, places: int) -> Number:
    return value.quantize(Number(1).scaleb(-places), rounding=decimal.ROUND_DOWN, context=_WIDE)


def _whole_by(way: Callable[[Number, int], Number]) -> Callable[[float], int]:
    def whole(value: float) -> int:
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return _LONG_BOUNDS[value > 0]
        return min(max(int(way(Number(value), 0)), _LONG_BOUNDS[0]), _LONG_BOUNDS[1])

    return whole


def _rounding(way: Callable[[Number, int], Number]) -> Callable[[Sequence[Any], SqlType], Callable[..., Any]]:
    whole = _whole_by(way)

    def choose(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
        of = given[0]
        if of in (types.INTEGER, types.BIGINT):
            return strict(lambda value, *places: value)
        if isinstance(of, Decimal):
            scale = result.scale if isinstance(result, Decimal) else 0
            unit = Number(1).scaleb(-scale)
            return strict(lambda value, places=0: way(value, places).quantize(unit, context=_WIDE))
        if len(given) == 1:
            return strict(whole)
        return strict(lambda value, places: float(way(Number(repr(value)), places)))

    return choose


def _absolute(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    fit = {types.INTEGER: wrapped_integer, types.BIGINT: wrapped_bigint}.get(given[0])
    if fit is None:
        return strict(abs)
    return strict(lambda value: fit(abs(value)))


def _next(whole: Callable[[Any], int]) -> Callable[[Sequence[Any], SqlType], Callable[..., Any]]:
    def choose(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
        if given[0] in (types.INTEGER, types.BIGINT):
            return strict(lambda value: value)
        if isinstance(given[0], Decimal):
            unit = Number(1).scaleb(-given[0].scale)
            return strict(lambda value: Number(whole(value)).quantize(unit))
        return strict(lambda value: float(whole(value)) if math.isfinite(value) else value)

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
    "SINH": _safe(math.sinh),
    "SQRT": _safe(math.sqrt),
    "TAN": _safe(math.tan),
    "TANH": _safe(math.tanh),
    "AS_VALUE": lambda value: value,
    "COALESCE": _coalesce,
    "IFNULL": lambda value, other: other if value is None else value,
    "NULLIF": _nullif,
}
BY_TYPE: Final[dict[str, Callable[[Sequence[Any], SqlType], Callable[..., Any]]]] = {
    "ABS": _absolute,
    "CEIL": _next(math.ceil),
    "FLOOR": _next(math.floor),
    "GREATEST": lambda given, result: _extreme(largest(result)),
    "LEAST": lambda given, result: _extreme(smallest(result)),
    "ROUND": _rounding(_half_up),
    "TRUNC": _rounding(_down),
}
