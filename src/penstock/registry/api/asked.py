"""The parsed request that the resources receive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.registry.subjects import RequestRefused

_INT_MAX = 2**31 - 1
# A number may have any count of leading zeros, but Python refuses to convert more than a few thousand digits.
_DIGITS_MAX = 100


def not_found() -> RequestRefused:
    """The error for an unknown path, or for a path parameter that should be a number and is not."""
    return RequestRefused(404, "HTTP 404 Not Found")


def whole_number(text: str) -> int:
    """Parse a number with the rules of Java's Integer. Raises RequestRefused 404 for any other text."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX
    if not is_number or not -_INT_MAX - 1 <= int(text) <= _INT_MAX:
        raise not_found()
    return int(text)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request's path parameters, query and JSON content.

    ``query`` is in the order of the request, and a name may occur several times.
    """

    path: Mapping[str, str] = field(default_factory=dict)
    query: tuple[tuple[str, str], ...] = ()
    content: Any = None

    def text(self, name: str, default: str = "") -> str:
        return next((value for key, value in self.query if key == name), default)

    def texts(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]

    def optional(self, name: str) -> str | None:
        return next((value for key, value in self.query if key == name), None)

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return the named number of the query. Raises RequestRefused 404 if it is not a number."""
        found = self.text(name)
        return whole_number(found) if found else default

    def page(self) -> dict[str, int]:
        """Return ``offset`` and ``limit`` of the query. Raises RequestRefused 404 if one is not a number."""
        return {"offset": max(0, self.number("offset", 0)), "limit": self.number("limit", -1)}

    @property
    def body(self) -> Mapping[str, Any]:
        """The content as a JSON object. Raises RequestRefused if it is missing or not an object."""
        if self.content is None:
            raise RequestRefused(422, "the request has no body, expected a JSON object")
        if not isinstance(self.content, dict):
            found = type(self.content).__name__
            raise RequestRefused(400, f"the body is a JSON {found}, expected an object")
        return self.content
