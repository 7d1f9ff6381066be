"""Kafka Connect's own logical types: the name of a schema says what its bytes or numbers mean."""

from __future__ import annotations

from typing import Any, Final

from penstock.connect.data.schema import Schema, Type

DECIMAL_NAME: Final = "org.apache.kafka.connect.data.Decimal"
DATE_NAME: Final = "org.apache.kafka.connect.data.Date"
TIME_NAME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME: Final = "org.apache.kafka.connect.data.Timestamp"
SCALE: Final = "scale"
"""The parameter of a Decimal schema with its number of digits after the point."""


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
