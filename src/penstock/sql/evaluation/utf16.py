"""Strings as Java sees them: as sequences of UTF-16 code units.

In Java a character outside the basic multilingual plane is a pair of surrogates, which counts as two and
which a function can take apart. A string of units has one character of Python for each code unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LAST_OF_THE_PLANE: Final = "\uffff"


def length(text: str) -> int:
    """The number of code units."""
    if text.isascii():
        return len(text)
    return len(text) + sum(letter > _LAST_OF_THE_PLANE for letter in text)


def units_of(text: str) -> str:
    """Split each character outside the basic plane into its two surrogates."""
    if text.isascii() or max(text) <= _LAST_OF_THE_PLANE:
        return text
    return "".join([letter if letter <= _LAST_OF_THE_PLANE else _pair_of(letter) for letter in text])


def _pair_of(letter: str) -> str:
    high, low = divmod(ord(letter) - 0x10000, 0x400)
    return chr(0xD800 + high) + chr(0xDC00 + low)


def text_of(units: str) -> str:
    """Join pairs of surrogates to characters. A surrogate without its other half stays as it is."""
    if units.isascii():
        return units
    return _PAIR.sub(_joined, units)


def _joined(pair: re.Match[str]) -> str:
    return pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def in_units(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of strings, or of bytes, work on strings of units."""

    @wraps(function)
    def of_values(*values: Any) -> Any:
        made = function(*[units_of(value) if isinstance(value, str) else value for value in values])
        return text_of(made) if isinstance(made, str) else made

    return of_values
