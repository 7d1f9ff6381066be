"""Parse schemas in Spark's DDL, such as ``id BIGINT, name STRING, lines ARRAY<STRUCT<sku: STRING>>``.

The Arrow types are those to which Spark itself converts its types, so that a schema means the same in both.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|(\w+)|([<>(),:]))")
_SIMPLE: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL: Final = ("decimal", "dec", "numeric")
_DEFAULT_DECIMAL: Final = (10, 0)
_MAX_PRECISION: Final = 38


def parse_ddl(text: str) -> pa.StructType:
    """Parse the fields of a schema. Raises ValueError, which says what was expected and where."""
    return _Parser(text).whole()


class _Parser:
    """A recursive descent parser over the tokens of one schema."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise ValueError(f"a schema such as 'id BIGINT, name STRING'; found {stripped[position:]!r}")
            self._tokens.append(match.group().strip())
            position = match.end()
        self._next = 0

    def whole(self) -> pa.StructType:
        if self._peek().lower() == "struct" and self._peek(1) == "<":
            found = self._type()
        else:
            found = pa.struct(self._fields())
        if self._next < len(self._tokens):
            raise self._expected("a comma or the end")
        return found

    def _fields(self) -> list[pa.Field]:
        fields: list[pa.Field] = []
        while True:
            name = self._name()
            if self._peek() == ":":
                self._next += 1
            fields.append(pa.field(name, self._type()))
            if name in (earlier.name for earlier in fields[:-1]):
                raise ValueError(f"each field once; found {name!r} twice in {self._text!r}")
            if self._peek() != ",":
                return fields
            self._next += 1

    def _type(self) -> pa.DataType:
        word = self._peek().lower()
        if word in _SIMPLE:
            self._next += 1
            return _SIMPLE[word]
        if word in _DECIMAL:
            self._next += 1
            return self._decimal()
        if word not in ("array", "map", "struct"):
            raise self._expected("a type")
        self._next += 1
        self._take("<")
        made: pa.DataType
        if word == "array":
            made = pa.list_(pa.field("element", self._type()))
        elif word == "map":
            key = self._type()
            self._take(",")
            made = pa.map_(key, self._type())
        else:
            made = pa.struct(self._fields())
        self._take(">")
        return made

    def _decimal(self) -> pa.DataType:
        precision, scale = _DEFAULT_DECIMAL
        if self._peek() == "(":
            self._next += 1
            precision = self._number()
            if self._peek() == ",":
                self._next += 1
                scale = self._number()
            self._take(")")
        if not 0 <= scale <= precision <= _MAX_PRECISION or not precision:
            raise ValueError(
                f"DECIMAL(precision up to {_MAX_PRECISION}, scale); found ({precision}, {scale})"
            )
        return pa.decimal128(precision, scale)

    def _name(self) -> str:
        token = self._peek()
        if not token or token in "<>(),:":
            raise self._expected("a field name")
        self._next += 1
        return token[1:-1].replace("``", "`") if token.startswith("`") else token

    def _number(self) -> int:
        token = self._peek()
        if not token.isascii() or not token.isdigit():
            raise self._expected("a whole number")
        self._next += 1
        return int(token)

    def _take(self, token: str) -> None:
        if self._peek() != token:
            raise self._expected(f"'{token}'")
        self._next += 1

    def _peek(self, ahead: int = 0) -> str:
        at = self._next + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def _expected(self, what: str) -> ValueError:
        found = f"'{self._peek()}'" if self._peek() else "the end"
        return ValueError(f"{what}, not {found}, after {' '.join(self._tokens[: self._next])!r}")
