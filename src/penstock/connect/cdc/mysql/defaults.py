"""Defaults of columns, from the text in the catalog, as the defaults of schemas. Pure."""

from __future__ import annotations

from typing import Any, Final

from penstock.connect.cdc.mysql import table_maps as types
from penstock.connect.cdc.mysql.table_maps import BinlogColumn
from penstock.connect.cdc.mysql.values import ValueType
from penstock.connect.errors import DataError

_INTEGERS: Final = {types.TINY, types.SHORT, types.INT24, types.LONG, types.LONGLONG, types.YEAR}
_TIMES: Final = {types.TIMESTAMP, types.TIMESTAMP2, types.DATETIME, types.DATETIME2}


def default_value(column: BinlogColumn, kind: ValueType, default: str | None) -> Any:
    """The default; None if there is none, or if it is an expression such as current_timestamp().

    ``default`` is the value's text without quotes. As in Debezium, a NOT NULL DATETIME or TIMESTAMP whose
    default is an expression has the start of 1970, and so have other dates that are zero.
    """
    if default is None:
        return None
    try:
        raw = _raw(column, kind, default)
        if raw is None:
            return None if column.nullable else kind.fallback
        return kind.convert(raw)
    except (DataError, ValueError, ArithmeticError, LookupError):
        return kind.fallback if column.type in _TIMES and not column.nullable else None


def _raw(column: BinlogColumn, kind: ValueType, default: str) -> Any:
    if column.type in _INTEGERS:
        return round(float(default)) if "." in default else int(default)
    if column.type == types.BIT:
        return int(default.removeprefix("b").strip("'"), 2)
    return kind.raw_of_text(default.encode())
