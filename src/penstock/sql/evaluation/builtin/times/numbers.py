"""Elements of a pattern that are numbers.

Numbers that stand side by side share the digits: all but the first have a fixed width, and the first leaves
enough digits to the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.sql.evaluation.builtin.times.elements import MISMATCH, Reading
from penstock.sql.evaluation.builtin.times.moments import Moment

_MAX_DIGITS: Final = 19
_LONG_BITS: Final = 63
_LONGEST_SIGNED: Final = 10  # Java does not write numbers with a sign and a width of 11 to 18 digits
FIXED: Final = -1
_FIRST_SHORT_YEAR: Final = 2000


class Sign(Enum):
    """When a number has a sign."""

    NORMAL = "a minus only"
    NEVER = "none: negative numbers cannot be written"
    IF_LONG = "a minus, and a plus before a number that is longer than its width"


@dataclass(frozen=True)
class Number:
    """A number with a least and a greatest width."""

    field: str
    least: int = 1
    greatest: int = _MAX_DIGITS
    sign: Sign = Sign.NORMAL
    left: int = 0
    """How many digits the numbers after this one need, or `FIXED` if this number has a fixed width."""

    def __post_init__(self) -> None:
        if self.least > self.greatest and self.field != "week year":
            raise ValueError(f"found {self.least} letters, expected {self.greatest} at most")

    def is_fixed(self) -> bool:
        return self.left == FIXED or (
            self.left > 0 and self.least == self.greatest and self.sign == Sign.NEVER
        )

    def has_one_width(self) -> bool:
        """Return whether the number can take digits from one before it."""
        return self.least == self.greatest and self.sign == Sign.NEVER

    def shown(self, value: int) -> int:
        return value

    def meant(self, number: int, digits: int) -> int:
        """Return the field's value for a number of so many digits."""
        return number

    def write(self, moment: Moment, optional: bool) -> str | None:
        if optional and not moment.has(self.field):
            return None
        value = self.shown(moment.get(self.field))
        digits = str(abs(value))
        if len(digits) > self.greatest:
            raise ValueError(f"found {value} for the {self.field}, expected at most {self.greatest} digits")
        if value >= 0 and self.sign == Sign.IF_LONG and _LONGEST_SIGNED < self.least < _MAX_DIGITS:
            raise ValueError(f"found {self.least} letters, expected {_LONGEST_SIGNED} at most")
        sign = "-" if value < 0 else ""
        if value < 0 and self.sign == Sign.NEVER:
            raise ValueError(f"found {value} for the {self.field}, expected no negative number")
        if self.sign == Sign.IF_LONG and self.least < _MAX_DIGITS and value >= 10**self.least:
            sign = "+"
        return sign + digits.rjust(self.least, "0")

    def read(self, reading: Reading, at: int) -> int:
        text = reading.text
        begin = at
        sign = text[at : at + 1] if text[at : at + 1] in ("+", "-") else ""
        if (sign == "+" and self.sign != Sign.IF_LONG) or (sign == "-" and self.sign == Sign.NEVER):
            return MISMATCH
        begin += len(sign)
        greatest = self.greatest + max(self.left, 0)
        digits = _digits(text, begin, greatest)
        if digits < self.least:
            return MISMATCH
        if self.left > 0:
            digits = min(digits, max(self.least, digits - self.left))
        if digits > 18 and int(text[begin : begin + digits]).bit_length() > _LONG_BITS:
            digits -= 1
        number = int(text[begin : begin + digits])
        if self._misses_a_sign(sign, digits) or (sign == "-" and number == 0):
            return MISMATCH
        value = self.meant(-number if sign == "-" else number, digits)
        return reading.store(self.field, value, begin + digits)

    def _misses_a_sign(self, sign: str, digits: int) -> bool:
        if self.sign != Sign.IF_LONG or sign == "-":
            return False
        return digits <= self.least if sign else digits > self.least


def _digits(text: str, at: int, most: int) -> int:
    """Count the digits at a position."""
    count = 0
    while count < most and at + count < len(text) and "0" <= text[at + count] <= "9":
        count += 1
    return count


@dataclass(frozen=True)
class ShortYear(Number):
    """A year of two digits, from 2000 to 2099."""

    def shown(self, value: int) -> int:
        return abs(value) % 100

    def meant(self, number: int, digits: int) -> int:
        return number + _FIRST_SHORT_YEAR if digits == self.least and number >= 0 else number


@dataclass(frozen=True)
class Fraction(Number):
    """The first digits of the fraction of a second."""

    def write(self, moment: Moment, optional: bool) -> str | None:
        if optional and not moment.has(self.field):
            return None
        return f"{moment.get(self.field):09d}"[: self.least]

    def read(self, reading: Reading, at: int) -> int:
        if _digits(reading.text, at, self.least) < self.least:
            return MISMATCH
        end = at + self.least
        return reading.store(self.field, int(reading.text[at:end].ljust(9, "0")), end)
