"""Fields of values, which are structs with a schema or maps without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.connect.data.struct import Struct


def own_field(value: Any, name: str) -> Any:
    """Return a field of a struct or a map; None if there is none."""
    return value.get(name) if isinstance(value, Struct | Mapping) else None


def field_of(value: Any, name: str) -> Any:
    """Return a field, or without one of that name the one at a path with dots; None if there is none."""
    if (found := own_field(value, name)) is not None or "." not in name:
        return found
    first, _, rest = name.partition(".")
    return field_of(own_field(value, first), rest)
