"""The types of columns: raw values of the binary log, or texts of a snapshot, as Debezium's values. Pure.

A `ValueType` has a schema and two functions: `convert` shapes a raw value, and `raw_of_text` reads the text
of a snapshot as the same raw value, so that both have one shape.
"""

from __future__ import annotations

import base64
import datetime
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import Enum
from typing import Any, Final

from penstock.connect.cdc.civil import DAY_US, iso_date, iso_time, iso_timestamp
from penstock.connect.cdc.modes import BinaryMode, DecimalMode, TimePrecision, mode_of
from penstock.connect.cdc.mysql import table_maps as types
from penstock.connect.cdc.mysql.charsets import codec_of, decoded
from penstock.connect.cdc.mysql.json_binary import json_text
from penstock.connect.cdc.mysql.row_images import civil_days
from penstock.connect.cdc.mysql.table_maps import BINARY_COLLATION, BinlogColumn
from penstock.connect.data.logical import DECIMAL_NAME, date_schema, time_schema, timestamp_schema
from penstock.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    OPTIONAL_BYTES,
    OPTIONAL_INT32,
    STRING,
    Schema,
    Type,
)
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

_EXACT: Final = Context(prec=100)
_DATE: Final = re.compile(rb"(\d{4})-(\d\d)-(\d\d)(?: (.*))?")
_TIME: Final = re.compile(rb"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")
_INT64_MAX: Final = (1 << 63) - 1
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EMPTY_COLLECTION: Final = bytes.fromhex("010700000000000000")
"""The well-known binary form of an empty collection, in place of a null that may not be."""
_POINT_BYTES: Final = 21
_COORDINATES: Final = struct.Struct("<dd")


class UnsignedMode(Enum):
    """``bigint.unsigned.handling.mode``: what BIGINT UNSIGNED becomes."""

    LONG = "long"
    PRECISE = "precise"


@dataclass(frozen=True, slots=True)
class ValueSettings:
    """The settings that columns' schemas and values depend on."""

    decimal: DecimalMode = DecimalMode.PRECISE
    time_precision: TimePrecision = TimePrecision.ADAPTIVE_TIME_MICROSECONDS
    binary: BinaryMode = BinaryMode.BYTES
    unsigned: UnsignedMode = UnsignedMode.LONG

    @staticmethod
    def of(properties: Mapping[str, str]) -> ValueSettings:
        """Read Debezium's properties. Raises ConnectError, which names the property and what is allowed."""
        return ValueSettings(
            mode_of(properties, "decimal.handling.mode", DecimalMode.PRECISE),
            mode_of(properties, "time.precision.mode", TimePrecision.ADAPTIVE_TIME_MICROSECONDS),
            mode_of(properties, "binary.handling.mode", BinaryMode.BYTES),
            mode_of(properties, "bigint.unsigned.handling.mode", UnsignedMode.LONG),
        )


@dataclass(frozen=True, slots=True)
class ValueType:
    """A schema of values that are not null; `fallback` stands for null in a column that may not be null."""

    schema: Schema
    fallback: Any
    convert: Callable[[Any], Any] = lambda raw: raw
    raw_of_text: Callable[[bytes], Any] = int


def value_type(column: BinlogColumn, declared: str, settings: ValueSettings) -> ValueType:
    """The type of a column; ``declared`` is its type in the catalog such as ``float(7,4)``, or empty."""
    kind = column.type
    if kind in _INTEGERS:
        return _integer(column, settings)
    if kind == types.FLOAT and "," not in declared:
        return ValueType(FLOAT32, 0.0, _same, float)
    if kind in (types.FLOAT, types.DOUBLE):
        return ValueType(FLOAT64, 0.0, _same, float)
    if kind == types.BIT:
        return _bits(column.meta[1] * 8 + column.meta[0])
    if kind in (types.VARCHAR, types.VAR_STRING, types.STRING, *_BLOBS):
        return _characters(column, settings)
    if kind in (types.ENUM, types.SET):
        return _choices(column)
    if kind == types.GEOMETRY:
        return _geometry(column)
    if kind == types.JSON:
        return ValueType(_named(Type.STRING, "io.debezium.data.Json"), "{}", _json, _same)
    return _BY_SETTINGS[kind](column, settings)


def _same(raw: Any) -> Any:
    return raw


def _named(kind: Type, name: str, parameters: Mapping[str, str] | None = None) -> Schema:
    return Schema(kind, name=name, version=1, parameters=parameters)


_INTEGERS: Final = {
    types.TINY: (INT16, INT16),
    types.SHORT: (INT16, INT32),
    types.INT24: (INT32, INT32),
    types.LONG: (INT32, INT64),
    types.LONGLONG: (INT64, INT64),
}
"""The schemas of integers with a sign, and of those without."""
_BLOBS: Final = {types.BLOB, types.TINY_BLOB, types.MEDIUM_BLOB, types.LONG_BLOB}


def _integer(column: BinlogColumn, settings: ValueSettings) -> ValueType:
    if column.type == types.LONGLONG and column.unsigned:
        if settings.unsigned is UnsignedMode.PRECISE:
            return ValueType(_decimal_schema(20, 0), Decimal(0), Decimal)
        return ValueType(INT64, 0, lambda raw: (raw + (1 << 63) & (1 << 64) - 1) - (1 << 63))
    return ValueType(_INTEGERS[column.type][column.unsigned], 0)


def _decimal_schema(precision: int, scale: int) -> Schema:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return Schema(Type.BYTES, name=DECIMAL_NAME, version=1, parameters=parameters)


def _decimal(column: BinlogColumn, settings: ValueSettings) -> ValueType:
    precision, scale = column.meta
    unit = Decimal(1).scaleb(-scale)

    def of_text(text: bytes) -> Decimal:
        return Decimal(text.decode()).quantize(unit, ROUND_HALF_UP, _EXACT)

    if settings.decimal is DecimalMode.DOUBLE:
        return ValueType(FLOAT64, 0.0, float, of_text)
    if settings.decimal is DecimalMode.STRING:
        return ValueType(STRING, f"{Decimal(0).quantize(unit):f}", lambda raw: f"{raw:f}", of_text)
    return ValueType(_decimal_schema(precision, scale), Decimal(0).quantize(unit), _same, of_text)


def _bits(length: int) -> ValueType:
    if length == 1:
        return ValueType(BOOLEAN, False, bool, _number_of_bytes)
    schema = _named(Type.BYTES, "io.debezium.data.Bits", {"length": str(length)})
    size = (length + 7) // 8
    return ValueType(schema, b"", lambda raw: raw.to_bytes(size, "little"), _number_of_bytes)


def _number_of_bytes(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _characters(column: BinlogColumn, settings: ValueSettings) -> ValueType:
    """CHAR, VARCHAR and TEXT, or the bytes of BINARY, VARBINARY and BLOB."""
    if column.collation not in (None, BINARY_COLLATION):
        codec = codec_of(column.collation)
        return ValueType(STRING, "", _decoder(codec), lambda text: text.decode("utf-8", "replace"))
    encode = _ENCODERS[settings.binary]
    schema = BYTES if settings.binary is BinaryMode.BYTES else STRING
    if column.type == types.STRING:  # the log leaves out zeros at the end of BINARY(n)
        length = column.meta[1]
        return ValueType(schema, encode(b""), lambda raw: encode(raw.ljust(length, b"\0")), _same)
    return ValueType(schema, encode(b""), encode, _same)


def _decoder(codec: str) -> Callable[[bytes | str], str]:
    """The text of the log's bytes; a snapshot's is one already, perhaps with characters that Python lacks."""
    return lambda raw: raw if isinstance(raw, str) else decoded(raw, codec)


_ENCODERS: Final[dict[BinaryMode, Callable[[bytes], Any]]] = {
    BinaryMode.BYTES: bytes,
    BinaryMode.HEX: bytes.hex,
    BinaryMode.BASE64: lambda data: base64.b64encode(data).decode(),
    BinaryMode.BASE64_URL_SAFE: lambda data: base64.urlsafe_b64encode(data).decode(),
}


def _choices(column: BinlogColumn) -> ValueType:
    """ENUM and SET, whose raw values are an index from 1 and a bit map; a snapshot has the text."""
    names = column.values
    parameters = {"allowed": ",".join(each.replace(",", "\\,") for each in names)}

    def value(raw: int) -> str:
        return names[raw - 1] if raw else ""

    def joined(raw: int) -> str:
        return ",".join(name for place, name in enumerate(names) if raw >> place & 1)

    is_enum = column.type == types.ENUM
    of_number = value if is_enum else joined
    name = "io.debezium.data.Enum" if is_enum else "io.debezium.data.EnumSet"

    def convert(raw: int | bytes) -> str:
        return raw.decode() if isinstance(raw, bytes) else of_number(raw)

    return ValueType(_named(Type.STRING, name, parameters), "", convert, bytes)


def _geometry(column: BinlogColumn) -> ValueType:
    is_point = column.geometry == 1
    schema = POINT if is_point else GEOMETRY

    def convert(raw: bytes) -> Struct:
        srid, wkb = int.from_bytes(raw[:4], "little") or None, raw[4:]
        if not is_point:
            return Struct.of_values(schema, [wkb, srid])
        if len(wkb) != _POINT_BYTES:
            raise DataError(f"a point has {len(wkb)} bytes; expected {_POINT_BYTES}")
        x, y = _COORDINATES.unpack_from(wkb, 5)
        return Struct.of_values(schema, [x, y, wkb, srid])

    fallback = None if is_point else Struct.of_values(schema, [_EMPTY_COLLECTION, None])
    return ValueType(schema, fallback, convert, _same)


def _json(raw: bytes) -> str:
    return json_text(raw) if raw[:1] < b" " else raw.decode()


def _year(column: BinlogColumn, settings: ValueSettings) -> ValueType:
    return ValueType(_named(Type.INT32, "io.debezium.time.Year"), 0)


def _date(column: BinlogColumn, settings: ValueSettings) -> ValueType:
    mode = settings.time_precision
    if mode is TimePrecision.ISOSTRING:
        schema = _named(Type.STRING, "io.debezium.time.IsoDate")
        return ValueType(schema, "1970-01-01Z", lambda days: iso_date(days) + "Z", days_of_text)
    if mode is TimePrecision.CONNECT:
        start = _EPOCH.date()
        return ValueType(
            date_schema(), start, lambda days: start + datetime.timedelta(days=days), days_of_text
        )
    return ValueType(_named(Type.INT32, "io.debezium.time.Date"), 0, _same, days_of_text)


def _time(column: BinlogColumn, settings: ValueSettings) -> ValueType:
    mode = settings.time_precision
    digits = column.meta[0] if column.meta else 0
    if mode is TimePrecision.ISOSTRING:
        schema = _named(Type.STRING, "io.debezium.time.IsoTime")
        return ValueType(schema, "00:00:00Z", lambda raw: iso_time(_in_day(raw)) + "Z", micros_of_time)
    if mode is TimePrecision.CONNECT:
        return ValueType(time_schema(), datetime.time(), _connect_time, micros_of_time)
    if mode is TimePrecision.NANOSECONDS:
        schema = _named(Type.INT64, "io.debezium.time.NanoTime")
        return ValueType(schema, 0, lambda raw: raw * 1000, micros_of_time)
    if mode is TimePrecision.ADAPTIVE and digits <= 3:
        schema = _named(Type.INT32, "io.debezium.time.Time")
        return ValueType(schema, 0, lambda raw: _in_day(raw) // 1000, micros_of_time)
    schema = _named(Type.INT64, "io.debezium.time.MicroTime")
    return ValueType(schema, 0, _same, micros_of_time)


def _in_day(micros: int) -> int:
    """The time, if it is one of a day: texts and Connect's own type have no others. Raises DataError."""
    if not 0 <= micros < DAY_US:
        raise DataError("the TIME is not one of a day; time.precision.mode adaptive_time_microseconds has it")
    return micros


def _connect_time(micros: int) -> datetime.time:
    return (_EPOCH + datetime.timedelta(milliseconds=_in_day(micros) // 1000)).time()


def _datetime(column: BinlogColumn, settings: ValueSettings) -> ValueType:
    mode = settings.time_precision
    digits = column.meta[0] if column.meta else 0
    if mode is TimePrecision.ISOSTRING:
        schema = _named(Type.STRING, "io.debezium.time.IsoTimestamp")
        return ValueType(schema, "1970-01-01T00:00:00Z", iso_timestamp, micros_of_text)
    if mode is TimePrecision.CONNECT:
        return ValueType(
            timestamp_schema(),
            _EPOCH,
            lambda raw: _EPOCH + datetime.timedelta(milliseconds=raw // 1000),
            micros_of_text,
        )
    if mode is TimePrecision.NANOSECONDS:
        schema = _named(Type.INT64, "io.debezium.time.NanoTimestamp")
        return ValueType(schema, 0, _nanos, micros_of_text)
    if mode is not TimePrecision.MICROSECONDS and digits <= 3:
        schema = _named(Type.INT64, "io.debezium.time.Timestamp")
        return ValueType(schema, 0, lambda raw: raw // 1000, micros_of_text)
    return ValueType(_named(Type.INT64, "io.debezium.time.MicroTimestamp"), 0, _same, micros_of_text)


def _timestamp(column: BinlogColumn, settings: ValueSettings) -> ValueType:
    """TIMESTAMP: a text in UTC with the column's digits."""
    digits = column.meta[0] if column.meta else 0
    schema = _named(Type.STRING, "io.debezium.time.ZonedTimestamp")
    return ValueType(schema, "1970-01-01T00:00:00Z", lambda raw: iso_timestamp(raw, digits), micros_of_text)


def _nanos(micros: int) -> int:
    if not -_INT64_MAX <= micros * 1000 <= _INT64_MAX:
        raise DataError("a DATETIME has too many nanoseconds for 64 bits")
    return micros * 1000


def days_of_text(text: bytes) -> int | None:
    """Days since 1970; None for zero dates. Raises DataError."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise DataError(f"{text!r} is not a date such as 2024-02-29")
    return civil_days(int(found[1]), int(found[2]), int(found[3]))


def micros_of_text(text: bytes) -> int | None:
    """Microseconds since 1970 of a date with a time; None for zero dates. Raises DataError."""
    days = days_of_text(text)
    return None if days is None else days * DAY_US + micros_of_time(text[11:] or b"00:00:00")


def micros_of_time(text: bytes) -> int:
    """Microseconds of a TIME, which may be negative and longer than a day. Raises DataError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise DataError(f"{text!r} is not a time such as -12:34:56.789")
    seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])
    micros = seconds * 1_000_000 + int((found[5] or b"").ljust(6, b"0"))
    return -micros if found[1] else micros


_GEOMETRY_FIELDS: Final = {"wkb": BYTES, "srid": OPTIONAL_INT32}
GEOMETRY: Final = Schema.struct(
    _GEOMETRY_FIELDS, name="io.debezium.data.geometry.Geometry", version=1, doc="Geometry"
)
POINT: Final = Schema.struct(
    {"x": FLOAT64, "y": FLOAT64, "wkb": OPTIONAL_BYTES, "srid": OPTIONAL_INT32},
    name="io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)
_BY_SETTINGS: Final[dict[int, Callable[[BinlogColumn, ValueSettings], ValueType]]] = {
    types.DECIMAL: _decimal,
    types.YEAR: _year,
    types.DATE: _date,
    types.NEWDATE: _date,
    types.TIME: _time,
    types.TIME2: _time,
    types.DATETIME: _datetime,
    types.DATETIME2: _datetime,
    types.TIMESTAMP: _timestamp,
    types.TIMESTAMP2: _timestamp,
}
