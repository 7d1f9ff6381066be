"""The protocol of a pattern's elements, and the simple ones: literals, padding, optional parts.

An element writes a moment and reads a text from a position. Reading returns the position after what was read,
or `MISMATCH`. The fields that were read are kept in a `Reading`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from penstock.sql.evaluation.builtin.times.moments import Moment
from penstock.sql.evaluation.builtin.times.zones import Zone

MISMATCH: Final = -1


@dataclass(slots=True)
class Fields:
    """The fields that were read so far."""

    numbers: dict[str, int] = field(default_factory=dict)
    zone: Zone | None = None
    day_period: tuple[int, int] | None = None
    """The first and last minute of a part of the day, such as the afternoon."""

    def copy(self) -> Fields:
        return Fields(dict(self.numbers), self.zone, self.day_period)


@dataclass(slots=True)
class Reading:
    """A text that is being read."""

    text: str
    english: bool
    """Whether names are American English. Otherwise they are those of Java's `Locale.ROOT`."""
    fields: Fields = field(default_factory=Fields)

    def store(self, name: str, value: int, after: int) -> int:
        """Keep a field. Returns the position after it, or `MISMATCH` if it had another value before."""
        before = self.fields.numbers.get(name)
        self.fields.numbers[name] = value
        return after if before in (None, value) else MISMATCH

    def begins(self, expected: str, at: int) -> bool:
        """Return whether a text stands at a position, in upper or lower case."""
        found = self.text[at : at + len(expected)]
        return found == expected or (len(found) == len(expected) and all(map(_equal, found, expected)))


def _equal(one: str, other: str) -> bool:
    return one == other or one.upper() == other.upper() or one.lower() == other.lower()


class Element(Protocol):
    """A part of a pattern."""

    def write(self, moment: Moment, optional: bool) -> str | None:
        """Format the part.

        Returns None if the moment does not have the field and the part is optional. Raises ValueError if it
        does not have the field, or if the field's value does not fit.
        """

    def read(self, reading: Reading, at: int) -> int:
        """Parse the part at a position."""


@dataclass(frozen=True)
class Literal:
    """A text that stands for itself."""

    text: str

    def write(self, moment: Moment, optional: bool) -> str:
        return self.text

    def read(self, reading: Reading, at: int) -> int:
        return at + len(self.text) if reading.begins(self.text, at) else MISMATCH


@dataclass(frozen=True)
class Padded:
    """An element that is filled to a width with spaces on the left."""

    element: Element
    width: int

    def write(self, moment: Moment, optional: bool) -> str | None:
        written = self.element.write(moment, optional)
        if written is not None and len(written) > self.width:
            raise ValueError(f"found {written!r}, expected at most {self.width} characters")
        return written if written is None else written.rjust(self.width)

    def read(self, reading: Reading, at: int) -> int:
        end = at + self.width
        if end > len(reading.text) or at == len(reading.text):
            return MISMATCH
        begin = at
        while begin < end and reading.text[begin] == " ":
            begin += 1
        cut = replace(reading, text=reading.text[:end])  # shares the fields
        return end if self.element.read(cut, begin) == end else MISMATCH


@dataclass(frozen=True)
class Optional:
    """The part of a pattern in brackets."""

    elements: tuple[Element, ...]

    def write(self, moment: Moment, optional: bool) -> str:
        written = []
        for element in self.elements:
            part = element.write(moment, True)
            if part is None:
                return ""
            written.append(part)
        return "".join(written)

    def read(self, reading: Reading, at: int) -> int:
        before = reading.fields.copy()
        position = at
        for element in self.elements:
            position = element.read(reading, position)
            if position == MISMATCH:
                reading.fields = before
                return at
        return position
