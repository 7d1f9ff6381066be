"""How values and schemas are shaped: Debezium's handling modes, under Debezium's names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.connect.cdc.modes import BinaryMode, DecimalMode, TimePrecision, mode_of


class IntervalMode(Enum):
    """``interval.handling.mode``: microseconds, with a month of 30.4375 days, or ISO 8601 text."""

    NUMERIC = "numeric"
    STRING = "string"


class HstoreMode(Enum):
    """``hstore.handling.mode``."""

    JSON = "json"
    MAP = "map"


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
            mode_of(properties, "decimal.handling.mode", DecimalMode.PRECISE),
            mode_of(properties, "time.precision.mode", TimePrecision.ADAPTIVE),
            mode_of(properties, "binary.handling.mode", BinaryMode.BYTES),
            mode_of(properties, "interval.handling.mode", IntervalMode.NUMERIC),
            mode_of(properties, "hstore.handling.mode", HstoreMode.JSON),
            int(properties.get("money.fraction.digits", "2")),
            properties.get("include.unknown.datatypes", "false").lower() == "true",
            bytes.fromhex(placeholder.removeprefix(_HEX_PREFIX)) if is_hex else placeholder.encode(),
        )
