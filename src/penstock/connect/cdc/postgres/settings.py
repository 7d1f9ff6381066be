"""How values and schemas are shaped: Debezium's handling modes, under Debezium's names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from penstock.connect.errors import ConnectError


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


class IntervalMode(Enum):
    """``interval.handling.mode``: microseconds, with a month of 30.4375 days, or ISO 8601 text."""

    NUMERIC = "numeric"
    STRING = "string"


class HstoreMode(Enum):
    """``hstore.handling.mode``."""

    JSON = "json"
    MAP = "map"


_Mode = TypeVar("_Mode", bound=Enum)
_HEX_PREFIX = "hex:"


@dataclass(frozen=True, slots=True)
class ValueSettings:
    """The settings that columns' schemas and values depend on."""

    decimal: DecimalMode = DecimalMode.PRECISE
    time_precision: TimePrecision = TimePrecision.ADAPTIVE
    binary: BinaryMode = BinaryMode.BYTES
    interval: IntervalMode = IntervalMode.NUMERIC
    hstore: HstoreMode = HstoreMode.JSON
    money_fraction_digits: int = 2
    include_unknown_datatypes: bool = False
    unavailable_value_placeholder: bytes = b"__debezium_unavailable_value"

    @staticmethod
    def of(properties: Mapping[str, str]) -> ValueSettings:
        """Read Debezium's properties. Raises ConnectError, which names the property and what is allowed."""
        placeholder = properties.get("unavailable.value.placeholder", "__debezium_unavailable_value")
        is_hex = placeholder.startswith(_HEX_PREFIX)
        return ValueSettings(
            _mode(properties, "decimal.handling.mode", DecimalMode.PRECISE),
            _mode(properties, "time.precision.mode", TimePrecision.ADAPTIVE),
            _mode(properties, "binary.handling.mode", BinaryMode.BYTES),
            _mode(properties, "interval.handling.mode", IntervalMode.NUMERIC),
            _mode(properties, "hstore.handling.mode", HstoreMode.JSON),
            int(properties.get("money.fraction.digits", "2")),
            properties.get("include.unknown.datatypes", "false").lower() == "true",
            bytes.fromhex(placeholder.removeprefix(_HEX_PREFIX)) if is_hex else placeholder.encode(),
        )


def _mode(properties: Mapping[str, str], name: str, default: _Mode) -> _Mode:
    value = properties.get(name, default.value).strip().lower()
    for mode in type(default):
        if mode.value == value:
            return mode
    allowed = ", ".join(mode.value for mode in type(default))
    raise ConnectError(f"{name} is {value!r}; expected one of {allowed}")
