"""The parser of types: `INT`, `DECIMAL(4, 2)`, `MAP<STRING, STRUCT<a INT>>`, `INT ARRAY` or a custom type."""

from __future__ import annotations

from penstock.sql.language import types
from penstock.sql.language.errors import SqlError
from penstock.sql.language.parsing.cursor import Cursor
from penstock.sql.language.parsing.lexer import Kind
from penstock.sql.language.types import Array, Map, Named, SqlType, Struct


def parse_type(cursor: Cursor) -> SqlType:
    with cursor.nested():
        type_ = _prefix(cursor)
        while cursor.accept("ARRAY"):
            type_ = Array(type_)
        return type_


def _prefix(cursor: Cursor) -> SqlType:
    start = cursor.token
    if cursor.sees("ARRAY", "<"):
        cursor.expect("ARRAY", "<")
        element = parse_type(cursor)
        cursor.expect(">")
        return Array(element)
    if cursor.sees("MAP", "<"):
        cursor.expect("MAP", "<")
        key = parse_type(cursor)
        cursor.expect(",")
        value = parse_type(cursor)
        cursor.expect(">")
        return Map(key, value)
    if cursor.sees("STRUCT", "<"):
        return _struct(cursor)
    if start.kind is Kind.WORD and start.text in ("DECIMAL", "DEC", "NUMERIC"):
        cursor.advance()
        cursor.expect("(")
        precision = cursor.integer("a precision")
        cursor.expect(",")
        scale = cursor.integer("a scale")
        cursor.expect(")")
        try:
            return types.decimal(precision, scale)
        except SqlError as error:
            raise error.at(cursor.text, start.start) from None
    name = cursor.name("a type")
    if start.kind is Kind.NAME or name not in types.PRIMITIVES:
        return Named(name)
    if name in ("VARCHAR", "STRING") and cursor.accept("("):
        if not cursor.accept("STRING"):
            cursor.integer("a length")  # ksqlDB parses the length, but does not enforce it
        cursor.expect(")")
    return types.PRIMITIVES[name]


def _struct(cursor: Cursor) -> Struct:
    cursor.expect("STRUCT", "<")
    fields: dict[str, SqlType] = {}
    while not cursor.accept(">"):
        if fields:
            cursor.expect(",")
        token = cursor.token
        name = cursor.name("a field's name")
        if name in fields:
            raise cursor.error(f"found the field {name} twice, expected different names", token)
        fields[name] = parse_type(cursor)
    return Struct(tuple(fields.items()))
