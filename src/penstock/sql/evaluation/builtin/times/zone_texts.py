"""Elements of a pattern that are time zones: offsets, identifiers and names."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql.evaluation.builtin.times.elements import MISMATCH, Fields, Reading
from penstock.sql.evaluation.builtin.times.moments import Moment
from penstock.sql.evaluation.builtin.times.zones import (
    Prefixes,
    Zone,
    offset_zone,
    region,
    shown_name,
    zone_identifiers,
    zones_by_name,
)

_STANDARD, _DAYLIGHT, _GENERIC = range(3)


@dataclass(frozen=True)
class Offset:
    """An offset in digits."""

    zero: str
    """The text for an offset of 0."""
    colon: bool = False
    minutes: bool = True
    """Whether minutes of 0 are written."""
    seconds: bool = False
    """Whether seconds other than 0 are written."""

    def write(self, moment: Moment, optional: bool) -> str | None:
        if optional and not moment.has("offset"):
            return None
        offset = moment.get("offset")
        hour, minute, second = _parts(offset)
        between = ":" if self.colon else ""
        written = f"{hour:02d}"
        if self.minutes or minute:
            written += f"{between}{minute:02d}"
        if self.seconds and second:
            written += f"{between}{second:02d}"
        return self.zero if not written.strip("0:") else ("-" if offset < 0 else "+") + written

    def read(self, reading: Reading, at: int) -> int:
        if at < len(reading.text) and reading.begins(self.zero, at):
            return reading.store("offset", 0, at + len(self.zero))
        sign = reading.text[at : at + 1]
        hour = _two_digits(reading.text, at + 1)
        if sign not in ("+", "-") or hour is None:
            return MISMATCH
        end = at + 3
        parts = [hour]
        for _ in range(2 if self.seconds else 1):
            part = self._part(reading.text, end)
            if part is None:
                break
            parts.append(part)
            end += 3 if self.colon else 2
        if self.minutes and len(parts) == 1:
            return MISMATCH
        return _store_offset(reading, sign, parts, end)

    def _part(self, text: str, at: int) -> int | None:
        if self.colon:
            return _two_digits(text, at + 1) if text[at : at + 1] == ":" else None
        return _two_digits(text, at)


def _store_offset(reading: Reading, sign: str, parts: list[int], end: int) -> int:
    hour, minute, second = [*parts, 0, 0][:3]
    if hour > 23:
        raise ValueError(f"found an offset of {hour} hours, expected 23 at most")
    seconds = hour * 3600 + minute * 60 + second
    return reading.store("offset", -seconds if sign == "-" else seconds, end)


def _parts(offset: int) -> tuple[int, int, int]:
    minutes, second = divmod(abs(offset), 60)
    return minutes // 60, minutes % 60, second


def _two_digits(text: str, at: int, most: int = 59) -> int | None:
    digits = text[at : at + 2]
    if len(digits) < 2 or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits) if int(digits) <= most else None


@dataclass(frozen=True)
class GmtOffset:
    """An offset after GMT: GMT+1 or, in full, GMT+01:00."""

    full: bool

    def write(self, moment: Moment, optional: bool) -> str | None:
        if optional and not moment.has("offset"):
            return None
        offset = moment.get("offset")
        hour, minute, second = _parts(offset)
        if not offset:
            return "GMT"
        written = f"{hour:02d}:{minute:02d}" if self.full else str(hour)
        if not self.full and (minute or second):
            written += f":{minute:02d}"
        return f"GMT{'-' if offset < 0 else '+'}{written}" + (f":{second:02d}" if second else "")

    def read(self, reading: Reading, at: int) -> int:
        if not reading.begins("GMT", at):
            return MISMATCH
        at += 3
        sign = reading.text[at : at + 1]
        if sign not in ("+", "-"):
            return reading.store("offset", 0, at)
        found = self._read_full(reading.text, at + 1) if self.full else _read_short(reading.text, at + 1)
        if found is None:
            return MISMATCH
        parts, end = found
        hour, minute, second = [*parts, 0, 0][:3]
        seconds = hour * 3600 + minute * 60 + second
        return reading.store("offset", -seconds if sign == "-" else seconds, end)

    def _read_full(self, text: str, at: int) -> tuple[list[int], int] | None:
        hour = _two_digits(_at_least(text, at + 2), at, 99)
        if hour is None or _at_least(text, at + 3)[at + 2] != ":":
            return None
        minute = _two_digits(_at_least(text, at + 5), at + 3, 99)
        return None if minute is None else _more([hour, minute], text, at + 5)


def _at_least(text: str, length: int) -> str:
    """Return the text. Raises ValueError if it is shorter; Java then fails, even in an optional part."""
    if len(text) < length:
        raise ValueError(f"found {text!r}, expected an offset such as GMT+01:00")
    return text


def _read_short(text: str, at: int) -> tuple[list[int], int] | None:
    digits = 0
    while digits < 2 and "0" <= _at_least(text, at + 1)[at + digits : at + digits + 1] <= "9":
        digits += 1
    if not digits:
        return None
    parts, end = _more([int(text[at : at + digits])], text, at + digits)
    return _more(parts, text, end) if len(parts) == 2 else (parts, end)


def _more(parts: list[int], text: str, at: int) -> tuple[list[int], int]:
    """Read a colon and two digits, if they are there."""
    part = _two_digits(text, at + 1, 99) if text[at : at + 1] == ":" else None
    return (parts, at) if part is None else ([*parts, part], at + 3)


_AFTER_PREFIX = Offset("0", colon=True, seconds=True)


@dataclass(frozen=True)
class ZoneIdentifier:
    """A zone's identifier."""

    def write(self, moment: Moment, optional: bool) -> str | None:
        return None if (zone := _zone(moment, optional)) is None else zone.name

    def known(self, reading: Reading) -> Prefixes:
        return zone_identifiers()

    def read(self, reading: Reading, at: int) -> int:
        text = reading.text
        if at >= len(text):
            return MISMATCH
        if text[at] in "+-":
            return _read_after_prefix(reading, at, at)
        if at + 2 <= len(text):
            if reading.begins("UT", at):
                return _read_after_prefix(reading, at, at + (3 if reading.begins("UTC", at) else 2))
            if reading.begins("GMT", at):
                if text[at + 3 : at + 4] == "0":
                    reading.fields.zone = region("GMT0")
                    return at + 4
                return _read_after_prefix(reading, at, at + 3)
        found = self.known(reading).find(text, at)
        if found is not None:
            name, length = found
            reading.fields.zone = region(name)
            return at + length
        if text[at] in "Zz":
            reading.fields.zone = offset_zone(0)
            return at + 1
        return MISMATCH


def _read_after_prefix(reading: Reading, begin: int, at: int) -> int:
    """Read the offset after UTC, UT or GMT, or after no prefix."""
    prefix = reading.text[begin:at].upper()
    inner = Reading(reading.text, reading.english, Fields())
    end = MISMATCH
    if reading.text[at : at + 1].upper() not in ("", "0", "Z"):
        end = _AFTER_PREFIX.read(inner, at)
    if end == MISMATCH and not prefix:
        return MISMATCH
    try:
        reading.fields.zone = offset_zone(inner.fields.numbers.get("offset", 0), prefix)
    except ValueError:
        return MISMATCH
    return at if end == MISMATCH else end


def _zone(moment: Moment, optional: bool) -> Zone | None:
    if moment.zone is None and not optional:
        raise ValueError("found a time zone in the pattern, expected only fields that the value has")
    return moment.zone


@dataclass(frozen=True)
class ZoneName(ZoneIdentifier):
    """A zone's name in English, for standard or daylight saving time or, if it is generic, for both."""

    full: bool
    generic: bool

    def write(self, moment: Moment, optional: bool) -> str | None:
        zone = _zone(moment, optional)
        if zone is None or zone.is_offset:
            return None if zone is None else zone.name
        variant = _GENERIC if self.generic else _STANDARD
        if not self.generic and zone.has_daylight_saving_at(moment.epoch_second):
            variant = _DAYLIGHT
        return shown_name(zone, self.full, variant)

    def known(self, reading: Reading) -> Prefixes:
        return zones_by_name(reading.english, self.full)
