"""Functions on dates, times and timestamps."""

from __future__ import annotations

import time
from calendar import monthrange
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any, Final

from penstock.sql.evaluation.builtin.nulls import strict
from penstock.sql.evaluation.builtin.times.lenient_dates import parse_date
from penstock.sql.evaluation.builtin.times.moments import Moment, moment_in
from penstock.sql.evaluation.builtin.times.patterns import pattern_of
from penstock.sql.evaluation.builtin.times.resolving import timestamp_of
from penstock.sql.evaluation.builtin.times.zones import zone_of

_FIRST_DAY: Final = date(1970, 1, 1)
_DAY_MS: Final = 86_400_000
_UNITS_MS: Final = {
    "MILLISECONDS": 1,
    "SECONDS": 1_000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": _DAY_MS,
    "WEEKS": 7 * _DAY_MS,
}
_UNITS_MONTHS: Final = {"MONTHS": 1, "YEARS": 12, "DECADES": 120, "CENTURIES": 1200}


def _day(days: int) -> date:
    return _FIRST_DAY + timedelta(days=days)


def _unit(name: str) -> str:
    upper = name.upper()
    return upper if upper.endswith("S") else f"{upper}S"


def _later(at: date, months: int) -> date:
    """Add months to a date. A day beyond the month's end becomes its last day."""
    year, month = divmod(at.year * 12 + at.month - 1 + months, 12)
    return at.replace(year=year, month=month + 1, day=min(at.day, monthrange(year, month + 1)[1]))


def _days_added(sign: int) -> Callable[[str, int, int], int]:
    def add(unit: str, count: int, days: int) -> int:
        name, count = _unit(unit), sign * count
        if name in _UNITS_MONTHS:
            return (_later(_day(days), count * _UNITS_MONTHS[name]) - _FIRST_DAY).days
        return days + count * _UNITS_MS[name] // _DAY_MS

    return strict(add)


def _time_added(sign: int) -> Callable[[str, int, int], int]:
    """Build TIMEADD (1) or TIMESUB (-1). A time of day wraps around at midnight."""

    def add(unit: str, count: int, of_day_ms: int) -> int:
        return (of_day_ms + sign * count * _UNITS_MS[_unit(unit)]) % _DAY_MS

    return strict(add)


def _timestamp_added(sign: int) -> Callable[[str, int, int], int]:
    def add(unit: str, count: int, timestamp_ms: int) -> int:
        name, count = _unit(unit), sign * count
        if name not in _UNITS_MONTHS:
            return timestamp_ms + count * _UNITS_MS[name]
        days, of_day_ms = divmod(timestamp_ms, _DAY_MS)
        moved = (_later(_day(days), count * _UNITS_MONTHS[name]) - _FIRST_DAY).days
        return moved * _DAY_MS + of_day_ms

    return strict(add)


def _convert_zone(timestamp_ms: int, source: str, target: str) -> int:
    """Add the offset of zone ``target`` at that time to a timestamp, and subtract that of zone ``source``."""
    second = timestamp_ms // 1000
    return timestamp_ms + (zone_of(target).offset_at(second) - zone_of(source).offset_at(second)) * 1000


def _format_date(days: int, pattern: str) -> str:
    return pattern_of(pattern).write(Moment(days=days))


def _format_time(of_day_ms: int, pattern: str) -> str:
    return pattern_of(pattern).write(Moment(nanos=of_day_ms * 1_000_000))


def _timestamp_format(default_zone: str) -> Callable[..., str | None]:
    def format_timestamp(timestamp_ms: int, pattern: str, zone: str = default_zone) -> str:
        return pattern_of(pattern).write(moment_in(zone_of(zone), timestamp_ms))

    return strict(format_timestamp)


def _parse_days(text: str, pattern: str) -> int:
    days = pattern_of(pattern).read(text, english=True).days
    if days is None:
        raise ValueError(f"found {text!r}, expected a whole date in the pattern {pattern!r}")
    return days


def _parse_time(text: str, pattern: str) -> int:
    found = pattern_of(pattern).read(text, english=True)
    if found.has_date_field():
        raise ValueError(f"found {text!r}, expected a time without a date")
    if found.nanos is None:
        raise ValueError(f"found {text!r}, expected a whole time in the pattern {pattern!r}")
    return found.nanos // 1_000_000


def _parse_timestamp(text: str, pattern: str, zone: str = "UTC") -> int:
    return timestamp_of(pattern_of(pattern).read(text), zone_of(zone))


def _unix_date(*days: int | None) -> int | None:
    return days[0] if days else int(time.time()) // 86_400


def _unix_timestamp(*timestamp_ms: int | None) -> int | None:
    return timestamp_ms[0] if timestamp_ms else time.time_ns() // 1_000_000


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "CONVERT_TZ": strict(_convert_zone),
    "DATEADD": _days_added(1),
    "DATESUB": _days_added(-1),
    "DATETOSTRING": strict(_format_date),
    "FORMAT_DATE": strict(_format_date),
    "FORMAT_TIME": strict(_format_time),
    "FORMAT_TIMESTAMP": _timestamp_format("GMT"),
    "FROM_DAYS": strict(lambda days: days),
    "FROM_UNIXTIME": strict(lambda timestamp_ms: timestamp_ms),
    "PARSE_DATE": strict(parse_date),
    "PARSE_TIME": strict(_parse_time),
    "PARSE_TIMESTAMP": strict(_parse_timestamp),
    "STRINGTODATE": strict(_parse_days),
    "STRINGTOTIMESTAMP": strict(_parse_timestamp),
    "TIMEADD": _time_added(1),
    "TIMESTAMPADD": _timestamp_added(1),
    "TIMESTAMPSUB": _timestamp_added(-1),
    "TIMESTAMPTOSTRING": _timestamp_format("UTC"),
    "TIMESUB": _time_added(-1),
    "UNIX_DATE": _unix_date,
    "UNIX_TIMESTAMP": _unix_timestamp,
}
