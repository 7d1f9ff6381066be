"""Finds dates and times in texts as Connect does, by Java's patterns, which it uses leniently.

Where the result has no place in Python's dates and times, the text is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.connect.data.logical import (
    MS_PER_DAY,
    date_of,
    date_schema,
    time_of,
    time_schema,
    timestamp_of,
    timestamp_schema,
)
from penstock.connect.data.schema import Schema
from penstock.connect.errors import DataError
from penstock.java.dates import SimpleDateFormat

_KINDS: Final[dict[int, tuple[SimpleDateFormat, Schema, Callable[[int], Any]]]] = {
    len("HH:mm:ss.SSSZ"): (SimpleDateFormat("HH:mm:ss.SSS'Z'"), time_schema(), time_of),
    len("yyyy-MM-ddTHH:mm:ss.SSSZ"): (
        SimpleDateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),
        timestamp_schema(),
        timestamp_of,
    ),
    len("yyyy-MM-dd"): (
        SimpleDateFormat("yyyy-MM-dd"),
        date_schema(),
        lambda millis: date_of(millis // MS_PER_DAY),
    ),
}
"""Kinds of texts by their length: pattern, schema, and the value of the milliseconds since 1970."""


def parse_temporal(token: str) -> tuple[Schema, Any] | None:
    """Return schema and value if the token is a time, a timestamp or a date; its length tells which."""
    token = token.replace("\\:", ":")
    if (kind := _KINDS.get(len(token))) is None:
        return None
    date_format, schema, value_of = kind
    try:
        millis = date_format.parse(token)
        return None if millis is None else (schema, value_of(millis))
    except DataError:
        return None
