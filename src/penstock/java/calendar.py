"""Java's GregorianCalendar, with an American week: fields that were set one after another make a moment.

A field may be too large: the 32nd of January is the first of February. Where fields contradict each other,
the later one counts. Days before 1582-10-15 are those of the Julian calendar. A week begins with Sunday, and
the first week of a year or month is the one with its first day.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_DayOf = Callable[[int, int, int], int]
"""A function from year, month and day to the days since 1970."""

DAY_MS: Final = 24 * 60 * 60 * 1000
FIRST_GREGORIAN: Final = -141_427
"""1582-10-15, in days since 1970."""
FIRST_GREGORIAN_YEAR: Final = 1582

_UNITS_MS: Final = {"minute": 60_000, "second": 1000, "milli": 1}
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
_JULIAN_CYCLE_DAYS: Final = 1461
_SUNDAY: Final = 1


def gregorian_day(year: int, month: int, day: int) -> int:
    """Count the days since 1970-01-01. The year begins in March here, so that a leap day is its last."""
    year -= month <= 2
    cycle, year = divmod(year, _CYCLE_YEARS)
    return cycle * _CYCLE_DAYS + year * 365 + year // 4 - year // 100 + _of_march_year(month) + day - 719_469


def julian_day(year: int, month: int, day: int) -> int:
    """Count the days since 1970-01-01 of the Gregorian calendar to a date of the Julian one."""
    year -= month <= 2
    return year * 365 + year // 4 + _of_march_year(month) + day - 719_471


def _of_march_year(month: int) -> int:
    return (153 * ((month + 9) % 12) + 2) // 5


def weekday_of(days: int) -> int:
    """Return 1 for Sunday, the first day of the week, to 7 for Saturday."""
    return (days + 4) % 7 + 1


def on_or_before(days: int, weekday: int) -> int:
    """Return the last day not after this one that is the weekday."""
    return days - (weekday_of(days) - weekday) % 7


class Date(NamedTuple):
    """A day as its year, which is 0 for 1 BC, month and day, each from 1."""

    year: int
    month: int
    day: int


def date_of(days: int) -> Date:
    """Return the date of a day, which is Julian before 1582-10-15."""
    if days >= FIRST_GREGORIAN:
        return gregorian_date(days)
    cycle, of_cycle = divmod(days + 719_470, _JULIAN_CYCLE_DAYS)
    year = (of_cycle - of_cycle // 1460) // 365
    return _date_of_march_year(cycle * 4 + year, of_cycle - 365 * year)


def gregorian_date(days: int) -> Date:
    """Return the date of a day in the Gregorian calendar, which is extended to all years."""
    cycle, of_cycle = divmod(days + 719_468, _CYCLE_DAYS)
    year = (of_cycle - of_cycle // 1460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    of_year = of_cycle - (365 * year + year // 4 - year // 100)
    return _date_of_march_year(cycle * _CYCLE_YEARS + year, of_year)


def _date_of_march_year(year: int, of_year: int) -> Date:
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return Date(year + (month <= 2), month, day)


def day_of_year(days: int) -> int:
    """Return the number of a day in its year, from 1. The year 1582 has 355 days."""
    return days - _new_year(date_of(days).year) + 1


def week_and_year(days: int) -> tuple[int, int]:
    """Return the number of a day's week, and the year to which the week belongs."""
    year = date_of(days).year
    if days >= on_or_before(_new_year(year + 1), _SUNDAY):
        return 1, year + 1
    return (days - on_or_before(_new_year(year), _SUNDAY)) // 7 + 1, year


def week_of_month(days: int) -> int:
    """Return the number of a day's week in its month, from 1."""
    first = _first_of_month(days)
    return (days - on_or_before(first, _SUNDAY)) // 7 + 1


def weekday_in_month(days: int) -> int:
    """Return how many days of the month so far, this one included, are the same weekday."""
    return (days - _first_of_month(days)) // 7 + 1


def _new_year(year: int) -> int:
    return (gregorian_day if year > FIRST_GREGORIAN_YEAR else julian_day)(year, 1, 1)


def _first_of_month(days: int) -> int:
    """Return the first day of the month; in October 1582 ten days are missing."""
    date = date_of(days)
    if date[:2] == (FIRST_GREGORIAN_YEAR, 10):
        return julian_day(*date[:2], 1)
    return days - date.day + 1


@dataclass
class CalendarFields:
    """The fields that were set, in that order.

    Their names: era (0 for BC), year, month (from 1), day, day of year, week year, week, week of month,
    weekday (1 for Sunday), weekday in month, half (1 for PM), half-day hour, hour, minute, second, milli.
    """

    values: dict[str, int] = field(default_factory=dict)

    def store(self, name: str, value: int) -> None:
        """Set a field, which is now the latest."""
        self.values.pop(name, None)
        self.values[name] = value

    def local_ms(self) -> int:
        """Return the milliseconds since 1970 without regard to a time zone."""
        more_days, of_day_ms = divmod(self._of_day_ms(), DAY_MS)
        by = self._last_combination()
        year = self.values.get("year", 1970)
        if self.values.get("era") == 0:
            year = 1 - year
        days = self._days(year, more_days, by, lambda first_of: self._day_in(year, by, first_of))
        if self._order("week year") > self._order("year"):
            days = self._days_of_week_year(more_days, is_before_christ=date_of(days).year <= 0)
        return days * DAY_MS + of_day_ms

    def _order(self, *names: str) -> int:
        """Return when the last of these fields was set, or 0 if any is missing."""
        places = list(self.values)
        return max(places.index(name) + 1 for name in names) if self._has(*names) else 0

    def _last(self, *names: str) -> int:
        """Return when the last of these fields was set, or 0 if all are missing."""
        return max(map(self._order, names))

    def _has(self, *names: str) -> bool:
        return all(name in self.values for name in names)

    def _of_day_ms(self) -> int:
        values = self.values
        of_day, of_half = self._order("hour"), self._order("half-day hour", "half")
        if not of_day and not of_half:
            of_half = self._last("half-day hour", "half")
        hours = values.get("half-day hour", 0) + 12 * values.get("half", 0) if of_half else 0
        if of_day > of_half:
            hours = values["hour"]
        return hours * 3_600_000 + sum(values.get(name, 0) * unit for name, unit in _UNITS_MS.items())

    def _days(self, year: int, more_days: int, by: str, day_in: Callable[[_DayOf], int]) -> int:
        """Return the day in the Gregorian calendar, or in the Julian one before the first Gregorian day.

        ``more_days`` are those of a time that is not within a day.
        """
        gregorian = day_in(gregorian_day) + more_days
        if year > FIRST_GREGORIAN_YEAR and gregorian >= FIRST_GREGORIAN:
            return gregorian
        julian = day_in(julian_day) + more_days
        in_julian_year = by in ("day of year", "week")
        if in_julian_year or year < FIRST_GREGORIAN_YEAR or gregorian < FIRST_GREGORIAN:
            return julian
        return gregorian

    def _days_of_week_year(self, more_days: int, *, is_before_christ: bool) -> int:
        """Return the day by the year of its week (Calendar.setWeekDate), whatever else was set.

        As in Java, the era is that of the day by the other fields.
        """
        week, weekday = self.values.get("week", 1), self.values.get("weekday", 1)
        if not 1 <= weekday <= 7:
            # Java moves such a weekday one day too far.
            more_weeks, weekday = divmod(weekday - 1, 7)
            week += more_weeks
            weekday = (weekday + 1) % 7 + 1
        week_year = self.values["week year"]
        first = on_or_before(_new_year(1 - week_year if is_before_christ else week_year), _SUNDAY)
        year, month, day = date_of(first + weekday - 1 + _int(7 * (week - 1)))
        return self._days(year, more_days, "day", lambda first_of: first_of(year, month, day))

    def _day_in(self, year: int, by: str, first_of: _DayOf) -> int:
        """Return the day by the fields that were set last, of those that make a day together."""
        values = self.values
        weekday = values.get("weekday", 1)
        if by == "day of year":
            return first_of(year, 1, 1) + values[by] - 1
        if by == "week":
            first = first_of(year, 1, 1)
            return on_or_before(first, 1) + (weekday - 1) % 7 + 7 * (values.get("week", 1) - 1)
        month = _int(values.get("month", 1) - 1)
        first = first_of(year + month // 12, month % 12 + 1, 1)
        if by == "week of month":
            return on_or_before(first, 1) + (weekday - 1) % 7 + _int(7 * (values[by] - 1))
        if by == "weekday in month":
            count = values.get(by, 1)
            if count < 0:  # counts back from the end of the month
                month += 1
                first = first_of(year + month // 12, month % 12 + 1, 1)
                count += 1
            return on_or_before(first + _int(7 * count) - 1, weekday)
        return first + values.get("day", 1) - 1

    def _last_combination(self) -> str:
        """Return the field that, maybe with a weekday, says which day of its month or year it is."""
        weekly = ("week of month", "weekday in month", "week")
        orders = {"day": self._order("day")}
        orders.update({name: self._order(name, "weekday") for name in weekly[:2]})
        orders["day of year"] = self._order("day of year")
        orders["week"] = self._order("week", "weekday")
        if not any(orders.values()):
            orders = {
                "week of month": self._order("week of month"),
                "weekday in month": self._last("weekday in month", "weekday"),
                "week": self._order("week"),
            }
            if not any(orders.values()):
                return "day"
        best = max(orders.values())
        named = [name for name, order in orders.items() if order == best]
        if named[0] in ("day", "day of year"):
            return named[0]
        return max(named, key=self._order)


def _int(value: int) -> int:
    """Wrap a number as Java's `int` does."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
