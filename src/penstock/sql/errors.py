"""The one exception of the language: what is wrong, and where in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
        """A place further on in the same text. It costs what lies between, so that going through a long text
        in steps costs no more than going through it once.
        """
        lines = text.count("\n", self.offset, offset)
        if lines == 0:
            return Place(offset, self.line, self.column + offset - self.offset)
        return Place(offset, self.line + lines, offset - text.rfind("\n", self.offset, offset))


class SqlError(ValueError):
    """Wrong SQL. ``problem`` is the sentence without the place; ``found`` and ``expected`` are set where the
    text does not follow the grammar. Without a text at hand there is no place and no excerpt.
    """

    def __init__(self, problem: str, *, found: str | None = None, expected: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.found = found
        self.expected = expected
        self.place: Place | None = None
        self.excerpt = ""

    def at(self, text: str, offset: int) -> SqlError:
        """The same error with its place, unless it knows it already: the innermost one is the closest. An
        empty text has no places."""
        if self.place is None and text:
            self.place = Place.of(text, offset)
            self.excerpt = excerpt(text, self.place)
        return self

    def __str__(self) -> str:
        if self.place is None:
            return self.problem
        return f"line {self.place.line}, column {self.place.column}: {self.problem}\n{self.excerpt}"


def excerpt(text: str, place: Place) -> str:
    """The line, shortened around the place, and a caret below it."""
    start = place.offset - place.column + 1
    line = text[start:].split("\n", 1)[0].rstrip("\r").replace("\t", " ")
    caret = place.column - 1
    if len(line) > EXCERPT_CHARACTERS_MAX:
        begin = max(0, caret - EXCERPT_CHARACTERS_MAX // 2)
        line, caret = line[begin : begin + EXCERPT_CHARACTERS_MAX], caret - begin
    return f"{line}\n{' ' * caret}^"


def shortened(text: str) -> str:
    """What was found, fit to stand in a sentence."""
    line = " ".join(text.split())
    return line if len(line) <= FOUND_CHARACTERS_MAX else line[: FOUND_CHARACTERS_MAX - 1] + "…"


def listed(names: tuple[str, ...]) -> str:
    """`A, B or C`; what is no word stands in quotes."""
    shown = [name if any(map(str.isalpha, name)) else f"'{name}'" for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def why_unread(error: OSError | UnicodeDecodeError) -> str:
    """Why the text of a file could not be read."""
    return "it is no UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)
