"""Conversion of dates, times and timestamps from and to text, for casts, comparisons and literals. In UTC."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final

from penstock.sql.language import types
from penstock.sql.language.types import SqlType

DAY_MS: Final = 86_400_000
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DATE: Final = re.compile(r"([+-]?\d{4,10})-(\d\d)-(\d\d)", re.ASCII)
_TIME: Final = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{0,9}))?)?", re.ASCII)
_STAMP_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3})", re.ASCII)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d?)(?::?(\d\d)(?::?(\d\d))?)?", re.ASCII)
_PADDING: Final = "00:00:00.000"
_DAYS_OF_400_YEARS: Final = 146_097


def _days(year: int, month: int, day: int) -> int:
    """Convert a date of any year to days since 1970. The calendar repeats every 400 years."""
    cycles, inner = divmod(year - 1, 400)
    return date(inner + 1, month, day).toordinal() + cycles * _DAYS_OF_400_YEARS - _EPOCH


def _calendar(days: int) -> tuple[int, int, int]:
    cycles, inner = divmod(days + _EPOCH - 1, _DAYS_OF_400_YEARS)
    found = date.fromordinal(inner + 1)
    return found.year + cycles * 400, found.month, found.day


def parse_date(text: str) -> int:
    """Convert `2020-05-26`, `2020-05` or `2020` to days since 1970."""
    completed = text + {1: "-01-01", 2: "-01"}.get(len(text.split("-")), "")
    found = _DATE.fullmatch(completed)
    if found is not None:
        try:
            return _days(*map(int, found.groups()))
        except ValueError:
            pass
    raise ValueError(f"found {text!r}, expected a date such as 2020-05-26, 2020-05 or 2020")


def parse_time(text: str) -> int:
    """Convert `01:34:20.123`, `01:34:20` or `01:34` to milliseconds of the day."""
    found = _TIME.fullmatch(text)
    if found is not None:
        hour, minute, second = (int(part or 0) for part in found.groups()[:3])
        if hour < 24 and minute < 60 and second < 60:
            millisecond = int(f"{found.group(4) or '':0<9}"[:3])
            return ((hour * 60 + minute) * 60 + second) * 1000 + millisecond
    raise ValueError(f"found {text!r}, expected a time such as 01:34:20.123, 01:34:20 or 01:34")


def parse_timestamp(text: str) -> int:
    """Convert `2020-05-26T23:59:58.123+0200`, or any prefix of it, to milliseconds since 1970."""
    try:
        return _timestamp(text)
    except (ValueError, KeyError, OSError):
        raise ValueError(
            f"found {text!r}, expected a timestamp such as 2020-05-26T23:59:58.123, without a part at "
            "its end, or with a time zone such as +0200 or Z"
        ) from None


def _timestamp(text: str) -> int:
    day, has_time, rest = text.partition("T")
    zone = ""
    if has_time:
        sign = "+" if "+" in rest else "-"
        rest, found, zone = rest.partition(sign)
        zone = found + zone
        rest = rest[:-1] if rest.endswith("Z") else rest
    else:
        day += {1: "-01-01", 2: "-01"}.get(len(day.split("-")), "")
    date_found = _DATE.fullmatch(day)
    time_found = _STAMP_TIME.fullmatch(rest + _PADDING[len(rest) :])
    if date_found is None or time_found is None:
        raise ValueError
    hour, minute, second, millisecond = map(int, time_found.groups())
    of_day = ((hour * 60 + minute) * 60 + second) * 1000 + millisecond
    if minute > 59 or second > 59 or of_day > DAY_MS:  # 24:00 is the end of the day
        raise ValueError
    year, month, of_month = map(int, date_found.groups())
    if 28 < of_month <= 31:  # a day beyond the month's end becomes its last day
        of_month = min(of_month, monthrange((year - 1) % 400 + 1, month)[1])
    days = _days(year, month, of_month)
    return days * DAY_MS + of_day - _offset_ms(zone.strip())


def _offset_ms(zone: str) -> int:
    if not zone:
        return 0
    found = _OFFSET.fullmatch(zone)
    if found is None:
        raise ValueError
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    offset = ((hours * 60 + minutes) * 60 + seconds) * 1000
    if minutes > 59 or seconds > 59 or offset > 18 * 3_600_000:
        raise ValueError
    return -offset if found.group(1) == "-" else offset


def format_date(days: int) -> str:
    year, month, day = _calendar(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def format_time(of_day_ms: int) -> str:
    """Format a time of day. Zero seconds are omitted; milliseconds are never shown."""
    minutes, seconds = divmod(of_day_ms // 1000, 60)
    shown = f"{minutes // 60:02}:{minutes % 60:02}"
    return f"{shown}:{seconds:02}" if seconds else shown


def format_timestamp(timestamp_ms: int) -> str:
    days, of_day = divmod(timestamp_ms, DAY_MS)
    year, month, day = _calendar(days)
    of_era = year if year > 0 else 1 - year
    seconds, milliseconds = divmod(of_day, 1000)
    minutes, seconds = divmod(seconds, 60)
    sign = "+" if of_era > 9999 else ""
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{milliseconds:03}"
    return f"{sign}{of_era:04}-{month:02}-{day:02}T{clock}"


PARSERS: Final[Mapping[SqlType | None, Callable[[str], int]]] = {
    types.TIME: parse_time,
    types.DATE: parse_date,
    types.TIMESTAMP: parse_timestamp,
}
