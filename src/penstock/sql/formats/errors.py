"""Bytes that are no row of their format, and rows that a format can't carry."""

from __future__ import annotations

from typing import Final

FOUND_CHARACTERS_MAX: Final = 60


class FormatError(ValueError):
    """``problem`` says what was found and what was expected; ``path`` is where, such as `AMOUNTS[2]`."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def within(self, step: str) -> FormatError:
        """The same error, one step further out: a field's name, or an index in brackets."""
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
    """A value in a sentence about it."""
    text = repr(value)
    return text if len(text) <= FOUND_CHARACTERS_MAX else text[: FOUND_CHARACTERS_MAX - 1] + "…"


def mismatch(value: object, expected: object) -> FormatError:
    return FormatError(f"found {type(value).__name__} {shown(value)}, expected {expected}")
