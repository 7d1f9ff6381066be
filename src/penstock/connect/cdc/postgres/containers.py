"""PostgreSQL's texts of arrays and hstores, taken apart. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from penstock.connect.errors import DataError

Elements: TypeAlias = "list[str | Elements | None]"
"""An array's elements: texts, None for NULL, and lists for further dimensions."""

_DIMENSIONS: Final = re.compile(r"(\[[-+]?\d+:[-+]?\d+\])+=")
_ARRAY_TOKENS: Final = {
    delimiter: re.compile(
        rf'\s*(?:([{{}}])|"((?:[^"\\]|\\.)*)"|((?:[^{{}}"{delimiter}\\]|\\.)+))\s*', re.DOTALL
    )
    for delimiter in ",;"
}
"""Braces, quoted and plain elements, by the delimiter of the element's type: ; for boxes, else a comma."""
_HSTORE_PAIR: Final = re.compile(r'\s*"((?:[^"\\]|\\.)*)"=>(?:NULL|"((?:[^"\\]|\\.)*)")\s*', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def read_array(text: str, delimiter: str = ",") -> Elements:
    """Read an array such as ``{1,NULL,"a b"}``; lower bounds are left out. Raises DataError."""
    pattern = _ARRAY_TOKENS[delimiter]
    bounds = _DIMENSIONS.match(text)
    position = bounds.end() if bounds else 0
    open_arrays: list[Elements] = [[]]
    while position < len(text):
        if text[position] == delimiter:
            position += 1
            continue
        token = pattern.match(text, position)
        if token is None:
            break
        position = token.end()
        brace, quoted, plain = token.groups()
        if brace == "{":
            open_arrays.append([])
        elif brace == "}":
            closed = open_arrays.pop()
            if not open_arrays:
                break
            open_arrays[-1].append(closed)
        elif quoted is not None:
            open_arrays[-1].append(_ESCAPE.sub(r"\1", quoted))
        else:
            open_arrays[-1].append(None if plain.upper() == "NULL" else _ESCAPE.sub(r"\1", plain.rstrip()))
    if position != len(text) or len(open_arrays) != 1 or len(open_arrays[0]) != 1:
        raise DataError(f"{text[:100]!r} is not an array such as {{1,NULL,2}}; reading stopped at {position}")
    found = open_arrays[0][0]
    if not isinstance(found, list):
        raise DataError(f"{text[:100]!r} is not an array such as {{1,NULL,2}}")
    return found


def read_hstore(text: str) -> dict[str, str | None]:
    """Read an hstore such as ``"a"=>"1", "b"=>NULL``. Raises DataError."""
    return dict(_hstore_pairs(text))


def _hstore_pairs(text: str) -> Iterator[tuple[str, str | None]]:
    position = 0
    while position < len(text):
        pair = _HSTORE_PAIR.match(text, position)
        if pair is None or (pair.end() < len(text) and text[pair.end()] != ","):
            raise DataError(
                f'{text[:100]!r} is not an hstore such as "a"=>"1"; reading stopped at {position}'
            )
        key, value = pair.groups()
        yield _ESCAPE.sub(r"\1", key), None if value is None else _ESCAPE.sub(r"\1", value)
        position = pair.end() + 1
