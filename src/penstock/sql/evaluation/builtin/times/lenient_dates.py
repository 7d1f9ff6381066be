"""Dates by the patterns of PARSE_DATE, which ksqlDB reads with `FastDateFormat` of Apache Commons Lang.

Its letters are those of Java's older `SimpleDateFormat`. The text after what the pattern describes is
ignored. A field may be too large: the 32nd of January is the first of February. Where fields contradict each
other, the later one in the pattern counts. Days before 1582-10-15 are those of the Julian calendar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Final, Protocol

from penstock.java.calendar import DAY_MS, CalendarFields
from penstock.sql.evaluation.builtin.times.texts import DAYS, MONTHS, SHORT_DAYS, SHORT_MONTHS
from penstock.sql.evaluation.builtin.times.zones import Zone, offset_zone, zones_by_name
from penstock.sql.evaluation.builtin.times.zones import region as zone_region

_INT_BITS: Final = 31
_LONG_BITS: Final = 63


@dataclass
class _Fields(CalendarFields):
    """The fields that were read, in the order of their reading."""

    zone: Zone = field(default_factory=lambda: offset_zone(0))


class _Element(Protocol):
    def read(self, text: str, at: int, width: int, fields: _Fields) -> int:
        """Parse a text at a position. Returns the position after it, or -1 if the text does not fit."""


@dataclass(frozen=True)
class _Number:
    name: str
    meant: Callable[[int], int] = int

    def read(self, text: str, at: int, width: int, fields: _Fields) -> int:
        """Parse at most ``width`` digits, or else, if it is 0, spaces and any number of digits."""
        end = len(text) if not width else min(at + width, len(text))
        while not width and at < end and text[at].isspace():
            at += 1
        digits = "".join(takewhile(str.isdecimal, text[at:end]))
        if not digits or int(digits) >> _INT_BITS:
            return -1
        fields.store(self.name, self.meant(int(digits)))
        return at + len(digits)


@dataclass(frozen=True)
class _Names:
    name: str
    values: Mapping[str, int]
    """Values by names in lower case, the longest name first."""

    def read(self, text: str, at: int, width: int, fields: _Fields) -> int:
        for name, value in self.values.items():
            if text[at : at + len(name)].lower() == name:
                fields.store(self.name, value)
                return at + len(name)
        return -1


@dataclass(frozen=True)
class _Literal:
    text: str

    def read(self, text: str, at: int, width: int, fields: _Fields) -> int:
        return at + len(self.text) if text.startswith(self.text, at) else -1


@dataclass(frozen=True)
class _Zone:
    offset: re.Pattern[str]
    named: bool = False

    def read(self, text: str, at: int, width: int, fields: _Fields) -> int:
        found = self.offset.match(text, at)
        if found is not None:
            fields.zone = _offset_of(found[0])
            return found.end()
        for full in (True, False) if self.named else ():
            named = zones_by_name(False, full).find(text, at)
            if named is not None:
                fields.zone = zone_region(named[0])
                return at + named[1]
        return -1


def _offset_of(text: str) -> Zone:
    digits = re.sub(r"\D", "", text)
    hours, minutes = (int(digits or 0), 0) if len(digits) < 3 else (int(digits[:-2]), int(digits[-2:]))
    if hours > 23 or minutes > 59:
        raise ValueError(f"found {text!r}, expected an offset of less than a day")
    seconds = (hours * 3600 + minutes * 60) * (-1 if "-" in text else 1)
    return Zone(text, seconds, is_offset=True)


_ISO_OFFSETS: Final = {
    1: _Zone(re.compile(r"Z|[+-]\d{2}")),
    2: _Zone(re.compile(r"Z|[+-]\d{4}")),
    3: _Zone(re.compile(r"Z|[+-]\d{2}:\d{2}")),
}
_ANY_ZONE: Final = _Zone(
    re.compile(r"[+-]\d{4}|GMT[+-]\d{1,2}:\d{2}|GMT|UTC", re.IGNORECASE | re.ASCII), named=True
)


def _names(field_name: str, *names: list[str]) -> _Names:
    values = {name.lower(): value for some in names for value, name in enumerate(some, 1)}
    return _Names(field_name, dict(sorted(values.items(), key=lambda entry: -len(entry[0]))))


def _sunday_first(days: list[str]) -> list[str]:
    return [days[-1], *days[:-1]]


_LETTERS: Final[dict[str, _Element]] = {
    "D": _Number("day of year"),
    "E": _names("weekday", _sunday_first(DAYS), _sunday_first(SHORT_DAYS)),
    "F": _Number("weekday in month"),
    "G": _Names("era", {"before christ": 0, "anno domini": 1, "bc": 0, "ad": 1, "b": 0, "a": 1}),
    "H": _Number("hour"),
    "K": _Number("half-day hour"),
    "S": _Number("milli"),
    "W": _Number("week of month"),
    "a": _Names("half", {"am": 0, "pm": 1, "a": 0, "p": 1}),
    "d": _Number("day"),
    "h": _Number("half-day hour", lambda hour: 0 if hour == 12 else hour),
    "k": _Number("hour", lambda hour: 0 if hour == 24 else hour),
    "m": _Number("minute"),
    "s": _Number("second"),
    "u": _Number("weekday", lambda day: 1 if day == 7 else day + 1),
    "w": _Number("week"),
    "z": _ANY_ZONE,
}


def _short_year(year: int) -> int:
    """Return a year of two digits in the 100 years that began 80 years ago."""
    first = datetime.now(UTC).year - 80
    return first + (year - first) % 100 if year < 100 else year


def _element(letter: str, count: int, pattern: str) -> _Element:
    """Build the element of a letter. Raises ValueError if it stands for no field."""
    match letter:
        case "M" | "L":
            return _names("month", MONTHS, SHORT_MONTHS) if count > 2 else _Number("month")
        case "y" | "Y":
            return _Number("year") if count > 2 else _Number("year", _short_year)
        case "X" if count in _ISO_OFFSETS:
            return _ISO_OFFSETS[count]
        case "Z":
            return _ISO_OFFSETS[3] if count == 2 else _ANY_ZONE
    if letter not in _LETTERS:
        raise ValueError(f"found {letter} in the pattern {pattern!r}, expected a field of a date")
    return _LETTERS[letter]


@lru_cache(maxsize=1000)
def _elements(pattern: str) -> list[tuple[_Element, int]]:
    """Parse a pattern into elements and their widths: only numbers before other numbers have one."""
    elements: list[tuple[_Element, int]] = []
    at = 0
    while at < len(pattern):
        if pattern[at].isascii() and pattern[at].isalpha():
            count = len(pattern[at:]) - len(pattern[at:].lstrip(pattern[at]))
            elements.append((_element(pattern[at], count, pattern), count))
            at += count
        else:
            literal, at = _literal(pattern, at)
            elements.append((_Literal(literal), 0))
    return [
        (element, width if isinstance(element, _Number) and isinstance(after, _Number) else 0)
        for (element, width), (after, _) in pairwise([*elements, (_Literal(""), 0)])
    ]


def _literal(pattern: str, at: int) -> tuple[str, int]:
    """Read a literal up to a letter that is not in quotes. Returns it and the position after it."""
    literal, quoted = "", False
    while at < len(pattern) and (quoted or not (pattern[at].isascii() and pattern[at].isalpha())):
        if pattern[at] != "'" or pattern[at : at + 2] == "''":
            literal += pattern[at]
            at += 2 if pattern[at] == "'" else 1
        else:
            quoted = not quoted
            at += 1
    if quoted:
        raise ValueError(f"found the pattern {pattern!r}, expected a closing quote")
    return literal, at


def parse_date(text: str, pattern: str) -> int:
    """Parse a date, as days since 1970-01-01. Raises ValueError if it doesn't fit, or if it has a time."""
    fields = _Fields()
    at = 0
    for element, width in _elements(pattern):
        at = element.read(text, at, width, fields)
        if at < 0:
            raise ValueError(f"found {text!r}, expected a date in the pattern {pattern!r}")
    local_ms = fields.local_ms()
    days, rest = divmod(local_ms - fields.zone.local_offsets(local_ms // 1000)[0] * 1000, DAY_MS)
    if rest or abs(local_ms) >> _LONG_BITS:
        raise ValueError(f"found {text!r}, expected a date without a time")
    return days
