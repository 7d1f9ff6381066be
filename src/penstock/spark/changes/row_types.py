"""Spark's types of the rows in change records, from the schemas that Connect's JSON converter adds to them.

Debezium encodes times as numbers and decimals as bytes, and names the meaning in the schema. Here such values
become the texts that Spark's JSON reader takes for dates, timestamps and decimals. All other values stay as
they are. Times without a zone become TIMESTAMP_NTZ. Times of day and intervals stay numbers, since neither
Delta nor Iceberg tables have Spark's types for them.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

import numpy as np

log = logging.getLogger(__name__)

Convert = Callable[[Any], Any]

OutOfRange = Literal["error", "nearest"]
"""Decides about a date or time that tables cannot have: an error, or the nearest one, which is logged."""

DECIMAL_PRECISION_MAX: Final = 38
"""The most digits of a decimal in Spark, Delta and Iceberg; longer ones become texts."""

_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"
_PLAIN: Final = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BINARY",  # Spark's JSON reader decodes base64, as the converter writes bytes
}


@dataclass(frozen=True, slots=True)
class RowType:
    """The columns of a row as Spark's DDL, and what turns a decoded row into one that Spark's reader takes.

    ``convert`` is None if rows need no change.
    """

    ddl: str
    convert: Convert | None


def row_type(envelope: Mapping[str, Any], out_of_range: OutOfRange = "error") -> RowType:
    """Return the type of the rows in an envelope's schema. Raises ValueError for a schema without them."""
    for field in envelope.get("fields", ()):
        if field.get("field") in ("after", "before") and field.get("type") == "struct":
            columns, convert = _columns(field, out_of_range)
            return RowType(columns, convert)
    raise ValueError("found a schema without a struct 'before' or 'after': expected Debezium's envelope")


def _columns(
    struct: Mapping[str, Any], out_of_range: OutOfRange, colon: str = ""
) -> tuple[str, Convert | None]:
    parts = []
    converts: dict[str, Convert] = {}
    for field in struct["fields"]:
        name = field["field"]
        kind, convert = _type(field, out_of_range)
        parts.append(f"{quoted(name)}{colon} {kind}")
        if convert is not None:
            converts[name] = convert

    def convert_fields(row: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: converts[name](value) if value is not None and name in converts else value
            for name, value in row.items()
        }

    return ", ".join(parts), convert_fields if converts else None


def quoted(name: str) -> str:
    """Return a column's name as Spark's SQL quotes it."""
    return "`" + name.replace("`", "``") + "`"


def _type(schema: Mapping[str, Any], out_of_range: OutOfRange) -> tuple[str, Convert | None]:
    kind, name = schema["type"], schema.get("name", "")
    if name in _LOGICAL:
        return _LOGICAL[name]
    if name in _BOUNDED:
        ddl, nearest = _BOUNDED[name]
        return ddl, _bounded(schema.get("field"), nearest, out_of_range)
    if name == _DECIMAL:
        return _decimal(schema.get("parameters") or {})
    if name == _VARIABLE_DECIMAL:
        return "STRING", _variable_decimal
    if kind == "array":
        item, convert = _type(schema["items"], out_of_range)
        return f"ARRAY<{item}>", None if convert is None else _each(convert)
    if kind == "map":
        value, convert = _type(schema["values"], out_of_range)
        return f"MAP<STRING, {value}>", None if convert is None else _each_value(convert)
    if kind == "struct":
        columns, convert = _columns(schema, out_of_range, colon=":")
        return f"STRUCT<{columns}>", convert
    if kind not in _PLAIN:
        raise ValueError(f"found the type {kind!r} in a schema: expected one of Connect's, {sorted(_PLAIN)}")
    return _PLAIN[kind], None


def _each(convert: Convert) -> Convert:
    return lambda items: [None if item is None else convert(item) for item in items]


def _each_value(convert: Convert) -> Convert:
    return lambda items: {key: None if item is None else convert(item) for key, item in items.items()}


def _time(unit: Literal["ms", "us"]) -> Convert:
    return lambda count: _iso(np.datetime64(int(count), unit))


_DAYS_MIN: Final = -719_162
_DAYS_MAX: Final = 2_932_896
"""The days of the years 1 and 9999, which Python has: delta-rs cannot read a table with dates beyond them."""


def _date(days: int) -> tuple[str, bool]:
    """Return the nearest date that tables can have, and whether it is the one given."""
    nearest = min(max(int(days), _DAYS_MIN), _DAYS_MAX)
    return _iso(np.datetime64(nearest, "D")), nearest == days


def _micros_of_nanos(count: int) -> str:
    return _iso(np.datetime64(count // 1000, "us"))


def _iso(moment: np.datetime64) -> str:
    """Return the text of a time; NumPy gives years before Christ three digits, and Spark wants four."""
    text = str(moment)
    if not text.startswith("-"):
        return text
    year, rest = text[1:].split("-", 1)
    return f"-{year:0>4}-{rest}"


_INFINITE: Final[dict[str, str]] = {
    "infinity": _time("us")(9_223_372_036_825_200_000) + "Z",
    "-infinity": _time("us")(-9_223_372_036_832_400_000) + "Z",
}
"""PostgreSQL's infinite timestamps with a zone, as Debezium's `MicroTimestamp` has those without one."""


_YEAR_MAX: Final = 294_246
"""The last whole year of Spark's timestamps; PostgreSQL's reach 30 years further."""


def _zoned(text: str) -> tuple[str, bool]:
    """Return the nearest timestamp that tables can have, and whether it is the one given."""
    if text.startswith("+") and int(text[1:].partition("-")[0]) > _YEAR_MAX:
        return _INFINITE["infinity"], False
    return _INFINITE.get(text, text), True


Nearest = Callable[[Any], tuple[str, bool]]

_BOUNDED: Final[dict[str, tuple[str, Nearest]]] = {
    "io.debezium.time.Date": ("DATE", _date),
    "io.debezium.time.ZonedTimestamp": ("TIMESTAMP", _zoned),
    "org.apache.kafka.connect.data.Date": ("DATE", _date),
}


def _bounded(column: str | None, nearest: Nearest, out_of_range: OutOfRange) -> Convert:
    name = "a list or map" if column is None else f"the column {column!r}"
    was_logged = False

    def convert(value: Any) -> str:
        nonlocal was_logged
        text, is_same = nearest(value)
        if is_same:
            return text
        if out_of_range == "error":
            raise ValueError(
                f"{name} has the value {value!r}: expected a date of the years 1 to 9999 or a timestamp "
                f"before the year {_YEAR_MAX + 1}; with out_of_range='nearest', {text} is kept instead"
            )
        if not was_logged:
            was_logged = True
            log.warning(
                "a time out of range is kept as the nearest place=%s time=%r kept=%s", name, value, text
            )
        return text

    return convert


_LOGICAL: Final[dict[str, tuple[str, Convert | None]]] = {
    "io.debezium.time.Timestamp": ("TIMESTAMP_NTZ", _time("ms")),
    "io.debezium.time.MicroTimestamp": ("TIMESTAMP_NTZ", _time("us")),
    "io.debezium.time.NanoTimestamp": ("TIMESTAMP_NTZ", _micros_of_nanos),
    "org.apache.kafka.connect.data.Timestamp": ("TIMESTAMP_NTZ", _time("ms")),
}


def _decimal(parameters: Mapping[str, str]) -> tuple[str, Convert]:
    scale = int(parameters.get("scale", 0))
    precision = int(parameters.get("connect.decimal.precision", DECIMAL_PRECISION_MAX))
    shown = max(scale, 0)
    digits = max(precision + shown - scale, shown, 1)
    kind = "STRING" if digits > DECIMAL_PRECISION_MAX else f"DECIMAL({digits}, {shown})"

    def convert(value: Any) -> str:
        # The converter's decimal.format is BASE64, or NUMERIC for numbers.
        return _plain(unscaled(value, scale)) if isinstance(value, str) else str(value)

    return kind, convert


def _variable_decimal(value: Mapping[str, Any]) -> str:
    return _plain(unscaled(value["value"], value["scale"]))


def _plain(number: Decimal) -> str:
    return f"{number:f}"


def unscaled(text: str, scale: int) -> Decimal:
    """Return the decimal whose unscaled value is in base64, as two's complement in big-endian order."""
    number = int.from_bytes(base64.b64decode(text), "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
