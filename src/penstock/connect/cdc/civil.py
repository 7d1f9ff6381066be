"""Days and microseconds since 1970 as dates and times of the Gregorian calendar, for any year. Pure."""

from __future__ import annotations

from typing import Final

DAY_US: Final = 86_400_000_000


def days_of_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date. The algorithm is days_from_civil of Howard Hinnant."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def civil_of_days(days: int) -> tuple[int, int, int]:
    """Year, month and day; the inverse of `days_of_civil`."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def iso_date(days: int) -> str:
    """ISO 8601, as Java writes it: ``2024-02-29``, ``-0043-03-15``, ``+10000-01-01``."""
    year, month, day = civil_of_days(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def iso_time(micros: int, digits: int | None = None) -> str:
    """ISO 8601 with so many digits of a second, or as many as it needs. 24:00:00 becomes 00:00:00."""
    seconds, fraction = divmod(micros % DAY_US, 1_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    shown = f"{fraction:06}".rstrip("0") if digits is None else f"{fraction:06}"[:digits]
    return f"{text}.{shown}" if shown else text


def iso_timestamp(micros: int, digits: int | None = None) -> str:
    """ISO 8601 in UTC, which ends with ``Z``."""
    days, time = divmod(micros, DAY_US)
    return f"{iso_date(days)}T{iso_time(time, digits)}Z"
