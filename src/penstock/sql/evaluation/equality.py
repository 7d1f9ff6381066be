"""Java's equality of values, where it differs from Python's.

In Java NaN is equal to itself, and 0.0 and -0.0 are different.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct


def equality_key(type_: SqlType | None) -> Callable[[Any], Hashable]:
    """The function from values of a type, or null, to hashable keys that are equal if the values are."""
    match type_:
        case Array(element):
            return _optional(_of_parts(equality_key(element)))
        case Map(key, value):
            return _optional(_of_entries(equality_key(key), equality_key(value)))
        case Struct(fields):
            keys = [(name, equality_key(field)) for name, field in fields]
            return _optional(lambda struct: tuple(key(struct[name]) for name, key in keys))
    return _optional(_of_double) if type_ == types.DOUBLE else same


def same(value: Any) -> Hashable:
    """The key of types for which Python's equality is Java's."""
    made: Hashable = value
    return made


def _optional(key: Callable[[Any], Hashable]) -> Callable[[Any], Hashable]:
    return lambda value: None if value is None else key(value)


def _of_double(value: float) -> Hashable:
    if value != value:
        return "NaN"
    return value if value or math.copysign(1.0, value) > 0 else "-0.0"


def _of_parts(key: Callable[[Any], Hashable]) -> Callable[[Any], Hashable]:
    return lambda values: tuple(map(key, values))


def _of_entries(
    key: Callable[[Any], Hashable], value: Callable[[Any], Hashable]
) -> Callable[[Any], Hashable]:
    return lambda entries: frozenset((key(name), value(each)) for name, each in entries.items())
