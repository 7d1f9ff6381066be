"""Patterns of Java's `DateTimeFormatter`: what each letter and number of letters stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final

from penstock.sql.evaluation.builtin.times.elements import (
    MISMATCH,
    Element,
    Literal,
    Optional,
    Padded,
    Reading,
)
from penstock.sql.evaluation.builtin.times.moments import Moment
from penstock.sql.evaluation.builtin.times.numbers import FIXED, Fraction, Number, ShortYear, Sign
from penstock.sql.evaluation.builtin.times.resolving import Resolved, resolve
from penstock.sql.evaluation.builtin.times.texts import DayPeriod, Text
from penstock.sql.evaluation.builtin.times.zone_texts import GmtOffset, Offset, ZoneIdentifier, ZoneName

_WIDTHS: Final = {1: "short", 2: "short", 3: "short", 4: "full", 5: "narrow"}


def _year(field: str, count: int) -> Element:
    if count == 2:
        return ShortYear(field, 2, 2, Sign.NEVER)
    return Number(field, count, sign=Sign.NORMAL if count < 4 else Sign.IF_LONG)


def _number(field: str, count: int, most: int = 2) -> Element:
    """Build a number of any width for one letter, and else of as many digits as there are letters."""
    _check(count, most)
    return Number(field) if count == 1 else Number(field, count, count, Sign.NEVER)


def _sized(field: str, count: int, most: int = 2) -> Element:
    """Build a number that has as many digits as there are letters, at least."""
    _check(count, most)
    return Number(field, count, most, Sign.NEVER)


def _check(count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"found {count} letters, expected {most} at most")


def _text(field: str, count: int) -> Element:
    _check(count, 5)
    return Text(field, _WIDTHS[count])


def _text_or_number(field: str, count: int) -> Element:
    return _number(field, count) if count < 3 else _text(field, count)


def _local_weekday(letter: str, count: int) -> Element:
    if count > 2:
        return _text("weekday", count)
    if letter == "c" and count == 2:
        raise ValueError("found 2 letters, expected another number of them")
    return Number("local weekday", count, count, Sign.NEVER)


def _quarter_alone(count: int) -> Element:
    return Text("quarter", "short alone") if count == 3 else _text_or_number("quarter", count)


def _day_of_year(count: int) -> Element:
    _check(count, 3)
    return Number("day of year") if count == 1 else Number("day of year", count, 3, Sign.NEVER)


def _half(count: int) -> Element:
    _check(count, 1)
    return Text("half", "short")


def _one_of(counts: tuple[int, ...], build: Callable[[int], Element]) -> Callable[[int], Element]:
    def checked(count: int) -> Element:
        if count not in counts:
            raise ValueError(f"found {count} letters, expected {' or '.join(map(str, counts))}")
        return build(count)

    return checked


def _zone_name(count: int) -> Element:
    _check(count, 4)
    return ZoneName(full=count == 4, generic=False)


def _offset(count: int) -> Element:
    _check(count, 5)
    if count == 4:
        return GmtOffset(full=True)
    return Offset("Z", colon=True, seconds=True) if count == 5 else Offset("+0000")


def _iso_offset(zero: str, count: int) -> Element:
    _check(count, 5)
    colon = count in (3, 5)
    zero = zero or ("+00" if count == 1 else "+00:00" if colon else "+0000")
    return Offset(zero, colon, minutes=count > 1, seconds=count > 3)


def _fraction(count: int) -> Element:
    _check(count, 9)
    return Fraction("nano", count, count, Sign.NEVER)


_LETTERS: Final[dict[str, Callable[[int], Element]]] = {
    "G": partial(_text, "era"),
    "u": partial(_year, "year"),
    "y": partial(_year, "year of era"),
    "Y": partial(_year, "week year"),
    "Q": partial(_text_or_number, "quarter"),
    "q": _quarter_alone,
    "M": partial(_text_or_number, "month"),
    "L": partial(_text_or_number, "month"),
    "w": partial(_sized, "week"),
    "W": partial(_sized, "week of month", most=1),
    "F": partial(_number, "aligned weekday of month", most=1),
    "E": partial(_text, "weekday"),
    "e": partial(_local_weekday, "e"),
    "c": partial(_local_weekday, "c"),
    "d": partial(_number, "day"),
    "D": _day_of_year,
    "g": lambda count: Number("julian day", count),
    "a": _half,
    "B": _one_of((1, 4, 5), lambda count: DayPeriod(narrow=count == 5)),
    "h": partial(_number, "half-day clock hour"),
    "K": partial(_number, "half-day hour"),
    "H": partial(_number, "hour"),
    "k": partial(_number, "clock hour"),
    "m": partial(_number, "minute"),
    "s": partial(_number, "second"),
    "S": _fraction,
    "A": partial(_sized, "milli of day", most=19),
    "n": partial(_sized, "nano", most=19),
    "N": partial(_sized, "nano of day", most=19),
    "V": _one_of((2,), lambda count: ZoneIdentifier()),
    "v": _one_of((1, 4), lambda count: ZoneName(full=count == 4, generic=True)),
    "z": _zone_name,
    "Z": _offset,
    "O": _one_of((1, 4), lambda count: GmtOffset(full=count == 4)),
    "X": partial(_iso_offset, "Z"),
    "x": partial(_iso_offset, ""),
}


class _Builder:
    """The elements of a pattern, or of an optional part of it."""

    def __init__(self) -> None:
        self.elements: list[Element] = []
        self._number: int | None = None
        """The index of the number that the numbers after it take digits from."""

    def add(self, element: Element) -> None:
        self.elements.append(element)
        self._number = None

    def add_number(self, number: Number, padding: int) -> None:
        """Add a number. It takes its digits from a number right before it, if its width is fixed and
        it is not padded.
        """
        at = len(self.elements)
        index = None if padding else self._number
        if index is None:
            self.add(_padded(number, padding))
            self._number = at
            return
        first = self.elements[index]
        if not isinstance(first, Number):
            raise ValueError("found a number right after a padded one, expected something between them")
        if number.has_one_width():
            self.elements[index] = replace(first, left=max(first.left, 0) + number.greatest)
            self.add(_padded(replace(number, left=FIXED), padding))
            self._number = index
        else:
            self.elements[index] = replace(first, left=FIXED)
            self.add(_padded(number, padding))
            self._number = at


def _padded(element: Element, padding: int) -> Element:
    return Padded(element, padding) if padding else element


class _Parser:
    """Parses a pattern into elements. Its methods raise ValueError if the pattern is wrong."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open = [_Builder()]

    def parse(self) -> tuple[Element, ...]:
        while self._at < len(self._text):
            self._parse_part(self._text[self._at])
        while len(self._open) > 1:
            self._close()
        return tuple(self._open[0].elements)

    def _parse_part(self, character: str) -> None:
        if character.isascii() and character.isalpha():
            self._parse_letters()
            return
        if character == "'":
            self._parse_quoted()
            return
        self._at += 1
        if character == "[":
            self._open.append(_Builder())
        elif character == "]":
            if len(self._open) == 1:
                raise self._error("found ]", "[ before it")
            self._close()
        elif character in "{}#":
            raise self._error(f"found {character}", "it in quotes")
        else:
            self._open[-1].add(Literal(character))

    def _close(self) -> None:
        part = self._open.pop()
        self._open[-1].add(Optional(tuple(part.elements)))

    def _error(self, found: str, expected: str) -> ValueError:
        return ValueError(f"{found} in the pattern {self._text!r}, expected {expected}")

    def _run(self) -> tuple[str, int]:
        """Take equal letters. Returns the letter and their number."""
        letter = self._text[self._at]
        rest = self._text[self._at :]
        count = len(rest) - len(rest.lstrip(letter))
        self._at += count
        return letter, count

    def _parse_letters(self) -> None:
        letter, count = self._run()
        padding = 0
        if letter == "p":
            following = self._text[self._at : self._at + 1]
            if not (following.isascii() and following.isalpha()):
                raise self._error("found p", "a field after it")
            padding = count
            letter, count = self._run()
        build = _LETTERS.get(letter)
        if build is None:
            raise self._error(f"found {letter}", "a known field")
        try:
            element = build(count)
            self._add(element, padding)
        except ValueError as error:
            raise ValueError(f"{error} for {letter} in the pattern {self._text!r}") from None

    def _add(self, element: Element, padding: int) -> None:
        builder = self._open[-1]
        if isinstance(element, Number):
            builder.add_number(element, padding)
        else:
            builder.add(_padded(element, padding))

    def _parse_quoted(self) -> None:
        end = self._at + 1
        while True:
            end = self._text.find("'", end)
            if end < 0:
                raise self._error(f"found {self._text[self._at :]!r}", "a closing quote")
            if self._text[end + 1 : end + 2] != "'":
                break
            end += 2
        literal = self._text[self._at + 1 : end].replace("''", "'") or "'"
        self._open[-1].add(Literal(literal))
        self._at = end + 1


class Pattern:
    """A parsed pattern. The constructor raises ValueError if it is wrong."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._elements = _Parser(text).parse()

    def write(self, moment: Moment) -> str:
        """Format a moment. Raises ValueError if it does not have the fields, or they do not fit."""
        return "".join([element.write(moment, False) or "" for element in self._elements])

    def read(self, text: str, *, english: bool = False) -> Resolved:
        """Parse a text. Raises ValueError if it does not match the pattern, or is no date or time.

        Names are in English, or else in no language.
        """
        reading = Reading(text, english)
        at = 0
        for element in self._elements:
            at = element.read(reading, at)
            if at == MISMATCH:
                break
        if at != len(text):
            raise ValueError(f"found {text!r}, expected a time in the pattern {self._text!r}")
        return resolve(reading.fields)


@lru_cache(maxsize=1000)
def pattern_of(text: str) -> Pattern:
    return Pattern(text)
