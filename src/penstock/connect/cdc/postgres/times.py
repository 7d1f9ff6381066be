"""Value types of dates, times and timestamps, by ``time.precision.mode``. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock.connect.cdc.civil import DAY_US, iso_date, iso_time, iso_timestamp
from penstock.connect.cdc.modes import TimePrecision
from penstock.connect.cdc.postgres.settings import ValueSettings
from penstock.connect.cdc.postgres.temporal import (
    INFINITE_MICROS,
    INFINITY,
    days_of_date,
    micros_of_time,
    micros_of_timestamp,
    split_zone,
)
from penstock.connect.cdc.postgres.value_types import ValueType, named
from penstock.connect.data.logical import date_schema, time_schema, timestamp_schema
from penstock.connect.data.schema import Type
from penstock.connect.errors import DataError

_Value = TypeVar("_Value")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INT64_MAX: Final = (1 << 63) - 1
_DEFAULT_DIGITS: Final = 6
_ADAPTIVE: Final = (TimePrecision.ADAPTIVE, TimePrecision.ADAPTIVE_TIME_MICROSECONDS)


def date_type(settings: ValueSettings, modifier: int = -1) -> ValueType:
    """date."""
    if settings.time_precision is TimePrecision.ISOSTRING:
        schema = named(Type.STRING, "io.debezium.time.IsoDate")
        return ValueType(schema, lambda text: iso_date(days_of_date(text)) + "Z", "1970-01-01Z")
    if settings.time_precision is TimePrecision.CONNECT:
        return ValueType(date_schema(), _connect_date, _EPOCH.date())
    return ValueType(named(Type.INT32, "io.debezium.time.Date"), days_of_date, 0)


def time_type(settings: ValueSettings, modifier: int) -> ValueType:
    """time(digits)."""
    mode = settings.time_precision
    if mode is TimePrecision.ISOSTRING:
        schema = named(Type.STRING, "io.debezium.time.IsoTime")
        return ValueType(schema, lambda text: iso_time(micros_of_time(text)) + "Z", "00:00:00Z")
    if mode is TimePrecision.CONNECT:
        return ValueType(time_schema(), _connect_time, datetime.time())
    if mode is TimePrecision.NANOSECONDS:
        schema = named(Type.INT64, "io.debezium.time.NanoTime")
        return ValueType(schema, lambda text: micros_of_time(text) * 1000, 0)
    if mode is TimePrecision.ADAPTIVE and _digits(modifier) <= 3:
        return ValueType(
            named(Type.INT32, "io.debezium.time.Time"), lambda text: micros_of_time(text) // 1000, 0
        )
    return ValueType(named(Type.INT64, "io.debezium.time.MicroTime"), micros_of_time, 0)


def timetz_type(settings: ValueSettings, modifier: int = -1) -> ValueType:
    """timetz: a text in UTC, whatever the mode."""
    return ValueType(named(Type.STRING, "io.debezium.time.ZonedTime"), _time_in_utc, "00:00:00Z")


def timestamp_type(settings: ValueSettings, modifier: int) -> ValueType:
    """timestamp(digits)."""
    mode = settings.time_precision
    if mode is TimePrecision.ISOSTRING:
        schema = named(Type.STRING, "io.debezium.time.IsoTimestamp")
        return ValueType(
            schema, lambda text: iso_timestamp(micros_of_timestamp(text)), "1970-01-01T00:00:00Z"
        )
    if mode is TimePrecision.CONNECT:
        return ValueType(timestamp_schema(), _connect_timestamp, _EPOCH)
    if mode is TimePrecision.NANOSECONDS:
        return ValueType(named(Type.INT64, "io.debezium.time.NanoTimestamp"), _nanos, 0)
    if mode in _ADAPTIVE and _digits(modifier) <= 3:
        schema = named(Type.INT64, "io.debezium.time.Timestamp")
        return ValueType(schema, millis_of_timestamp, 0)
    schema = named(Type.INT64, "io.debezium.time.MicroTimestamp")
    return ValueType(schema, micros_to_int64, 0)


def timestamptz_type(settings: ValueSettings, modifier: int) -> ValueType:
    """timestamptz(digits): a text in UTC with exactly these digits, whatever the mode."""
    schema = named(Type.STRING, "io.debezium.time.ZonedTimestamp")
    return ValueType(schema, ZonedText(_digits(modifier)), "1970-01-01T00:00:00Z")


def millis_of_timestamp(text: str) -> int:
    """Milliseconds since 1970. Raises DataError."""
    return micros_of_timestamp(text) // 1000


def micros_to_int64(text: str) -> int:
    """Microseconds since 1970, at most the largest of 64 bits. Raises DataError."""
    return min(micros_of_timestamp(text), _INT64_MAX)


@dataclass(frozen=True, slots=True)
class ZonedText:
    """Turns a timestamp with a zone into text in UTC, with so many digits of a second."""

    digits: int

    def __call__(self, text: str) -> str:
        return text if text in INFINITE_MICROS else iso_timestamp(micros_of_timestamp(text), self.digits)


def _digits(modifier: int) -> int:
    """The digits of a second that a modifier allows."""
    return _DEFAULT_DIGITS if modifier < 0 else modifier


def _time_in_utc(text: str) -> str:
    time, zone = split_zone(text)
    return iso_time((micros_of_time(time) - zone * 1_000_000) % DAY_US) + "Z"


def _nanos(text: str) -> int:
    if text in INFINITE_MICROS:
        return _INT64_MAX if text == INFINITY else -_INT64_MAX - 1
    nanos = micros_of_timestamp(text) * 1000
    if not -_INT64_MAX <= nanos <= _INT64_MAX:
        raise DataError(f"{text} has too many nanoseconds for 64 bits")
    return nanos


def _connect_date(text: str) -> datetime.date:
    return _within(text, lambda: _EPOCH.date() + datetime.timedelta(days=days_of_date(text)))


def _connect_time(text: str) -> datetime.time:
    millis = micros_of_time(text) // 1000
    return _within(text, lambda: (_EPOCH + datetime.timedelta(milliseconds=millis)).time())


def _connect_timestamp(text: str) -> datetime.datetime:
    millis = micros_of_timestamp(text) // 1000
    return _within(text, lambda: _EPOCH + datetime.timedelta(milliseconds=millis))


def _within(text: str, make: Callable[[], _Value]) -> _Value:
    """The value, if Python's years 1 to 9999 hold it. Raises DataError."""
    try:
        return make()
    except OverflowError:
        raise DataError(
            f"{text} lies outside the years 1 to 9999 of time.precision.mode connect; use another mode"
        ) from None
