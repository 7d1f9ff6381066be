"""PostgreSQL's texts of dates, times and intervals (DateStyle ISO, IntervalStyle postgres), as numbers. Pure.

Python's own types end at the years 1 and 9999; PostgreSQL's reach from 4713 BC to 5874897 AD. So days and
microseconds since 1970 are ints here, in the proleptic Gregorian calendar, with year 0 for 1 BC.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from penstock.connect.cdc.civil import DAY_US, days_of_civil
from penstock.connect.errors import DataError

INFINITY: Final = "infinity"
MINUS_INFINITY: Final = "-infinity"
INFINITE_DAYS: Final = {INFINITY: -2_147_472_692, MINUS_INFINITY: -2_147_472_691}
"""Debezium's dates for infinity: the years that the milliseconds of pgjdbc's infinities overflow to."""
INFINITE_MICROS: Final = {INFINITY: 9_223_372_036_825_200_000, MINUS_INFINITY: -9_223_372_036_832_400_000}
"""Debezium's timestamps for infinity, those of pgjdbc."""

_DATE: Final = re.compile(r"(\d{4,})-(\d\d)-(\d\d)( BC)?", re.ASCII)
_TIME: Final = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)
_ZONE: Final = re.compile(r"([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?", re.ASCII)
_INTERVAL_PART: Final = re.compile(r"([+-]?\d+) (year|mon|day)s?", re.ASCII)
_INTERVAL_TIME: Final = re.compile(r"([+-])?(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)


def days_of_date(text: str) -> int:
    """Days since 1970-01-01. Raises DataError."""
    if text in INFINITE_DAYS:
        return INFINITE_DAYS[text]
    found = _DATE.fullmatch(text)
    if found is None:
        raise DataError(f"{text!r} is not a date such as 2024-02-29 or 0044-03-15 BC")
    year, month, day, before_christ = found.groups()
    return days_of_civil(1 - int(year) if before_christ else int(year), int(month), int(day))


def micros_of_time(text: str) -> int:
    """Microseconds since midnight; 24:00:00 is allowed. Raises DataError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise DataError(f"{text!r} is not a time such as 12:34:56.789")
    hours, minutes, seconds, fraction = found.groups()
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    return whole * 1_000_000 + int((fraction or "").ljust(6, "0"))


def micros_of_timestamp(text: str) -> int:
    """Microseconds since 1970 of a timestamp with or without a zone. Raises DataError."""
    if text in INFINITE_MICROS:
        return INFINITE_MICROS[text]
    stem = text.removesuffix(" BC")
    date, _, rest = stem.partition(" ")
    time, zone = split_zone(rest or "00:00:00")
    return days_of_date(date + text[len(stem) :]) * DAY_US + micros_of_time(time) - zone * 1_000_000


def split_zone(text: str) -> tuple[str, int]:
    """A time's text without its zone, and the zone's seconds east of Greenwich. Raises DataError."""
    start = max(text.find("+"), text.find("-"))
    if start < 0:
        return text, 0
    found = _ZONE.fullmatch(text, start)
    if found is None:
        raise DataError(f"{text!r} has no zone such as +02 or -03:30")
    sign, hours, minutes, seconds = found.groups()
    offset = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return text[:start], -offset if sign == "-" else offset


class Interval(NamedTuple):
    """An interval's parts; each has its own sign. `micros` are those below a minute."""

    years: int
    months: int
    days: int
    hours: int
    minutes: int
    micros: int


def read_interval(text: str) -> Interval:
    """Read an interval such as ``1 year 2 mons -3 days +04:05:06.789``. Raises DataError."""
    parts = {found[2]: int(found[1]) for found in _INTERVAL_PART.finditer(text)}
    rest = _INTERVAL_PART.sub("", text).strip()
    years, months, days = (parts.get(name, 0) for name in ("year", "mon", "day"))
    if not rest:
        return Interval(years, months, days, 0, 0, 0)
    found = _INTERVAL_TIME.fullmatch(rest)
    if found is None:
        raise DataError(f"{text!r} is not an interval such as 1 year 2 mons 3 days 04:05:06.789")
    sign = -1 if found[1] == "-" else 1
    micros = int(found[4]) * 1_000_000 + int((found[5] or "").ljust(6, "0"))
    return Interval(years, months, days, sign * int(found[2]), sign * int(found[3]), sign * micros)


def micros_of_interval(interval: Interval) -> int:
    """Debezium's approximation: a month has 30.4375 days, computed in doubles as Debezium does."""
    days = (interval.years * 12 + interval.months) * (365.25 / 12) + interval.days
    seconds = ((days * 24 + interval.hours) * 60 + interval.minutes) * 60 + interval.micros / 1e6
    return int(seconds * 1e6)


def iso_interval(interval: Interval) -> str:
    """ISO 8601 with all its parts, such as ``P1Y2M3DT4H5M6.789S``."""
    whole, fraction = divmod(abs(interval.micros), 1_000_000)
    digits = f".{fraction:06}".rstrip("0").rstrip(".")
    seconds = f"{'-' if interval.micros < 0 else ''}{whole}{digits}"
    years, months, days, hours, minutes, _ = interval
    return f"P{years}Y{months}M{days}DT{hours}H{minutes}M{seconds}S"
