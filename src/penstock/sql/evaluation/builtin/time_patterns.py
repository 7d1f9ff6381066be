"""Formatting and parsing of times by patterns of Java's DateTimeFormatter."""

from __future__ import annotations

import re
from calendar import day_abbr, day_name, month_abbr, month_name, monthrange
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAY_MS: Final = 86_400_000
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")
_MONTHS: Final = {name.lower(): number for number, name in enumerate(month_name) if name}
_MONTHS_SHORT: Final = {name.lower(): number for number, name in enumerate(month_abbr) if name}


_SHORT_ZONES: Final = {
    **dict.fromkeys(("PST", "PDT"), "America/Los_Angeles"),
    **dict.fromkeys(("MST", "MDT"), "America/Denver"),
    **dict.fromkeys(("CST", "CDT"), "America/Chicago"),
    **dict.fromkeys(("EST", "EDT"), "America/New_York"),
    **dict.fromkeys(("CET", "CEST"), "Europe/Paris"),
    "BST": "Europe/London",
    "JST": "Asia/Tokyo",
    "IST": "Asia/Kolkata",
}


@lru_cache(maxsize=256)
def zone_of(name: str) -> timezone | ZoneInfo:
    """Look up a time zone by name, UTC, or an offset such as +02:00. Raises ValueError if it is unknown."""
    name = _SHORT_ZONES.get(name, name)
    if name in ("Z", "z", "UTC", "GMT"):
        return UTC
    offset = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?", name)
    if offset is None:
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"found {name!r}, expected a time zone such as Europe/Berlin") from None
    minutes = int(offset[2]) * 60 + int(offset[3] or 0)
    return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))


@dataclass
class Parts:
    """The fields that a pattern parsed from a text."""

    numbers: dict[str, int] = field(default_factory=dict)
    zone: str | None = None

    def day(self) -> date:
        numbers = self.numbers
        year = numbers.get("year", 1970)
        if "day_of_year" in numbers:
            return date(year, 1, 1) + timedelta(days=numbers["day_of_year"] - 1)
        month = numbers.get("month", 1)
        # As in Java, a day up to the 31st that is beyond the month's end becomes its last day.
        return date(year, month, min(numbers.get("day", 1), monthrange(year, month)[1]))

    def of_day_ms(self) -> int:
        """The time of day in ms. 24:00 is the end of the day."""
        numbers = self.numbers
        if "milli_of_day" in numbers:
            return numbers["milli_of_day"]
        hour = numbers.get("hour", 0)
        if "half_hour" in numbers:
            hour = numbers["half_hour"] % 12 + 12 * numbers.get("half", 0)
        seconds = (hour * 60 + numbers.get("minute", 0)) * 60 + numbers.get("second", 0)
        made = seconds * 1000 + numbers.get("nano", 0) // 1_000_000
        if made > DAY_MS:
            raise ValueError(f"found {made} ms of a day, expected {DAY_MS} at most")
        return made


@dataclass(frozen=True)
class Piece:
    """One field of a pattern, or a literal text in it."""

    expression: str
    write: Callable[[datetime], str]
    name: str = ""
    read: Callable[[str], int] = int


def _number(width: int, name: str, of: Callable[[datetime], int], span: range) -> Piece:
    """Build a numeric field with values in ``span``."""
    digits_max = len(str(span[-1]))
    expression = rf"\d{{{width}}}" if width > 1 else rf"\d{{1,{digits_max}}}"

    def read(text: str) -> int:
        if int(text) not in span:
            raise ValueError(
                f"found {text} for the {name.replace('_', ' ')}, expected {span[0]} to {span[-1]}"
            )
        return int(text)

    return Piece(expression, lambda at: f"{of(at):0{width}d}", name, read)


def _of_24(piece: Piece) -> Piece:
    """Change an hour field to read 24 as the first hour of the day."""
    return replace(piece, read=lambda text: piece.read(text) % 24)


def _text(names: Mapping[str, int], name: str, of: Callable[[datetime], str]) -> Piece:
    known = sorted(names, key=len, reverse=True)
    return Piece("|".join(map(re.escape, known)), of, name, lambda text: names[text.lower()])


def _year(width: int) -> Piece:
    if width == 2:
        return Piece(r"\d{2}", lambda at: f"{at.year % 100:02d}", "year", lambda text: 2000 + int(text))
    expression = r"[+-]?\d{4,9}" if width != 1 else r"[+-]?\d{1,9}"
    return Piece(r"\d{4}" if width == 4 else expression, lambda at: f"{at.year:0{width}d}", "year")


def _fraction(width: int) -> Piece:
    def write(at: datetime) -> str:
        return f"{at.microsecond * 1000:09d}"[:width]

    return Piece(rf"\d{{{width}}}", write, "nano", lambda text: int(text.ljust(9, "0")))


def _offset(width: int, zero: str) -> Callable[[datetime], str]:
    def write(at: datetime) -> str:
        offset = at.utcoffset() or timedelta()
        if not offset and zero:
            return zero
        minutes = int(offset.total_seconds()) // 60
        sign, minutes = ("-", -minutes) if minutes < 0 else ("+", minutes)
        hours, rest = divmod(minutes, 60)
        if width == 1:
            return f"{sign}{hours:02d}" + (f"{rest:02d}" if rest else "")
        return f"{sign}{hours:02d}{':' if width in (3, 5) else ''}{rest:02d}"

    return write


_OFFSET: Final = r"Z|[+-]\d{2}(?::?\d{2})?"
_ZONE: Final = r"[A-Za-z][A-Za-z0-9_/+-]*(?:[+-]\d{1,2}(?::\d{2})?)?|[+-]\d{2}:\d{2}"


def _zone_name(at: datetime) -> str:
    zone = at.tzinfo
    return zone.key if isinstance(zone, ZoneInfo) else _offset(3, "Z")(at)


def _piece(letter: str, width: int, pattern: str) -> Piece:
    match letter:
        case "y" | "u":
            return _year(width)
        case "M" | "L" if width == 3:
            return _text(_MONTHS_SHORT, "month", lambda at: month_abbr[at.month])
        case "M" | "L" if width == 4:
            return _text(_MONTHS, "month", lambda at: month_name[at.month])
        case "M" | "L":
            return _number(width, "month", lambda at: at.month, range(1, 13))
        case "d":
            return _number(width, "day", lambda at: at.day, range(1, 32))
        case "D":
            return _number(width, "day_of_year", lambda at: at.timetuple().tm_yday, range(1, 367))
        case "E":
            days = day_name if width == 4 else day_abbr
            known = {name.lower(): number for number, name in enumerate(days)}
            return _text(known, "", lambda at: days[at.weekday()])
        case "H":
            return _number(width, "hour", lambda at: at.hour, range(25))
        case "k":
            return _of_24(_number(width, "hour", lambda at: at.hour or 24, range(1, 25)))
        case "h":
            return _number(width, "half_hour", lambda at: at.hour % 12 or 12, range(1, 13))
        case "K":
            return _number(width, "half_hour", lambda at: at.hour % 12, range(12))
        case "a":
            return _text({"am": 0, "pm": 1}, "half", lambda at: "PM" if at.hour >= 12 else "AM")
        case "m":
            return _number(width, "minute", lambda at: at.minute, range(60))
        case "s":
            return _number(width, "second", lambda at: at.second, range(60))
        case "S":
            return _fraction(width)
        case "n":
            return _number(width, "nano", lambda at: at.microsecond * 1000, range(10**9))
        case "A":
            return _number(width, "milli_of_day", _milli_of_day, range(DAY_MS))
        case "X":
            return Piece(_OFFSET, _offset(width, "Z"), "zone")
        case "x":
            return Piece(_OFFSET, _offset(width, ""), "zone")
        case "Z" if width < 4:
            return Piece(_OFFSET, _offset(2, ""), "zone")
        case "V":
            return Piece(_ZONE, _zone_name, "zone")
        case "z":
            return Piece(_ZONE, lambda at: at.tzname() or "", "zone")
        case "G":
            return Piece("AD", lambda at: "AD")
    raise ValueError(f"found {letter * width} in the pattern {pattern!r}, expected a known field")


def _milli_of_day(at: datetime) -> int:
    return ((at.hour * 60 + at.minute) * 60 + at.second) * 1000 + at.microsecond // 1000


class Pattern:
    """A parsed pattern. The constructor raises ValueError for letters that are not fields."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces: list[Piece] = []
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise ValueError(f"found {text[at:]!r} in the pattern {text!r}, expected a closing quote")
            quoted, letter, other = token.groups()
            if letter is not None:
                self._pieces.append(_piece(letter, token.end() - at, text))
            else:
                literal = other if quoted is None else quoted.replace("''", "'") or "'"
                self._pieces.append(Piece(re.escape(literal), lambda _, literal=literal: literal))  # type: ignore[misc]
            at = token.end()
        self._expression = re.compile(
            "".join(f"({piece.expression})" for piece in self._pieces), re.IGNORECASE
        )

    def write(self, at: datetime) -> str:
        return "".join([piece.write(at) for piece in self._pieces])

    def read(self, text: str, *, to_the_end: bool = True) -> Parts:
        """Parse a text. Raises ValueError if it does not match the pattern.

        The whole text must match, or only its start unless ``to_the_end``.
        """
        found = self._expression.fullmatch(text) if to_the_end else self._expression.match(text)
        if found is None:
            raise ValueError(f"found {text!r}, expected a time in the pattern {self._text!r}")
        parts = Parts()
        for piece, part in zip(self._pieces, found.groups(), strict=True):
            if piece.name == "zone":
                parts.zone = part
            elif piece.name:
                parts.numbers[piece.name] = piece.read(part)
        return parts


@lru_cache(maxsize=512)
def pattern_of(text: str) -> Pattern:
    return Pattern(text)
