"""Debezium's modes of values that all databases have, under Debezium's names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from penstock.connect.errors import ConnectError

_Mode = TypeVar("_Mode", bound=Enum)


class DecimalMode(Enum):
    """``decimal.handling.mode``: what numeric becomes."""

    PRECISE = "precise"
    DOUBLE = "double"
    STRING = "string"


class TimePrecision(Enum):
    """``time.precision.mode``: what date, time and timestamp become."""

    ADAPTIVE = "adaptive"
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"
    ISOSTRING = "isostring"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"


class BinaryMode(Enum):
    """``binary.handling.mode``: what bytea becomes."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


def mode_of(properties: Mapping[str, str], name: str, default: _Mode) -> _Mode:
    """The mode that a property names. Raises ConnectError, which names the property and what is allowed."""
    value = properties.get(name, default.value).strip().lower()
    for mode in type(default):
        if mode.value == value:
            return mode
    allowed = ", ".join(mode.value for mode in type(default))
    raise ConnectError(f"{name} is {value!r}; expected one of {allowed}")
