"""The values of HEADERS columns, read from a record's headers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.sql.catalog import Column, Role
from penstock.sql.formats.errors import FormatError

Headers = Sequence[tuple[str, bytes | None]]


def _all(headers: Headers) -> list[dict[str, Any]]:
    return [{"KEY": key, "VALUE": value} for key, value in headers]


def _last(wanted: str) -> Callable[[Headers], bytes | None]:
    def find(headers: Headers) -> bytes | None:
        for key, value in reversed(headers):
            if key == wanted:
                return value
        return None

    return find


def headers_reader(columns: Sequence[Column]) -> Callable[[Headers], tuple[Any, ...]]:
    """Build a function that returns the values of header columns from a record's headers.

    A value is the list of all headers, or the value of the last header with the column's key.
    """
    for column in columns:
        if column.role is not Role.HEADERS:
            raise FormatError("found another column, expected one of HEADERS", column.name)
    readers = [_all if each.header is None else _last(each.header) for each in columns]
    return lambda headers: tuple([read(headers) for read in readers])
