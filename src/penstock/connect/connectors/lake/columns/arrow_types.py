"""The Arrow types of Connect's schemas.

Every column may be null, whatever the schema says: a later schema can make a field optional or remove it,
and few tables can follow a column that has become optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from penstock.connect.data.logical import (
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    scale_parameter,
)
from penstock.connect.data.schema import Schema, Type
from penstock.connect.errors import DataError

DIGITS_MAX: Final = 38
"""The digits that a decimal has in Parquet, Delta and Iceberg at most."""
PRECISION: Final = "connect.decimal.precision"
"""The parameter with the number of digits, as JDBC's and Debezium's connectors set it."""
MOMENT: Final = pa.timestamp("us", "UTC")
"""Delta and Iceberg have microseconds only."""
_PLAIN: Final = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}


@dataclass(frozen=True)
class ArrowTypes:
    """The types that a format has. Without ``times``, times of day are milliseconds, as in Connect's INT32.

    Without ``small_integers``, INT8 and INT16 are columns of 32 bits.
    """

    times: bool = True
    small_integers: bool = True

    def type_of(self, schema: Schema) -> pa.DataType:
        """Return the type of values with a schema. Raises DataError if Arrow or the format has none."""
        match schema.type:
            case Type.STRUCT:
                return pa.struct(self._fields(schema))
            case Type.ARRAY:
                return pa.list_(pa.field("element", self.type_of(part(schema.value_schema, schema))))
            case Type.MAP:
                key = pa.field("key", self.type_of(part(schema.key_schema, schema)), nullable=False)
                return pa.map_(key, pa.field("value", self.type_of(part(schema.value_schema, schema))))
            case _ if (name := schema.name) in _LOGICAL:
                return self._logical(str(name), schema)
        return self._primitives[schema.type]

    def columns_of(self, schema: Schema) -> pa.Schema:
        """Return the columns of structs with a schema. Raises DataError, also for anything but a struct."""
        if schema.type is not Type.STRUCT:
            raise DataError(f"a table needs records with fields: expected a struct, found {schema}")
        return pa.schema(self._fields(schema))

    def _fields(self, schema: Schema) -> list[pa.Field]:
        if not schema.fields:
            raise DataError(f"a struct without fields has no columns: {schema}")
        return [pa.field(each.name, self.type_of(each.schema)) for each in schema.fields]

    @cached_property
    def _primitives(self) -> Mapping[Type, pa.DataType]:
        narrow = {} if self.small_integers else dict.fromkeys((Type.INT8, Type.INT16), pa.int32())
        return {**_PLAIN, **narrow}

    def _logical(self, name: str, schema: Schema) -> pa.DataType:
        if name == DECIMAL_NAME:
            return decimal_type(schema)
        if name == TIME_NAME and not self.times:
            return pa.int32()
        return _LOGICAL[name]


_LOGICAL: Final[Mapping[str, pa.DataType]] = {
    DECIMAL_NAME: pa.decimal128(DIGITS_MAX),
    DATE_NAME: pa.date32(),
    TIME_NAME: pa.time64("us"),
    TIMESTAMP_NAME: MOMENT,
}


def decimal_type(schema: Schema) -> pa.DataType:
    """Return the type of a Decimal schema: with as many digits as there can be, unless a parameter says
    how many."""
    scale = scale_parameter(schema)
    text = (schema.parameters or {}).get(PRECISION, "")
    precision = int(text) if text.isdecimal() else DIGITS_MAX
    if not (0 <= scale <= precision and 1 <= precision <= DIGITS_MAX):
        raise DataError(
            f"a column has decimals of at most {DIGITS_MAX} digits, found precision {precision} and "
            f"scale {scale}"
        )
    return pa.decimal128(precision, scale)


def part(schema: Schema | None, of: Schema) -> Schema:
    """Return the schema of the parts of an array or a map. Raises DataError if there is none."""
    if schema is None:
        raise DataError(f"no schema defined for the parts of {of}")
    return schema
