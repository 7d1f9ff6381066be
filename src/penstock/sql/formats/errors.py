"""FormatError, for bytes that are invalid in their format and for rows that a format cannot represent."""

from __future__ import annotations

from typing import Final

from penstock.errors import PenstockError

FOUND_CHARACTERS_MAX: Final = 60


class FormatError(PenstockError, ValueError):
    """A row or its bytes are invalid. ``problem`` describes the error, ``path`` its place (`AMOUNTS[2]`)."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def within(self, step: str) -> FormatError:
        """Prepend a step to the path, a field's name or an index in brackets, and return this error."""
        if not self.path:
            self.path = step
        elif self.path.startswith("["):
            self.path = step + self.path
        else:
            self.path = f"{step}.{self.path}"
        return self

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


def shown(value: object) -> str:
    """Show a value in an error message, shortened."""
    text = repr(value)
    return text if len(text) <= FOUND_CHARACTERS_MAX else text[: FOUND_CHARACTERS_MAX - 1] + "…"


def mismatch(value: object, expected: object) -> FormatError:
    return FormatError(f"found {type(value).__name__} {shown(value)}, expected {expected}")
