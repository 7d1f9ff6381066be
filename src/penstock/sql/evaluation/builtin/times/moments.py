"""The fields of dates and times: their values, their ranges, and a date or time with a field replaced.

Days are counted from 1970-01-01 in the Gregorian calendar, which is extended to all years, so that no year is
out of range here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.java.calendar import gregorian_date, gregorian_day, weekday_of
from penstock.sql.evaluation.builtin.times.zones import Zone

DAY_SECONDS: Final = 86_400
SECOND_NANOS: Final = 1_000_000_000
DAY_NANOS: Final = DAY_SECONDS * SECOND_NANOS
_MAX_YEAR: Final = 999_999_999

day_of: Final = gregorian_day
date_of: Final = gregorian_date
local_weekday: Final = weekday_of

RANGES: Final = {
    "era": (0, 1),
    "year of era": (1, _MAX_YEAR + 1),
    "year": (-_MAX_YEAR, _MAX_YEAR),
    "month": (1, 12),
    "aligned week of month": (1, 5),
    "aligned week of year": (1, 53),
    "weekday": (1, 7),
    "aligned weekday of month": (1, 7),
    "aligned weekday of year": (1, 7),
    "day": (1, 31),
    "day of year": (1, 366),
    "epoch day": (-365_243_219_162, 365_241_780_471),
    "half": (0, 1),
    "half-day hour": (0, 11),
    "half-day clock hour": (1, 12),
    "hour": (0, 23),
    "clock hour": (1, 24),
    "minute": (0, 59),
    "minute of day": (0, 1439),
    "second": (0, 59),
    "second of day": (0, DAY_SECONDS - 1),
    "milli": (0, 999),
    "milli of day": (0, DAY_SECONDS * 1000 - 1),
    "micro": (0, 999_999),
    "micro of day": (0, DAY_SECONDS * 1_000_000 - 1),
    "nano": (0, SECOND_NANOS - 1),
    "nano of day": (0, DAY_NANOS - 1),
    "local weekday": (1, 7),
    "week of month": (0, 6),
    "week": (1, 53),
    "week year": (-_MAX_YEAR, _MAX_YEAR),
    "quarter": (1, 4),
    "julian day": (-365_243_178_575, 365_241_821_058),
}


def valid(field: str, value: int) -> int:
    """Return the value. Raises ValueError if it is out of the field's range."""
    least, greatest = RANGES[field]
    if not least <= value <= greatest:
        raise ValueError(f"found {value} for the {field}, expected {least} to {greatest}")
    return value


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_days(year: int, month: int) -> int:
    return (29 if is_leap(year) else 28) if month == 2 else 30 if month in (4, 6, 9, 11) else 31


def weekday(days: int) -> int:
    """Return 1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1


def day_of_year(days: int) -> int:
    return days - day_of(date_of(days)[0], 1, 1) + 1


def _year_days(year: int) -> int:
    return 366 if is_leap(year) else 365


def week_of(day: int, at: int) -> int:
    """Return the number of the week that has the ``day``-th day, ``at``, of a month or year.

    The first week has the first day.
    """
    return (7 + -(day - local_weekday(at)) % 7 + day - 1) // 7


def _weeks(days: int) -> tuple[int, int]:
    """Return the week-based year and the week in it. The first week of a year has the first of January."""
    year = date_of(days)[0]
    week = week_of(day_of_year(days), days)
    last = day_of(year, 12, 31)
    if days > last - local_weekday(last) % 7:  # in the week of the next first of January
        return year + 1, 1
    return year, week


def weeks_of_week_year(year: int) -> int:
    next_year = day_of(year + 1, 1, 1)
    return _weeks(next_year - local_weekday(next_year))[1]


def with_year(days: int, year: int) -> int:
    """Replace the year. A day beyond the month's end becomes its last day."""
    _, month, day = date_of(days)
    return day_of(year, month, min(day, month_days(year, month)))


DATE_FIELDS: Final[dict[str, Callable[[int], int]]] = {
    "era": lambda days: int(date_of(days)[0] > 0),
    "year of era": lambda days: year if (year := date_of(days)[0]) > 0 else 1 - year,
    "year": lambda days: date_of(days)[0],
    "quarter": lambda days: (date_of(days)[1] + 2) // 3,
    "month": lambda days: date_of(days)[1],
    "week year": lambda days: _weeks(days)[0],
    "week": lambda days: _weeks(days)[1],
    "week of month": lambda days: week_of(date_of(days)[2], days),
    "aligned week of month": lambda days: (date_of(days)[2] - 1) // 7 + 1,
    "aligned week of year": lambda days: (day_of_year(days) - 1) // 7 + 1,
    "weekday": weekday,
    "local weekday": local_weekday,
    "aligned weekday of month": lambda days: (date_of(days)[2] - 1) % 7 + 1,
    "aligned weekday of year": lambda days: (day_of_year(days) - 1) % 7 + 1,
    "day": lambda days: date_of(days)[2],
    "day of year": day_of_year,
    "epoch day": lambda days: days,
    "julian day": lambda days: days + 40_587,
}

# Each time field is the nanoseconds of the day, divided by the first number, modulo the second.
_TIME_PARTS: Final = {
    "half": (12 * 3600 * SECOND_NANOS, 2),
    "half-day hour": (3600 * SECOND_NANOS, 12),
    "half-day clock hour": (3600 * SECOND_NANOS, 12),
    "hour": (3600 * SECOND_NANOS, 24),
    "clock hour": (3600 * SECOND_NANOS, 24),
    "minute": (60 * SECOND_NANOS, 60),
    "minute of day": (60 * SECOND_NANOS, 1440),
    "second": (SECOND_NANOS, 60),
    "second of day": (SECOND_NANOS, DAY_SECONDS),
    "milli": (1_000_000, 1000),
    "milli of day": (1_000_000, DAY_SECONDS * 1000),
    "micro": (1000, 1_000_000),
    "micro of day": (1000, DAY_SECONDS * 1_000_000),
    "nano": (1, SECOND_NANOS),
    "nano of day": (1, DAY_NANOS),
}
_CLOCK_FIELDS: Final = ("half-day clock hour", "clock hour")  # their 0 is written 12 or 24
TIME_FIELDS: Final = _TIME_PARTS.keys()


def time_field(field: str, nanos: int) -> int:
    unit, count = _TIME_PARTS[field]
    value = nanos // unit % count
    return value or (count if field in _CLOCK_FIELDS else 0)


def with_time_field(nanos: int, field: str, value: int) -> int:
    """Replace a field of a time, in nanoseconds of the day. Raises ValueError if the value does not fit."""
    unit, count = _TIME_PARTS[field]
    valid(field, value)
    if field in ("second of day", "minute of day"):  # the smaller units stay
        return value * unit + nanos % unit
    if field in ("milli", "micro"):  # the smaller units are cleared
        return nanos // SECOND_NANOS * SECOND_NANOS + value * unit
    if field in ("milli of day", "micro of day"):
        return value * unit
    return nanos + (value % count - nanos // unit % count) * unit


def with_date_field(days: int, field: str, value: int) -> int:
    """Replace a field of a date. Raises ValueError if there is no such date."""
    valid(field, value)
    year, month, day = date_of(days)
    match field:
        case "era":
            return days if value == (year > 0) else with_year(days, valid("year", 1 - year))
        case "year of era":
            return with_year(days, valid("year", value if year > 0 else 1 - value))
        case "year":
            return with_year(days, value)
        case "month":
            return day_of(year, value, min(day, month_days(year, value)))
        case "aligned week of month" | "aligned week of year":
            return days + 7 * (value - DATE_FIELDS[field](days))
        case "weekday" | "aligned weekday of month" | "aligned weekday of year":
            return days + value - DATE_FIELDS[field](days)
        case "day":
            return date_made(year, month, value)
        case "day of year":
            return year_day(year, value)
        case "epoch day":
            return value
    raise ValueError(f"found the field {field}, expected one of a date")


def date_made(year: int, month: int, day: int) -> int:
    """Count the days of a date. Raises ValueError if the month has no such day."""
    if day > month_days(year, month):
        raise ValueError(f"found {day} for the day, expected 1 to {month_days(year, month)}")
    return day_of(year, month, day)


def year_day(year: int, day: int) -> int:
    """Count the days of the ``day``-th day of a year. Raises ValueError if the year is shorter."""
    if day > _year_days(year):
        raise ValueError(f"found {day} for the day of year, expected 1 to {_year_days(year)}")
    return day_of(year, 1, 1) + day - 1


@dataclass(frozen=True, slots=True)
class Moment:
    """A date, a time of day, or both of them in a zone: the value that a pattern formats."""

    days: int | None = None
    nanos: int | None = None
    zone: Zone | None = None
    offset_seconds: int = 0
    epoch_second: int = 0

    def has(self, field: str) -> bool:
        if field == "offset":
            return self.zone is not None
        return (self.nanos if field in TIME_FIELDS else self.days) is not None

    def get(self, field: str) -> int:
        """Return a field's value. Raises ValueError for a field that this moment does not have."""
        if not self.has(field):
            raise ValueError(f"found the {field} in the pattern, expected only fields that the value has")
        if field == "offset":
            return self.offset_seconds
        if self.nanos is not None and field in TIME_FIELDS:
            return time_field(field, self.nanos)
        assert self.days is not None
        return DATE_FIELDS[field](self.days)


def moment_in(zone: Zone, timestamp_ms: int) -> Moment:
    """Return the moment of a timestamp in a zone."""
    second, milli = divmod(timestamp_ms, 1000)
    offset = zone.offset_at(second)
    days, of_day = divmod(second + offset, DAY_SECONDS)
    return Moment(days, of_day * SECOND_NANOS + milli * 1_000_000, zone, offset, second)
