"""Java's natural order of values, where it differs from Python's.

Strings are ordered by UTF-16 code units and bytes as signed numbers. Among doubles -0.0 is before 0.0, and
NaN is last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from penstock.java.strings import utf16
from penstock.sql.language import types
from penstock.sql.language.types import SqlType

Key = Callable[[Any], Any]
_SIGNED: Final = bytes((number + 128) % 256 for number in range(256))


def of_bytes(data: bytes) -> bytes:
    return data.translate(_SIGNED)


def _of_double(value: float) -> tuple[int, float, float]:
    return (1, 0.0, 0.0) if value != value else (0, value, math.copysign(1.0, value))


_KEYS: Final[dict[SqlType | None, Key]] = {
    types.STRING: utf16,
    types.BYTES: of_bytes,
    types.DOUBLE: _of_double,
}


def order_of(type_: SqlType | None) -> Key | None:
    """The sort key for values of a type, or None if Python's own order is right."""
    return _KEYS.get(type_)


def largest(type_: SqlType | None) -> Callable[..., Any]:
    """A `max` in Java's order, for several values or an iterable."""
    return partial(max, key=order_of(type_))


def smallest(type_: SqlType | None) -> Callable[..., Any]:
    return partial(min, key=order_of(type_))
