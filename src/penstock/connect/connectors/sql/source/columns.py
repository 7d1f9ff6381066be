"""Turns columns into fields of records, and their values into Connect's."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from penstock.connect.connectors.sql.dialects import Column, Dialect
from penstock.connect.connectors.sql.source.definition import (
    BEST_FIT,
    BEST_FIT_EAGER_DOUBLE,
    NONE,
    PRECISION_ONLY,
)
from penstock.connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from penstock.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
)
from penstock.connect.data.struct import Struct
from penstock.connect.errors import ConnectError

Convert = Callable[[Any], Any]

SCALE_UNKNOWN: Final = 127
"""The scale of decimals whose column has none, as in the JDBC connectors."""
PRIMITIVE_DIGITS: Final = 19
"""Numbers with fewer digits fit into 64 bits."""
INTEGERS: Final = ((9, INT64), (4, INT32), (2, INT16), (-1, INT8))
"""The schema for integers with more digits than the number before it."""
EXACT: Final = Context(prec=100_000, rounding=ROUND_HALF_UP)
DIRECT: Final = {
    "boolean": (BOOLEAN, bool),
    "tinyint": (INT8, int),
    "smallint": (INT16, int),
    "integer": (INT32, int),
    "bigint": (INT64, int),
    "real": (FLOAT32, float),
    "double": (FLOAT64, float),
    "bytes": (BYTES, bytes),
}


class RowSchema:
    """The schema of a table's records, and how rows become structs."""

    def __init__(
        self,
        name: str | None,
        columns: Sequence[Column],
        dialect: Dialect,
        zone: datetime.tzinfo,
        numeric_mapping: str = NONE,
    ) -> None:
        """Raise ConnectError if two columns have the same name."""
        self.columns = columns
        self._name = name
        self._converts: list[Convert] = []
        fields: dict[str, Schema] = {}
        for column in columns:
            if column.name in fields:
                raise ConnectError(
                    f"{name or 'the query'} has two columns {column.name!r}; give one another name"
                )
            schema, convert = _field(column, dialect, zone, numeric_mapping)
            fields[column.name] = schema.as_optional() if column.nullable else schema
            self._converts.append(convert)
        self.schema = Schema.struct(fields, name=name)

    def struct(self, row: Sequence[Any]) -> Struct:
        """The struct of one row. Raises ConnectError, which names the column."""
        try:
            values = [
                None if value is None else convert(value)
                for value, convert in zip(row, self._converts, strict=True)
            ]
        except (ValueError, TypeError, ArithmeticError):
            raise self._failure(row) from None
        return Struct.of_values(self.schema, values)

    def _failure(self, row: Sequence[Any]) -> ConnectError:
        for column, value, convert in zip(self.columns, row, self._converts, strict=True):
            try:
                None if value is None else convert(value)
            except (ValueError, TypeError, ArithmeticError) as error:
                return ConnectError(
                    f"a value of {self._name or 'the query'} cannot be read: column {column.name}"
                    f" ({column.type or column.kind}): {error}"
                )
        return ConnectError(f"a row of {self._name or 'the query'} has another number of columns")


def _field(
    column: Column, dialect: Dialect, zone: datetime.tzinfo, numeric_mapping: str
) -> tuple[Schema, Convert]:
    kind = column.kind
    if kind.endswith("[]"):
        element = Column(name=column.name, kind=kind.removesuffix("[]"), type=column.type)
        schema, convert = _field(element, dialect, zone, numeric_mapping)
        return Schema.array(schema.as_optional()), lambda values: [
            None if each is None else convert(each) for each in values
        ]
    if kind in DIRECT:
        return DIRECT[kind]
    match kind:
        case "numeric":
            return _numeric(column, numeric_mapping)
        case "date":
            return date_schema(), _date
        case "time":
            return time_schema(), _time
        case "timestamp" | "timestamptz":
            return timestamp_schema(), lambda value: dialect.moment_of(value, column, zone)
        case _:
            return STRING, _text


def _numeric(column: Column, mapping: str) -> tuple[Schema, Convert]:
    precision, scale = column.precision, column.scale
    if precision is None or scale is None:
        if mapping in (BEST_FIT, BEST_FIT_EAGER_DOUBLE):
            return FLOAT64, float
        precision, scale = PRIMITIVE_DIGITS, SCALE_UNKNOWN
    fits = precision < PRIMITIVE_DIGITS
    is_whole = scale == 0 if mapping == PRECISION_ONLY else scale <= 0
    if mapping != NONE and fits and is_whole:
        return next(schema for digits, schema in INTEGERS if precision > digits), int
    if ((mapping == BEST_FIT and fits) or mapping == BEST_FIT_EAGER_DOUBLE) and scale > 0:
        return FLOAT64, float
    unit = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        if not number.is_finite():
            raise ValueError(f"found {number}, which is no decimal number; cast the column in a query")
        return number.quantize(unit, context=EXACT)

    return decimal_schema(scale), convert


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value)


def _time(value: Any) -> datetime.time:
    if isinstance(value, datetime.timedelta):
        if not datetime.timedelta(0) <= value < datetime.timedelta(days=1):
            raise ValueError(f"found {value}, which is no time of day; cast the column in a query")
        return (datetime.datetime.min + value).time()
    return value if isinstance(value, datetime.time) else datetime.time.fromisoformat(value)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
