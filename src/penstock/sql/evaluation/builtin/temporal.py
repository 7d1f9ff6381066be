"""Functions on dates, times and timestamps."""

from __future__ import annotations

import time
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from penstock.sql.evaluation.builtin.nulls import strict
from penstock.sql.evaluation.builtin.time_patterns import pattern_of, zone_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
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


def _datetime(timestamp_ms: int, zone: str = "UTC") -> datetime:
    return (_EPOCH + timedelta(milliseconds=timestamp_ms)).astimezone(zone_of(zone))


def _timestamp_ms(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)


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
    """Convert a timestamp's local time in zone ``source`` to the local time in zone ``target``."""
    local = _datetime(timestamp_ms).replace(tzinfo=zone_of(source))
    return _timestamp_ms(local.astimezone(zone_of(target)).replace(tzinfo=UTC))


def _format_date(days: int, pattern: str) -> str:
    return pattern_of(pattern).write(_datetime(days * _DAY_MS))


def _format_timestamp(timestamp_ms: int, pattern: str, zone: str = "UTC") -> str:
    return pattern_of(pattern).write(_datetime(timestamp_ms, zone))


def _parse_date(text: str, pattern: str) -> int:
    """Parse a date and ignore any text after it."""
    return (pattern_of(pattern).read(text, to_the_end=False).day() - _FIRST_DAY).days


def _parse_time(text: str, pattern: str) -> int:
    return pattern_of(pattern).read(text).of_day_ms() % _DAY_MS


def _parse_timestamp(text: str, pattern: str, zone: str = "UTC") -> int:
    parts = pattern_of(pattern).read(text)
    local = datetime.combine(parts.day(), datetime.min.time(), zone_of(parts.zone or zone))
    at = local.replace(tzinfo=None) + timedelta(milliseconds=parts.of_day_ms())
    return _timestamp_ms(at.replace(tzinfo=local.tzinfo))


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
    "FORMAT_TIME": strict(_format_timestamp),
    "FORMAT_TIMESTAMP": strict(_format_timestamp),
    "FROM_DAYS": strict(lambda days: days),
    "FROM_UNIXTIME": strict(lambda timestamp_ms: timestamp_ms),
    "PARSE_DATE": strict(_parse_date),
    "PARSE_TIME": strict(_parse_time),
    "PARSE_TIMESTAMP": strict(_parse_timestamp),
    "STRINGTODATE": strict(_parse_date),
    "STRINGTOTIMESTAMP": strict(_parse_timestamp),
    "TIMEADD": _time_added(1),
    "TIMESTAMPADD": _timestamp_added(1),
    "TIMESTAMPSUB": _timestamp_added(-1),
    "TIMESTAMPTOSTRING": strict(_format_timestamp),
    "TIMESUB": _time_added(-1),
    "UNIX_DATE": _unix_date,
    "UNIX_TIMESTAMP": _unix_timestamp,
}
