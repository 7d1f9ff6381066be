"""Changes Connect's values to what a column of the database takes."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable
from typing import Any

from penstock.connect.connectors.sql.dialects import Column, Dialect
from penstock.connect.data.logical import TIMESTAMP_NAME, epoch_millis
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct

Bind = Callable[[Any], Any]


def binder(schema: Schema | None, column: Column, dialect: Dialect, zone: datetime.tzinfo) -> Bind | None:
    """Return what changes values of a schema for a column; None if nothing does. It gets no nulls."""
    if schema is None:
        return None
    own = dialect.binder(column.kind)
    if schema.type in (Type.STRUCT, Type.MAP, Type.ARRAY):
        return None if column.kind.endswith("[]") else _json
    if schema.name == TIMESTAMP_NAME:
        return _moment(column, dialect, zone)
    return own


def _moment(column: Column, dialect: Dialect, zone: datetime.tzinfo) -> Bind:
    match column.kind:
        case "bigint" | "numeric":
            return epoch_millis
        case "date":
            return lambda value: value.astimezone(zone).date()
        case "text":
            return lambda value: value.astimezone(zone).isoformat()
        case _:
            return lambda value: dialect.moment(value, column, zone)


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, default=_json_text)


def _json_text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    """A value of nested structs as JSON has it; bytes become Base64 as in the JSON converter."""
    if isinstance(value, Struct):
        return {each.name: _plain(value[each.name]) for each in value.schema.fields}
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
