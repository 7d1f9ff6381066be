"""SqlError, the one exception of the language, with the problem and its place in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.errors import PenstockError

EXCERPT_CHARACTERS_MAX: Final = 100
FOUND_CHARACTERS_MAX: Final = 40


@dataclass(frozen=True)
class Place:
    """A place in a text: lines and columns count from 1, the offset from 0."""

    offset: int
    line: int
    column: int

    @classmethod
    def of(cls, text: str, offset: int) -> Place:
        return cls(0, 1, 1).moved(text, offset)

    def moved(self, text: str, offset: int) -> Place:
        """The place at a later offset of the same text.

        It scans only the text in between, so advancing through a long text in steps costs one scan in total.
        """
        lines = text.count("\n", self.offset, offset)
        if lines == 0:
            return Place(offset, self.line, self.column + offset - self.offset)
        return Place(offset, self.line + lines, offset - text.rfind("\n", self.offset, offset))


class SqlError(PenstockError, ValueError):
    """An error in a SQL text.

    ``problem`` is the message without the place. ``found`` and ``expected`` are set for syntax errors. An
    error raised without access to the text has no place and no excerpt.
    """

    def __init__(self, problem: str, *, found: str | None = None, expected: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.found = found
        self.expected = expected
        self.place: Place | None = None
        self.excerpt = ""

    def at(self, text: str, offset: int) -> SqlError:
        """Set the place of this error and return it. A place already set stays, as it is more precise.

        An empty text has no places.
        """
        if self.place is None and text:
            self.place = Place.of(text, offset)
            self.excerpt = excerpt(text, self.place)
        return self

    def __str__(self) -> str:
        if self.place is None:
            return self.problem
        return f"line {self.place.line}, column {self.place.column}: {self.problem}\n{self.excerpt}"


def excerpt(text: str, place: Place) -> str:
    """Show the line of a place, shortened around it, with a caret below the place."""
    start = place.offset - place.column + 1
    line = text[start:].split("\n", 1)[0].rstrip("\r").replace("\t", " ")
    caret = place.column - 1
    if len(line) > EXCERPT_CHARACTERS_MAX:
        begin = max(0, caret - EXCERPT_CHARACTERS_MAX // 2)
        line, caret = line[begin : begin + EXCERPT_CHARACTERS_MAX], caret - begin
    return f"{line}\n{' ' * caret}^"


def shortened(text: str) -> str:
    """Reduce a text to one short line that fits into an error message."""
    line = " ".join(text.split())
    return line if len(line) <= FOUND_CHARACTERS_MAX else line[: FOUND_CHARACTERS_MAX - 1] + "…"


def listed(names: tuple[str, ...]) -> str:
    """Join names as `A, B or C`, with symbols in quotes."""
    shown = [name if any(map(str.isalpha, name)) else f"'{name}'" for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def why_unread(error: OSError | UnicodeDecodeError) -> str:
    """Describe why a text file could not be read."""
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)
