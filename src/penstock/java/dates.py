"""Dates in texts by the patterns of java.text.SimpleDateFormat, in American English and in UTC.

Java parses leniently: a number may be too large, or negative, and text may follow what the pattern describes.
Of the names of time zones, only UTC, GMT and the American ones of RFC 822 are known. Java's formatter keeps a
zone that it parsed by name for later formatting; this one does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

from penstock.java import calendar
from penstock.java.calendar import DAY_MS, CalendarFields

MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

_SHORT_NAME: Final = 3
_LONG_NAME_COUNT: Final = 4
"""A letter that a pattern repeats as often asks for a long name."""
_ISO_OFFSET_MAX: Final = 3
_YEARS_BACK: Final = 80
"""A year of two digits lies in the 100 years that began this many years ago."""
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_BLANKS: Final = re.compile(r"[ \t]*")
_NUMBER: Final = re.compile(r"-?\d+(?:E-?\d+)?")
_LETTERS: Final = re.compile(r"(?P<letter>[A-Za-z])(?P=letter)*")
_LITERAL: Final = re.compile(r"''|'(?P<quoted>(?:[^']|'')*)(?P<end>'?)|[^A-Za-z']+")
_OFFSETS: Final = {
    1: re.compile(r"(?P<sign>[+-])(?P<hours>\d{2})", re.ASCII),
    2: re.compile(r"(?P<sign>[+-])(?P<hours>\d{2})(?P<minutes>\d{2})", re.ASCII),
    3: re.compile(r"(?P<sign>[+-])(?P<hours>\d{2}):(?P<minutes>\d{2})", re.ASCII),
}
_GMT: Final = re.compile(
    r"GMT(?:(?P<sign>[+-])(?P<hours>\d{1,2}):(?P<minutes>\d{2})|(?![+-]))", re.ASCII | re.I
)
_ZONE_HOURS: Final = {
    "coordinated universal time": 0,
    "utc": 0,
    "est": -5,
    "edt": -4,
    "cst": -6,
    "cdt": -5,
    "mst": -7,
    "mdt": -6,
    "pst": -8,
    "pdt": -7,
}
_TIME_FIELDS: Final = {"hour", "half-day hour", "half", "minute", "second", "milli"}
_INT: Final = 1 << 31
_LONG: Final = 1 << 63


class _Moment(NamedTuple):
    """A moment to format: its day since 1970, the date of that day, and the milliseconds of the day."""

    days: int
    date: calendar.Date
    of_day_ms: int

    @property
    def hour(self) -> int:
        return self.of_day_ms // _HOUR_MS


class _Reading:
    """The fields and the zone that were read from a text so far."""

    def __init__(self, century_start: datetime) -> None:
        self.fields = CalendarFields()
        self.century_start = century_start
        self.is_ambiguous = False
        """Whether the year has the last two digits of that in which the 100 years began."""
        self.offset_ms = 0

    def millis(self) -> int:
        millis = self.fields.local_ms() - self.offset_ms
        if self.is_ambiguous and millis < (self.century_start - _EPOCH) // _MILLISECOND:
            for name in {"year", "week year"} & self.fields.values.keys():
                self.fields.values[name] += 100
            millis = self.fields.local_ms() - self.offset_ms
        return (millis + _LONG) % (2 * _LONG) - _LONG

    def full_year(self, year: int) -> int:
        """Return the year that two digits stand for."""
        century, first = divmod(self.century_start.year, 100)
        self.is_ambiguous = year == first
        return century * 100 + year + (100 if year < first else 0)


class _Element(Protocol):
    """A part of a pattern."""

    def show(self, moment: _Moment) -> str: ...

    def read(self, text: str, at: int, end: int | None, reading: _Reading) -> int:
        """Read a text from a position; a number ends at ``end``, if that is given.

        Returns the position after it, or -1 if the text does not fit.
        """


@dataclass(frozen=True)
class _Literal:
    text: str

    def show(self, _moment: _Moment) -> str:
        return self.text

    def read(self, text: str, at: int, _end: int | None, _reading: _Reading) -> int:
        return at + len(self.text) if text.startswith(self.text, at) else -1


@dataclass(frozen=True)
class _Number:
    """A number of at least ``width`` digits."""

    field: str
    width: int
    shown: Callable[[_Moment], int]
    meant: Callable[[int], int] = int
    """The value of the field for a number in a text."""

    def show(self, moment: _Moment) -> str:
        value = self.shown(moment)
        return str(value).zfill(self.width) if value >= 0 else "-" + str(-value).zfill(self.width)

    def read(self, text: str, at: int, end: int | None, reading: _Reading) -> int:
        found = _find_number(text, at, end)
        if found is None:
            return -1
        reading.fields.store(self.field, self.meant(_int(found[0])))
        return found.end()


@dataclass(frozen=True)
class _Year(_Number):
    """A year, of which two letters show and read two digits."""

    def show(self, moment: _Moment) -> str:
        shown = super().show(moment)
        sign = "-" if shown.startswith("-") else ""
        return sign + shown[-2:] if self.width == 2 else shown

    def read(self, text: str, at: int, end: int | None, reading: _Reading) -> int:
        found = _find_number(text, at, end)
        if found is None:
            return -1
        year = _int(found[0])
        if self.width <= 2 and len(found[0]) == 2 and found[0].isdecimal():
            year = reading.full_year(year)
        reading.fields.store(self.field, year)
        return found.end()


@dataclass(frozen=True)
class _Name:
    """One of some names, in upper or lower case."""

    field: str
    names: tuple[str, ...]
    """The names to show, by the values of the field."""
    values: Mapping[str, int]
    """The values of the field by names in lower case, the longest first."""
    shown: Callable[[_Moment], int]

    def show(self, moment: _Moment) -> str:
        return self.names[self.shown(moment)]

    def read(self, text: str, at: int, _end: int | None, reading: _Reading) -> int:
        for name, value in self.values.items():
            if text[at : at + len(name)].lower() == name:
                reading.fields.store(self.field, value)
                return at + len(name)
        return -1


@dataclass(frozen=True)
class _Zone:
    """An offset from UTC as digits (RFC 822 or ISO 8601), or perhaps the name of a zone."""

    utc: str
    offset: re.Pattern[str]
    is_iso: bool

    def show(self, _moment: _Moment) -> str:
        return self.utc

    def read(self, text: str, at: int, _end: int | None, reading: _Reading) -> int:
        at = _after_blanks(text, at)
        if self.is_iso and text.startswith("Z", at):
            reading.offset_ms = 0
            return at + 1
        found = self.offset.match(text, at) or (None if self.is_iso else _GMT.match(text, at))
        if found is not None:
            offset_ms = _offset_ms(**found.groupdict())
            if offset_ms is None:
                return -1
            reading.offset_ms = offset_ms
            return found.end()
        for name, hours in () if self.is_iso else _ZONE_HOURS.items():
            if text[at : at + len(name)].lower() == name:
                reading.offset_ms = hours * _HOUR_MS
                return at + len(name)
        return -1


def _offset_ms(sign: str | None, hours: str | None, minutes: str | None = None) -> int | None:
    """Return the milliseconds of an offset, 0 for none, or None if it is too large."""
    if int(hours or 0) >= 24 or int(minutes or 0) >= 60:
        return None
    return (int(hours or 0) * _HOUR_MS + int(minutes or 0) * _MINUTE_MS) * (-1 if sign == "-" else 1)


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None, "the pattern matches an empty text too"
    return found.end()


def _find_number(text: str, at: int, end: int | None) -> re.Match[str] | None:
    """Find a number after blanks, whose digits end at ``end`` at the latest; the text must be that long."""
    if end is None:
        end = len(text)
    return _NUMBER.match(text, _after_blanks(text, at), end) if end <= len(text) else None


def _int(text: str) -> int:
    """Return the `int` of a number, which is a Long, or a Double if it is too large for one.

    Java wraps the one and takes the nearest `int` for the other.
    """
    value = float(text) if "E" in text else int(text)
    if value != value // 1 or not -_LONG <= value < _LONG:
        return int(max(-_INT, min(_INT - 1, value)))
    return (int(value) + _INT) % (2 * _INT) - _INT


def _names(
    field: str, count: int, names: Iterable[str], shown: Callable[[_Moment], int], first: int = 0
) -> _Name:
    """Build the element of a name. ``first`` is the value of the field for the first name."""
    full = tuple(names)
    short = tuple(name[:_SHORT_NAME] for name in full)
    values = {name.lower(): value for some in (full, short) for value, name in enumerate(some, first)}
    longest_first = dict(sorted(values.items(), key=lambda entry: -len(entry[0])))
    return _Name(field, full if count >= _LONG_NAME_COUNT else short, longest_first, shown)


_NUMBERS: Final[dict[str, tuple[str, Callable[[_Moment], int], Callable[[int], int]]]] = {
    "D": ("day of year", lambda moment: calendar.day_of_year(moment.days), int),
    "F": ("weekday in month", lambda moment: calendar.weekday_in_month(moment.days), int),
    "H": ("hour", lambda moment: moment.hour, int),
    "K": ("half-day hour", lambda moment: moment.hour % 12, int),
    "L": ("month", lambda moment: moment.date.month, int),
    "M": ("month", lambda moment: moment.date.month, int),
    "S": ("milli", lambda moment: moment.of_day_ms % 1000, int),
    "W": ("week of month", lambda moment: calendar.week_of_month(moment.days), int),
    "d": ("day", lambda moment: moment.date.day, int),
    "h": ("half-day hour", lambda moment: moment.hour % 12 or 12, lambda hour: 0 if hour == 12 else hour),
    "k": ("hour", lambda moment: moment.hour or 24, lambda hour: 0 if hour == 24 else hour),
    "m": ("minute", lambda moment: moment.of_day_ms // _MINUTE_MS % 60, int),
    "s": ("second", lambda moment: moment.of_day_ms // 1000 % 60, int),
    "u": (
        "weekday",
        lambda moment: (calendar.weekday_of(moment.days) + 5) % 7 + 1,
        lambda day: day % 7 + 1 if 0 < day <= 7 else day,
    ),
    "w": ("week", lambda moment: calendar.week_and_year(moment.days)[0], int),
}


def _year_of_era(moment: _Moment) -> int:
    return moment.date.year if moment.date.year > 0 else 1 - moment.date.year


def _element(letter: str, count: int) -> _Element:
    """Build the element of a letter that a pattern repeats. Raises ValueError if it stands for no field."""
    match letter:
        case "y":
            return _Year("year", count, _year_of_era)
        case "Y":
            return _Year("week year", count, lambda moment: calendar.week_and_year(moment.days)[1])
        case "M" | "L" if count > 2:
            return _names("month", count, MONTHS, lambda moment: moment.date.month - 1, first=1)
        case "E":
            return _names(
                "weekday", count, WEEKDAYS, lambda moment: calendar.weekday_of(moment.days) - 1, first=1
            )
        case "a":
            return _names("half", count, ("AM", "PM"), lambda moment: moment.hour // 12)
        case "G":
            eras = {"before christ": 0, "anno domini": 1, "bc": 0, "ad": 1}
            return _Name("era", ("BC", "AD"), eras, lambda moment: int(moment.date.year > 0))
        case "z":
            utc = "Coordinated Universal Time" if count >= _LONG_NAME_COUNT else "UTC"
            return _Zone(utc, _OFFSETS[2], is_iso=False)
        case "Z":
            return _Zone("+0000", _OFFSETS[2], is_iso=False)
        case "X":
            if count > _ISO_OFFSET_MAX:
                raise ValueError(f"invalid ISO 8601 format: length={count}")
            return _Zone("Z", _OFFSETS[count], is_iso=True)
    if letter not in _NUMBERS:
        raise ValueError(f"Illegal pattern character '{letter}'")
    field, shown_number, meant = _NUMBERS[letter]
    return _Number(field, count, shown_number, meant)


def _elements(pattern: str) -> list[tuple[_Element, int]]:
    """Split a pattern into elements, and the numbers of their letters. Raises ValueError."""
    elements: list[tuple[_Element, int]] = []
    at = 0
    while at < len(pattern):
        if (letters := _LETTERS.match(pattern, at)) is not None:
            count = letters.end() - at
            elements.append((_element(letters["letter"], count), count))
            at = letters.end()
            continue
        literal = _LITERAL.match(pattern, at)
        assert literal is not None, "a pattern has only letters, quotes and other characters"
        if literal["quoted"] is not None and not literal["end"]:
            raise ValueError("Unterminated quote")
        text = literal[0] if literal["quoted"] is None else literal["quoted"]
        elements.append((_Literal("'" if literal[0] == "''" else text.replace("''", "'")), 0))
        at = literal.end()
    return elements


class _Day(NamedTuple):
    """The texts of one day, kept because most moments are of the same day; a time is an element instead."""

    days: int
    date: calendar.Date
    texts: list[str | _Number | _Name]


class SimpleDateFormat:
    """Formats and parses milliseconds since 1970 in UTC by a pattern."""

    def __init__(self, pattern: str, now: datetime | None = None) -> None:
        """Read a pattern. ``now`` decides the century of years with two digits.

        Raises:
            ValueError: the pattern has a letter without a meaning, or a quote without an end.
        """
        self.pattern = pattern
        now = now or datetime.now(UTC)
        day = 28 if (now.month, now.day) == (2, 29) else now.day
        self._century_start = now.replace(year=now.year - _YEARS_BACK, day=day)
        elements = _elements(pattern)
        following = [*(element for element, _ in elements[1:]), _Literal("")]
        self._elements = [
            (element, count if isinstance(after, _Number) else None)
            for (element, count), after in zip(elements, following, strict=True)
        ]
        """Each element, and the digits of its number if the next one is a number too."""
        self._last_day = self._texts_of(0)

    def format(self, millis: int) -> str:
        """Format milliseconds since 1970 in UTC."""
        days, of_day_ms = divmod(millis, DAY_MS)
        last = self._last_day
        if last.days != days:
            self._last_day = last = self._texts_of(days)
        moment = _Moment(days, last.date, of_day_ms)
        return "".join([each if isinstance(each, str) else each.show(moment) for each in last.texts])

    def _texts_of(self, days: int) -> _Day:
        date = calendar.date_of(days)
        midnight = _Moment(days, date, 0)
        texts: list[str | _Number | _Name] = [""]
        for element, _ in self._elements:
            if isinstance(element, _Number | _Name) and element.field in _TIME_FIELDS:
                texts += [element, ""]
            else:
                texts[-1] = f"{texts[-1]}{element.show(midnight)}"
        return _Day(days, date, texts)

    def parse(self, text: str) -> int | None:
        """Return the milliseconds since 1970 in UTC of a text, or None if it does not fit the pattern."""
        reading = _Reading(self._century_start)
        at = 0
        for element, width in self._elements:
            if not isinstance(element, _Literal) and _after_blanks(text, at) >= len(text):
                return None
            at = element.read(text, at, None if width is None else at + width, reading)
            if at < 0:
                return None
        return reading.millis()
