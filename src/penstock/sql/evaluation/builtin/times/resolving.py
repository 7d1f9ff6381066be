"""Makes a date, a time and an instant of the fields that were parsed.

The rules are those of Java's `ResolverStyle.SMART`: a day up to the 31st that is beyond the month's end
becomes its last day, 24:00 is the end of the day, and fields that contradict each other are an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.sql.evaluation.builtin.times.elements import Fields
from penstock.sql.evaluation.builtin.times.moments import (
    DATE_FIELDS,
    DAY_SECONDS,
    SECOND_NANOS,
    TIME_FIELDS,
    date_made,
    day_of,
    local_weekday,
    month_days,
    time_field,
    valid,
    week_of,
    weeks_of_week_year,
    with_date_field,
    with_time_field,
    with_year,
    year_day,
)
from penstock.sql.evaluation.builtin.times.texts import includes, middle
from penstock.sql.evaluation.builtin.times.zones import Zone, offset_zone

# Fields that are not defined by Java's calendar but by a locale or another calendar.
_WEEK_FIELDS: Final = ("week year", "week", "week of month", "local weekday")
_OTHER_FIELDS: Final = ("quarter", "julian day", *_WEEK_FIELDS)
# Java replaces the fields of 1970-01-01 in this order, from the largest unit to the smallest.
_ORDER: Final = (
    *("era", "year of era", "year", "month", "aligned week of month", "aligned week of year"),
    *("weekday", "aligned weekday of month", "aligned weekday of year", "day", "day of year", "epoch day"),
    *("half", "half-day hour", "half-day clock hour", "hour", "clock hour", "minute", "minute of day"),
    *("second", "second of day", "instant", "offset", "milli", "milli of day"),
    *("micro", "micro of day", "nano", "nano of day"),
)
_LEAP_DAY: Final = 366


@dataclass
class Resolved:
    """The date and the time that were parsed, and the fields that make neither."""

    days: int | None = None
    nanos: int | None = None
    extra_day: bool = False
    """Whether the time is 24:00 without a date, so that no date could move to the next day."""
    zone: Zone | None = None
    numbers: dict[str, int] = field(default_factory=dict)

    def get(self, name: str) -> int | None:
        """Return a field's value, or None if it was not parsed."""
        if name in self.numbers:
            return self.numbers[name]
        if self.days is not None and name in DATE_FIELDS:
            return DATE_FIELDS[name](self.days)
        if self.nanos is not None and name in TIME_FIELDS:
            return time_field(name, self.nanos)
        return None

    def has_date_field(self) -> bool:
        """Return whether a field of the calendar was parsed. A week or a quarter is none in Java."""
        return self.days is not None or any(
            name in DATE_FIELDS and name not in _OTHER_FIELDS for name in self.numbers
        )


def resolve(fields: Fields) -> Resolved:
    """Resolve parsed fields. Raises ValueError if they contradict each other or are out of range."""
    return _Resolver(fields).resolve()


class _Resolver:
    def __init__(self, fields: Fields) -> None:
        self._numbers = fields.numbers
        self._period = fields.day_period
        self._made = Resolved(zone=fields.zone, numbers=fields.numbers)

    def resolve(self) -> Resolved:
        self._resolve_date()
        self._resolve_time_fields()
        if self._resolve_weeks():
            self._resolve_date()
            self._resolve_time_fields()
        self._complete_time()
        for name in [name for name in self._numbers if name in TIME_FIELDS]:
            valid(name, self._numbers[name])
        self._compare()
        made = self._made
        if made.extra_day and made.days is not None:
            made.days, made.extra_day = made.days + 1, False
        if made.nanos is None and ("second" in self._numbers or "second of day" in self._numbers):
            nanos = self._numbers.setdefault("nano", 0)
            self._numbers["micro"], self._numbers["milli"] = nanos // 1000, nanos // 1_000_000
        self._add_instant()
        return made

    def _put(self, name: str, value: int) -> None:
        before = self._numbers.setdefault(name, value)
        if before != value:
            raise ValueError(f"found {before} and {value} for the {name}, expected them to be equal")

    def _take(self, *names: str) -> list[int]:
        return [valid(name, self._numbers.pop(name)) for name in names]

    def _has(self, *names: str) -> bool:
        return self._numbers.keys() >= {*names}

    def _set_date(self, days: int) -> None:
        if self._made.days not in (None, days):
            raise ValueError("found fields of two dates, expected those of one")
        self._made.days = days

    def _set_time(self, nanos: int, extra_day: bool = False) -> None:
        if self._made.nanos not in (None, nanos):
            raise ValueError("found fields of two times, expected those of one")
        self._made.nanos, self._made.extra_day = nanos, extra_day

    def _resolve_date(self) -> None:
        self._resolve_era()
        if self._has("year", "month", "day"):
            year, month, day = self._take("year", "month", "day")
            self._set_date(date_made(year, month, min(day, month_days(year, month))))
        elif self._has("year", "day of year"):
            year, day = self._take("year", "day of year")
            self._set_date(year_day(year, day))

    def _resolve_era(self) -> None:
        if not self._has("year of era"):
            if self._has("era"):
                valid("era", self._numbers["era"])
            return
        (of_era,) = self._take("year of era")
        era = self._numbers.pop("era", None)
        if era is None:
            year = self._numbers.get("year")
            era = int(year is None or year > 0)
        self._put("year", of_era if era else 1 - of_era)

    def _resolve_weeks(self) -> bool:
        """Resolve the fields of weeks and the Julian day. Returns whether any was."""
        changed = False
        for name in _WEEK_FIELDS:
            if abs(self._numbers.get(name, 0)) >> 31:
                raise ValueError(f"found {self._numbers[name]} for the {name}, expected 32 bits")
        if self._has("julian day"):
            (day,) = self._take("julian day")
            self._set_date(day - 40_587)
            changed = True
        if self._has("local weekday"):
            (local,) = self._take("local weekday")
            self._put("weekday", (local - 2) % 7 + 1)
            changed = True
        if not self._has("weekday") or not (self._has("week of month") or self._has("week", "week year")):
            return changed
        on = valid("weekday", self._numbers["weekday"]) % 7  # 0 for Sunday, the first day of the week
        if self._has("week of month", "year", "month"):
            year, month, week, _ = self._take("year", "month", "week of month", "weekday")
            first = day_of(year, month, 1)
            self._set_date(first + 7 * (week - week_of(1, first)) + on + 1 - local_weekday(first))
            return True
        if not self._has("year") and self._has("week", "week year"):
            year, week, _ = self._take("week year", "week", "weekday")
            weeks = weeks_of_week_year(year)
            if week > weeks:
                raise ValueError(f"found {week} for the week, expected 1 to {weeks}")
            first = day_of(year, 1, 1)
            self._set_date(first + 1 - local_weekday(first) + on + 7 * (week - 1))
            return True
        return changed

    def _resolve_time_fields(self) -> None:
        numbers = self._numbers
        for clock, hour, count in (("clock hour", "hour", 24), ("half-day clock hour", "half-day hour", 12)):
            if clock in numbers:
                at = numbers.pop(clock)
                self._put(hour, (valid(clock, at) if at else 0) % count)
        if self._has("half", "half-day hour"):
            half, hour_of_half = self._take("half", "half-day hour")
            self._put("hour", half * 12 + hour_of_half)
        if self._has("nano of day"):
            (nanos,) = self._take("nano of day")
            for name in ("hour", "minute", "second", "nano"):
                self._put(name, time_field(name, nanos))
        if self._has("milli of day"):
            (millis,) = self._take("milli of day")
            self._put("second of day", millis // 1000)
            self._put("milli", millis % 1000)
        if self._has("second of day"):
            (seconds,) = self._take("second of day")
            for name in ("hour", "minute", "second"):
                self._put(name, time_field(name, seconds * SECOND_NANOS))
        if self._has("nano"):
            nano = valid("nano", numbers["nano"])
            if self._has("milli"):
                (milli,) = self._take("milli")
                self._put("nano", milli * 1_000_000 + nano % 1_000_000)
        if self._period is not None and self._has("half-day hour"):
            (hour_of_half,) = self._take("half-day hour")
            afternoon = includes(self._period, (hour_of_half + 12) * 60 + numbers.get("minute", 0) % 60)
            self._put("hour", hour_of_half + (12 if afternoon else 0))
            self._period = None
        if self._has("hour", "minute", "second", "nano"):
            self._set_time_of(*(numbers.pop(name) for name in ("hour", "minute", "second", "nano")))

    def _set_time_of(self, hour: int, minute: int, second: int, nano: int) -> None:
        valid("minute", minute)
        valid("nano", nano)
        if (hour, minute, second, nano) == (24, 0, 0, 0):
            self._set_time(0, extra_day=True)
            return
        seconds = valid("hour", hour) * 3600 + minute * 60 + valid("second", second)
        self._set_time(seconds * SECOND_NANOS + nano)

    def _complete_time(self) -> None:
        """Make a time where smaller units are missing."""
        numbers = self._numbers
        if self._made.nanos is not None:
            return
        if self._has("milli"):
            numbers["nano"] = numbers.pop("milli") * 1_000_000
        if not any(name in numbers for name in ("hour", "minute", "second", "nano")):
            if self._period is not None:
                at = middle(self._period)
                self._set_time_of(at // 60, at % 60, 0, 0)
                self._period = None
            elif self._has("half"):
                (half,) = self._take("half")
                self._set_time_of(half * 12 + 6, 0, 0, 0)
        given = [name in numbers for name in ("hour", "minute", "second", "nano")]
        if given != sorted(given, reverse=True) or not given[0]:
            return  # a unit is missing before a smaller one
        hour, minute, second, nano = (numbers.get(name, 0) for name in ("hour", "minute", "second", "nano"))
        if self._period is not None and not includes(self._period, hour * 60 + minute):
            raise ValueError(f"found {hour:02d}:{minute:02d}, expected a time in the part of the day")
        self._set_time_of(hour, minute, second, nano)
        for name in ("hour", "minute", "second", "nano"):
            numbers.pop(name, None)

    def _compare(self) -> None:
        """Compare the remaining fields with the date and the time that were made, and remove them."""
        made = self._made
        for name, value in list(self._numbers.items()):
            if name in DATE_FIELDS and made.days is not None:
                actual = DATE_FIELDS[name](made.days)
            elif name in TIME_FIELDS and made.nanos is not None:
                actual = time_field(name, made.nanos)
            else:
                continue
            if value != actual:
                raise ValueError(f"found {value} for the {name}, expected {actual} as by the other fields")
            del self._numbers[name]

    def _add_instant(self) -> None:
        made = self._made
        offset = self._numbers.get("offset")
        if offset is not None:
            offset_zone(offset)
        if made.days is None or made.nanos is None:
            return
        if offset is not None:
            local = made.days * DAY_SECONDS + made.nanos // SECOND_NANOS
            self._numbers["instant"] = local - offset
        elif made.zone is not None:
            at = _Zoned(made.zone, made.days, made.nanos)
            self._numbers["instant"] = at.local_second() - at.offset_seconds


class _Zoned:
    """A local date and time in a zone, of which fields are replaced one by one, as Java does."""

    def __init__(self, zone: Zone, days: int, nanos: int) -> None:
        self._zone = zone
        self.days, self.nanos = days, nanos
        self.offset_seconds = 0
        self._resolve(None)

    def local_second(self) -> int:
        return self.days * DAY_SECONDS + self.nanos // SECOND_NANOS

    def _resolve(self, preferred: int | None) -> None:
        """Find the offset. A local time that clocks skip is moved by what they skip."""
        before, after = self._zone.local_offsets(self.local_second())
        if before < after:
            self._set_local(self.local_second() + after - before)
            self.offset_seconds = after
        else:
            self.offset_seconds = after if preferred == after else before

    def _set_local(self, second: int) -> None:
        self.days, of_day = divmod(second, DAY_SECONDS)
        self.nanos = of_day * SECOND_NANOS + self.nanos % SECOND_NANOS

    def replace(self, name: str, value: int) -> None:
        if name == "instant":
            self.offset_seconds = self._zone.offset_at(value)
            self._set_local(value + self.offset_seconds)
        elif name == "offset":
            if value in self._zone.local_offsets(self.local_second()):
                self.offset_seconds = value
        elif name in TIME_FIELDS:
            self.nanos = with_time_field(self.nanos, name, value)
            self._resolve(self.offset_seconds)
        else:
            self.days = with_date_field(self.days, name, value)
            self._resolve(self.offset_seconds)

    def set_year(self, year: int) -> None:
        self.days = with_year(self.days, year)
        self._resolve(self.offset_seconds)

    def timestamp_ms(self) -> int:
        second = self.local_second() - self.offset_seconds
        return second * 1000 + self.nanos % SECOND_NANOS // 1_000_000


def timestamp_of(resolved: Resolved, default_zone: Zone) -> int:
    """Return the timestamp in ms, with 1970-01-01 00:00 for what was not parsed.

    Raises ValueError for a field that does not fit the others.
    """
    zone = resolved.zone
    if zone is None and "offset" in resolved.numbers:
        zone = offset_zone(resolved.numbers["offset"])
    zone = zone or default_zone
    direct = _direct_timestamp(resolved, zone)
    if direct is not None:
        return direct
    at = _Zoned(zone, 0, 0)
    for name in _ORDER:
        value = resolved.get(name)
        if value is None:
            continue
        if name == "day of year" and value == _LEAP_DAY:
            year = resolved.get("year")
            if year is None:
                raise ValueError("found day 366 of a year, expected the year, too")
            at.set_year(year)
        at.replace(name, value)
    return at.timestamp_ms()


def _direct_timestamp(resolved: Resolved, zone: Zone) -> int | None:
    """Return the timestamp in ms of a whole date, or None if fields must be replaced one by one.

    That is needed where the zone's clocks change, because the way to the local time then decides its offset.
    """
    if resolved.days is None or (resolved.zone is not None and "offset" in resolved.numbers):
        return None
    if resolved.nanos is None and (zone.rules is not None or not TIME_FIELDS.isdisjoint(resolved.numbers)):
        return None
    nanos = resolved.nanos or 0
    local = resolved.days * DAY_SECONDS + nanos // SECOND_NANOS
    before, after = zone.local_offsets(local)
    return (local - before) * 1000 + nanos % SECOND_NANOS // 1_000_000 if before == after else None
