"""Java's floating-point numbers as texts."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

# Java prints numbers between these bounds without an exponent.
_PLAIN_MIN: Final = 1e-3
_PLAIN_MAX: Final = 1e7


def double_text(value: float) -> str:
    """Format a double as Double.toString does since Java 19: 0.25, 1.0E10, NaN, -Infinity.

    It has the fewest digits that identify the number, at least one of them after the point.
    """
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    value = abs(value)
    if not value:
        return f"{sign}0.0"
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits))
    point = len(shown) + exponent
    if not _PLAIN_MIN <= value < _PLAIN_MAX:
        return f"{sign}{shown[0]}.{shown[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{shown}"
    return f"{sign}{shown[:point]:0<{point}}.{shown[point:] or '0'}"
