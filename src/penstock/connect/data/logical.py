"""Kafka Connect's own logical types: the name of a schema says what its bytes or numbers mean.

Python has no dates outside the years 1 to 9999, and no 24:00. Numbers for such values are refused.
"""

from __future__ import annotations

import datetime
from decimal import Context, Decimal
from typing import Any, Final

from penstock.connect.data.schema import Schema, Type
from penstock.connect.errors import DataError

DECIMAL_NAME: Final = "org.apache.kafka.connect.data.Decimal"
DATE_NAME: Final = "org.apache.kafka.connect.data.Date"
TIME_NAME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME: Final = "org.apache.kafka.connect.data.Timestamp"
SCALE: Final = "scale"
"""The parameter of a Decimal schema with its number of digits after the point."""
MS_PER_DAY: Final = 24 * 60 * 60 * 1000

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_EXACT: Final = Context(prec=1_000_000)  # no decimal of a topic has as many digits


def decimal_schema(scale: int, **more: Any) -> Schema:
    """Decimals with `scale` digits after the point: BYTES with the unscaled number in two's complement."""
    return Schema(Type.BYTES, name=DECIMAL_NAME, version=1, parameters={SCALE: str(scale)}, **more)


def date_schema(**more: Any) -> Schema:
    """Days: INT32 since 1970-01-01."""
    return Schema(Type.INT32, name=DATE_NAME, version=1, **more)


def time_schema(**more: Any) -> Schema:
    """Times of day: INT32 milliseconds since midnight."""
    return Schema(Type.INT32, name=TIME_NAME, version=1, **more)


def timestamp_schema(**more: Any) -> Schema:
    """Moments: INT64 milliseconds since 1970 in UTC."""
    return Schema(Type.INT64, name=TIMESTAMP_NAME, version=1, **more)


def days_of(value: datetime.date) -> int:
    """Return the days from 1970-01-01 to a date."""
    return value.toordinal() - _EPOCH_DAY


def date_of(days: int) -> datetime.date:
    """Return the date so many days after 1970-01-01. Raises DataError outside the years 1 to 9999."""
    try:
        return datetime.date.fromordinal(days + _EPOCH_DAY)
    except (ValueError, OverflowError):
        raise DataError(f"{days} days since 1970 are outside the years 1 to 9999, which Python has") from None


def millis_of_day(value: datetime.time) -> int:
    """Return the milliseconds from midnight to a time of day; microseconds are cut off."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def time_of(millis: int) -> datetime.time:
    """Return the time of day so many milliseconds after midnight. Raises DataError outside of a day."""
    if not 0 <= millis < MS_PER_DAY:
        raise DataError(f"{millis} ms is no time of day: expected 0 to {MS_PER_DAY - 1}")
    seconds, millis = divmod(millis, 1000)
    minutes, second = divmod(seconds, 60)
    return datetime.time(minutes // 60, minutes % 60, second, millis * 1000)


def epoch_millis(value: datetime.datetime) -> int:
    """Return the milliseconds since 1970 in UTC, without microseconds. Raises DataError without a zone."""
    if value.tzinfo is None:
        raise DataError(f"{value!r} has no time zone: a timestamp needs one, such as UTC")
    return (value - _EPOCH) // _MILLISECOND


def timestamp_of(millis: int) -> datetime.datetime:
    """Return the moment so many milliseconds after 1970. Raises DataError outside the years 1 to 9999."""
    try:
        return _EPOCH + datetime.timedelta(milliseconds=millis)
    except OverflowError:
        raise DataError(f"{millis} ms since 1970 are outside the years 1 to 9999, which Python has") from None


def scale_parameter(schema: Schema) -> int:
    """Return the number of digits after the point that a Decimal schema sets. Raises DataError."""
    text = (schema.parameters or {}).get(SCALE)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError(f"Invalid scale parameter in a Decimal schema: {text!r}, expected a number") from None


def unscaled_bytes(value: Decimal, scale: int) -> bytes:
    """Return the unscaled number in two's complement, as few bytes as it needs (BigInteger.toByteArray).

    Raises DataError if the value's own scale is another.
    """
    exponent = value.as_tuple().exponent
    if exponent != -scale:
        found = -exponent if isinstance(exponent, int) else value
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {scale}, value has scale {found}."
        )
    unscaled = int(value.scaleb(scale, _EXACT))
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


def decimal_of_bytes(data: bytes, scale: int) -> Decimal:
    """Return the decimal whose unscaled number these bytes are. Raises DataError if there are none."""
    if not data:
        raise DataError("Invalid bytes for a Decimal: expected one byte at least, found none")
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT)
