"""Java's natural order of values, where it is not Python's: texts by their UTF-16 units, bytes with their
signs, and of doubles -0.0 before 0.0 and NaN behind all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from penstock.sql import types
from penstock.sql.types import SqlType

Key = Callable[[Any], Any]
_SIGNED: Final = bytes((number + 128) % 256 for number in range(256))


def of_text(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def of_bytes(data: bytes) -> bytes:
    return data.translate(_SIGNED)


def _of_double(value: float) -> tuple[int, float, float]:
    return (1, 0.0, 0.0) if value != value else (0, value, math.copysign(1.0, value))


_KEYS: Final[dict[SqlType | None, Key]] = {
    types.STRING: of_text,
    types.BYTES: of_bytes,
    types.DOUBLE: _of_double,
}


def order_of(type_: SqlType | None) -> Key | None:
    """What values of a type are sorted by; None where it is they themselves."""
    return _KEYS.get(type_)


def largest(type_: SqlType | None) -> Callable[..., Any]:
    """`max` of several values, or of an iterable."""
    return partial(max, key=order_of(type_))


def smallest(type_: SqlType | None) -> Callable[..., Any]:
    return partial(min, key=order_of(type_))
