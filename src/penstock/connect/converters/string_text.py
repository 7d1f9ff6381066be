"""Texts of values as Java's toString has them, which is what StringConverter writes."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, Final

from penstock.connect.data import logical
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.data.values import temporal_millis
from penstock.connect.errors import DataError
from penstock.java.numbers import double_text, float32, float_text

_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def string_text(schema: Schema | None, value: Any) -> str:
    """Return the text of a value.

    Raises:
        DataError: the value contains bytes, of which Java prints only an address.
    """
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            is_short = schema is not None and schema.type is Type.FLOAT32
            return float_text(float32(value)) if is_short else double_text(value)
        case Decimal():
            return str(value if value else value.copy_abs())
        case datetime.date() | datetime.time():
            return _date_text(value)
        case list():
            element = schema.value_schema if schema is not None else None
            return f"[{', '.join([string_text(element, each) for each in value])}]"
        case dict():
            keys, values = (schema.key_schema, schema.value_schema) if schema is not None else (None, None)
            pairs = [f"{string_text(keys, key)}={string_text(values, each)}" for key, each in value.items()]
            return f"{{{', '.join(pairs)}}}"
        case Struct():
            return _struct_text(value)
    raise DataError(f"{type(value).__name__} has no text: StringConverter needs strings, numbers or the like")


def _struct_text(struct: Struct) -> str:
    pairs = zip(struct.schema.fields, struct.own_values, strict=True)
    shown = [f"{each.name}={string_text(each.schema, value)}" for each, value in pairs if value is not None]
    return f"Struct{{{','.join(shown)}}}"


def _date_text(value: datetime.date | datetime.time) -> str:
    """Format a logical value as Date.toString does on a machine whose time zone is UTC."""
    moment = logical.timestamp_of(temporal_millis(value))
    day = f"{_WEEKDAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment.day:02}"
    return f"{day} {moment:%H:%M:%S} UTC {moment.year:04}"
