"""The default of a column as a value: a literal of SQL, or Debezium's stand-in for a function. Pure.

Debezium ends a text at its first quote, even if it is doubled; ours is the whole text.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.connect.cdc.column_type import ColumnType
from penstock.connect.cdc.postgres.catalog import PostgresType
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

_FUNCTION: Final = re.compile(r"[(]?[A-Za-z0-9_.]+\(.*\)", re.DOTALL)
_LITERAL: Final = re.compile(r"[A-Z]?'((?:[^']|'')*)'")
_CURRENT: Final = {"current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"}
_STAND_INS: Final = {
    **dict.fromkeys(["bpchar", "varchar", "text", "xml"], ""),
    **dict.fromkeys(["float4", "float8", "int2", "int4", "int8", "numeric"], "0"),
    **dict.fromkeys(["json", "jsonb"], "{}"),
    "bool": "f",
    "bit": "00",
    "varbit": "0",
    "interval": "",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "date": "1970-01-01",
    "time": "00:00:00",
    "timestamp": "1970-01-01 00:00:00",
    "timestamptz": "1970-01-01 00:00:00+00",
}
"""The types whose defaults Debezium tells, and the text of the value that stands for a function's."""


def default_value(kind: PostgresType, column: ColumnType, expression: str | None) -> Any:
    """The default for the schema; None if there is none, or Debezium does not tell defaults of this type.

    ``kind`` is the column's own type: Debezium tells no defaults of domains.
    """
    is_enum = kind.kind == "e"
    if expression is None or expression.startswith("NULL::") or not (is_enum or kind.name in _STAND_INS):
        return None
    try:
        if not is_enum and (_FUNCTION.match(expression) or expression.lower() in _CURRENT):
            return column.convert(_STAND_INS[kind.name])
        found = _LITERAL.match(expression)
        if found is None and is_enum:
            return None
        text = expression if found is None else found[1].replace("''", "'")
        value = column.convert(text[0] if kind.name == "bool" else text)
    except (DataError, ValueError, ArithmeticError):
        return None  # an expression such as 1 + 1
    return None if isinstance(value, Struct) else value  # a struct cannot be a default (KAFKA-12694)
