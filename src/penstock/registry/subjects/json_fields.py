"""Read the JSON of requests and records as leniently as Jackson: scalars become text, digits numbers.

Unknown fields are ignored. A value that doesn't fit at all raises RequestRefused 400.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from penstock.registry.subjects.errors import RequestRefused

Json: TypeAlias = Any  # a JSON value, as `json` reads and writes it


def an_object(value: Json, what: str) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise _mismatch(what, "an object", value)
    return value


def an_array(value: Json, what: str) -> Sequence[Json]:
    if not isinstance(value, list | tuple):
        raise _mismatch(what, "an array", value)
    return value


def a_text(value: Json, what: str) -> str:
    if isinstance(value, str):
        if not value.isascii() and any(0xD800 <= ord(each) <= 0xDFFF for each in value):
            raise _mismatch(what, "text without half surrogate pairs", value)
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise _mismatch(what, "a string", value)


def text(found: Mapping[str, Json], name: str, what: str) -> str | None:
    value = found.get(name)
    return None if value is None else a_text(value, f"{what}.{name}")


def boolean(found: Mapping[str, Json], name: str, what: str) -> bool | None:
    value = found.get(name)
    if isinstance(value, str) and value.strip() in ("true", "false"):
        return value.strip() == "true"
    if value is None or isinstance(value, bool):
        return value
    raise _mismatch(f"{what}.{name}", "true or false", value)


def integer(found: Mapping[str, Json], name: str, what: str) -> int | None:
    """Return a 32-bit number."""
    value = found.get(name)
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            raise _mismatch(f"{what}.{name}", "a number", value) from None
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # some languages write all numbers as floating point
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise _mismatch(f"{what}.{name}", "a 32-bit number", value)
    return value


def one_of(found: Mapping[str, Json], name: str, allowed: Sequence[str], what: str) -> str | None:
    value = text(found, name, what)
    if value is not None and value not in allowed:
        raise _mismatch(f"{what}.{name}", f"one of {', '.join(allowed)}", value)
    return value


def _mismatch(what: str, expected: str, value: Json) -> RequestRefused:
    shown = repr(value)
    return RequestRefused(
        400, f"{what}: expected {expected}, found {shown if len(shown) <= 100 else shown[:100] + '…'}"
    )
