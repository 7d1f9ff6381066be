"""A request as the resources see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.registry.subjects import RegistryError

_INT_MAX = 2**31 - 1
# Any number of zeros may stand before a number, and Python reads no more than some thousand.
_DIGITS_MAX = 100


def not_found() -> RegistryError:
    """No such path; a parameter that is no number names none, either."""
    return RegistryError(404, "HTTP 404 Not Found")


def whole_number(text: str) -> int:
    """As Java reads an Integer. Raises RegistryError 404."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX
    if not is_number or not -_INT_MAX - 1 <= int(text) <= _INT_MAX:
        raise not_found()
    return int(text)


@dataclass(frozen=True, slots=True)
class Asked:
    """``path``: the path's parameters; ``query``: in order, a name may be there several times."""

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
        """Raises RegistryError 404."""
        found = self.text(name)
        return whole_number(found) if found else default

    def page(self) -> dict[str, int]:
        """Raises RegistryError 404."""
        return {"offset": max(0, self.number("offset", 0)), "limit": self.number("limit", -1)}

    @property
    def body(self) -> Mapping[str, Any]:
        """A JSON object. Raises RegistryError."""
        if self.content is None:
            raise RegistryError(422, "the request has no body, expected a JSON object")
        if not isinstance(self.content, dict):
            found = type(self.content).__name__
            raise RegistryError(400, f"the body is a JSON {found}, expected an object")
        return self.content
