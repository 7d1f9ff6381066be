"""Texts with places for values, such as ``https://shop/orders/${key}?at=${offset.timestamp}``."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final
from urllib.parse import quote

from penstock.connect.data.json_text import text_of
from penstock.connect.data.struct import Struct
from penstock.connect.definitions.config_types import invalid
from penstock.connect.errors import DataError

_PLACE: Final = re.compile(r"\$\{([^{}]*)\}")


class Template:
    """A text whose places are filled with values by their names, such as ``value.customer.id``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = tuple(name.strip() for name in _PLACE.findall(text))

    def fill(self, lookup: Callable[[str], Any], encode: Callable[[str], str] = str) -> str:
        """Return the text with the value of each name, which `encode` makes fit for its surroundings.

        Raises:
            DataError: a name has no value, or one that is no text, number or boolean.
        """
        if not self.names:
            return self.text
        return _PLACE.sub(lambda place: encode(plain_text(place[1], lookup(place[1].strip()))), self.text)


def in_url(text: str) -> str:
    """Encode a value for a place in a URL, so that it stays within its part of the path or query.

    Raises:
        DataError: the value would lead to another path, or is no valid text.
    """
    if text in ("", ".", ".."):
        raise DataError(f"{text!r} cannot be a part of a URL")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise DataError(f"text with a lone surrogate cannot be a part of a URL: {error}") from error


def known_roots(*roots: str) -> Callable[[str, Any], None]:
    """Return a validator: names in templates begin with one of these."""

    def check(name: str, value: Any) -> None:
        for each in Template(value or "").names:
            if each.partition(".")[0] not in roots:
                raise invalid(name, value, f"${{{each}}} is not known, expected one of: {', '.join(roots)}")

    return check


def plain_text(name: str, value: Any) -> str:
    """Return a value as text. Raises DataError if it has no plain one."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Collection | Struct):
        found = "no value" if value is None else f"a {type(value).__name__}"
        raise DataError(f"${{{name}}} has {found}, expected a text, a number or a boolean")
    return text_of(value)


def inside(value: Any, names: list[str]) -> Any:
    """Return the value at a path of fields, or None if there is none."""
    for name in names:
        if not isinstance(value, Struct | Mapping):
            return None
        value = value.get(name)
    return value
