"""Elements of a pattern that are words: months, weekdays, quarters, eras, AM and PM, parts of the day."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from penstock.java import dates
from penstock.sql.evaluation.builtin.times.elements import MISMATCH, Reading
from penstock.sql.evaluation.builtin.times.moments import Moment
from penstock.sql.evaluation.builtin.times.numbers import Number

MONTHS: Final = list(dates.MONTHS)
DAYS: Final = [*dates.WEEKDAYS[1:], dates.WEEKDAYS[0]]
SHORT_MONTHS: Final = [name[:3] for name in MONTHS]
SHORT_DAYS: Final = [name[:3] for name in DAYS]
_QUARTERS: Final = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"]
_HALVES: Final = ["AM", "PM"]
_SHORT_QUARTERS: Final = ["Q1", "Q2", "Q3", "Q4"]
_NUMBERED: Final = [str(number) for number in range(1, 13)]

# Names by field and width, in English and in no language, from the field's least value on.
_NAMES: Final[dict[tuple[str, str], tuple[list[str], list[str]]]] = {
    ("month", "short"): (SHORT_MONTHS, SHORT_MONTHS),
    ("month", "full"): (MONTHS, SHORT_MONTHS),
    ("month", "narrow"): ([name[0] for name in MONTHS], _NUMBERED),
    ("weekday", "short"): (SHORT_DAYS, SHORT_DAYS),
    ("weekday", "full"): (DAYS, SHORT_DAYS),
    ("weekday", "narrow"): ([name[0] for name in DAYS], [name[0] for name in DAYS]),
    ("quarter", "short"): (_SHORT_QUARTERS, _SHORT_QUARTERS),
    ("quarter", "short alone"): (_SHORT_QUARTERS, []),
    ("quarter", "full"): (_QUARTERS, _SHORT_QUARTERS),
    ("quarter", "narrow"): (_NUMBERED[:4], _NUMBERED[:4]),
    ("era", "short"): (["BC", "AD"], ["BC", "AD"]),
    ("era", "full"): (["Before Christ", "Anno Domini"], ["BCE", "CE"]),
    ("era", "narrow"): (["B", "A"], ["BCE", "CE"]),
    ("half", "short"): (_HALVES, _HALVES),
}
_FIRST: Final = {"era": 0, "half": 0}

_NOON: Final = 12 * 60
# The parts of the day in English: from and to which minute, and the name. The first that fits counts.
_PERIODS: Final = (
    ((0, 0), "midnight"),
    ((_NOON, _NOON), "noon"),
    ((18 * 60, 21 * 60), "in the evening"),
    ((6 * 60, _NOON), "in the morning"),
    ((_NOON, 18 * 60), "in the afternoon"),
    ((21 * 60, 6 * 60), "at night"),
)
_HALF_PERIODS: Final = (((0, _NOON), "AM"), ((_NOON, 24 * 60), "PM"))
_NARROW_PERIODS: Final = {"midnight": "mi", "noon": "n", "AM": "a", "PM": "p"}


@cache
def _values(field: str, width: str, english: bool) -> list[tuple[str, int]]:
    """Return names and their values, the longest first. Of those with the same name, the last counts."""
    names = _NAMES[field, width][0 if english else 1]
    values = {name: value for value, name in enumerate(names, _FIRST.get(field, 1))}
    return sorted(values.items(), key=lambda entry: -len(entry[0]))


@dataclass(frozen=True)
class Text:
    """A field by its name. Where names are missing, the field is a number."""

    field: str
    width: str

    def write(self, moment: Moment, optional: bool) -> str | None:
        if optional and not moment.has(self.field):
            return None
        return _NAMES[self.field, self.width][0][moment.get(self.field) - _FIRST.get(self.field, 1)]

    def read(self, reading: Reading, at: int) -> int:
        names = _values(self.field, self.width, reading.english)
        if not names:
            return Number(self.field).read(reading, at)
        for name, value in names:
            if reading.begins(name, at):
                return reading.store(self.field, value, at + len(name))
        return MISMATCH


def includes(period: tuple[int, int], minute: int) -> bool:
    """Return whether a minute of the day is in a part of the day. 24:00 is midnight, too."""
    first, last = period
    if first == last:
        return minute == first or (first == 0 and minute == 24 * 60)
    return first <= minute < last if first < last else minute >= first or minute < last


def middle(period: tuple[int, int]) -> int:
    first, last = period
    return (first + (last - first) % (24 * 60) // 2) % (24 * 60)


@dataclass(frozen=True)
class DayPeriod:
    """The part of the day, such as the afternoon."""

    narrow: bool

    def write(self, moment: Moment, optional: bool) -> str | None:
        if optional and not moment.has("hour"):
            return None
        minute = moment.get("minute of day")
        name = next(name for period, name in _PERIODS if includes(period, minute))
        return self._shown(name)

    def _shown(self, name: str) -> str:
        return _NARROW_PERIODS.get(name, name) if self.narrow else name

    def read(self, reading: Reading, at: int) -> int:
        periods = (*_PERIODS, *_HALF_PERIODS) if reading.english else _HALF_PERIODS
        known = [(self._shown(name) if reading.english else name, period) for period, name in periods]
        for name, period in sorted(known, key=lambda entry: -len(entry[0])):
            if reading.begins(name, at):
                reading.fields.day_period = period
                return at + len(name)
        return MISMATCH
