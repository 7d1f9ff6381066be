"""Rows as the API's JSON, and the texts of their columns' types.

Times are texts and bytes are base64, as ksqlDB's clients expect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from penstock.sql.engine.reading.results import ResultColumn
from penstock.sql.formats.json.writing import quote, value_writer
from penstock.sql.language import types
from penstock.sql.language.times import format_date, format_time, format_timestamp
from penstock.sql.language.types import Array, Map, SqlType, Struct

Writer = Callable[[Any], str]


def row_writer(columns: Sequence[ResultColumn]) -> Callable[[Sequence[Any]], str]:
    """Return a function that writes a row of these columns as an array."""
    writers = [_writer(column.type) for column in columns]

    def write(row: Sequence[Any]) -> str:
        shown = ["null" if value is None else each(value) for each, value in zip(writers, row, strict=True)]
        return f"[{','.join(shown)}]"

    return write


def _writer(type_: SqlType) -> Writer:
    """Return a function that writes values of a type, except null."""
    match type_:
        case types.DATE:
            return lambda value: f'"{format_date(value)}"'
        case types.TIME:
            return lambda value: f'"{format_time(value)}"'
        case types.TIMESTAMP:
            return lambda value: f'"{format_timestamp(value)}"'
        case types.Decimal():
            return lambda value: f"{value:f}"
        case Array(element):
            return _array(_writer(element))
        case Map(_, value):
            return _map(_writer(value))
        case Struct(fields):
            return _struct([(name, _writer(field)) for name, field in fields])
    return value_writer(type_)


def _array(element: Writer) -> Writer:
    return lambda value: f"[{','.join(['null' if each is None else element(each) for each in value])}]"


def _map(inner: Writer) -> Writer:
    def write(value: dict[Any, Any]) -> str:
        entries = (f"{quote(str(k))}:{'null' if v is None else inner(v)}" for k, v in value.items())
        return "{" + ",".join(entries) + "}"

    return write


def _struct(fields: Sequence[tuple[str, Writer]]) -> Writer:
    named = [(name, quote(name), write) for name, write in fields]

    def written(value: dict[str, Any]) -> str:
        entries = (
            f"{shown}:{'null' if value.get(name) is None else write(value[name])}"
            for name, shown, write in named
        )
        return "{" + ",".join(entries) + "}"

    return written


def metadata(query_id: str, columns: Sequence[ResultColumn]) -> str:
    """The first element of an answer of `/query-stream`."""
    return json.dumps(
        {
            "queryId": query_id,
            "columnNames": [column.name for column in columns],
            "columnTypes": [type_text(column.type, lambda name: name) for column in columns],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def schema_text(columns: Sequence[ResultColumn], *, with_keys: bool) -> str:
    """The columns in a header of `/query`. ``with_keys``, set for pull queries, marks the key columns."""
    return ", ".join(
        f"{_in_back_quotes(column.name)} {type_text(column.type, _in_back_quotes)}"
        f"{' KEY' if with_keys and column.is_key else ''}"
        for column in columns
    )


def type_text(type_: SqlType, field_name: Callable[[str], str]) -> str:
    """The text of a type; ``field_name`` writes the names of a STRUCT's fields."""
    match type_:
        case Array(element):
            return f"ARRAY<{type_text(element, field_name)}>"
        case Map(key, value):
            return f"MAP<{type_text(key, field_name)}, {type_text(value, field_name)}>"
        case Struct(fields):
            inner = (f"{field_name(name)} {type_text(field, field_name)}" for name, field in fields)
            return f"STRUCT<{', '.join(inner)}>"
    return str(type_)


def _in_back_quotes(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
