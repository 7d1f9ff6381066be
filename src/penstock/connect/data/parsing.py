"""Infers schemas and values from text, with the grammar of Connect's Values.parseString.

The grammar has quirks, and topics hold headers that were written and read with them. They are kept: white
space before a token is skipped even in quotes, escapes stay in strings, a comma may follow the last element,
and arrays and maps whose parts have no common type have no schemas of their parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from penstock.connect.data.dates_in_text import parse_temporal
from penstock.connect.data.logical import decimal_schema
from penstock.connect.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    Type,
)
from penstock.connect.errors import DataError
from penstock.java.numbers import decimal_of, float32_of_exact, float64, scale_of

Parsed = tuple[Schema | None, Any]
Convert = Callable[[Schema, Schema | None, Any], Any]

_NULL: Final[Parsed] = (None, None)
_TOKEN: Final = re.compile(r'[:,{}\[\]"]|(?:[^:,{}\[\]"\\]|\\.|\\\Z)+', re.DOTALL)
_SPACE: Final = "".join(map(chr, range(0x21)))  # what Java's String.trim removes
_INTEGERS: Final = ((INT8, 7), (INT16, 15), (INT32, 31), (INT64, 63))
_WIDENING: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_INT64_MAX_TEXT: Final = 19
"""Digits of the largest INT64. A number with more of them needs no exact integer, which may be huge."""


class Tokens:
    """The tokens of a text: delimiters, and what lies between them. A backslash escapes a delimiter."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.previous: str | None = None
        self._at = 0
        self._waiting: str | None = None

    @property
    def mark(self) -> int:
        """The place of the next token, for `rewind`."""
        return self._at - len(self._waiting or "")

    def rewind(self, mark: int) -> None:
        self._at = mark
        self._waiting = self.previous = None

    @property
    def has_next(self) -> bool:
        return self._waiting is not None or self._at < len(self.text)

    def next(self) -> str:
        """Return the next token; an empty one at the end of the text."""
        self.previous = self._take() if self._waiting is None else self._waiting
        self._waiting = None
        return self.previous

    def next_few(self, count: int) -> str | None:
        """Return the text of some tokens; None, and take none, if there are not as many."""
        start = self.mark
        for _ in range(count):
            if not self.has_next:
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self._at]

    def consume(self, expected: str) -> bool:
        """Take the next token if it is the expected one but for white space around it."""
        if self._waiting is None:
            if not self.has_next:
                return False
            self._waiting = self._take()
        while not self._waiting.strip(_SPACE) and self._at < len(self.text):
            self._waiting = self._take()
        if self._waiting.strip(_SPACE) != expected:
            return False
        self._waiting = None
        return True

    def _take(self) -> str:
        found = _TOKEN.match(self.text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]


class ValueText:
    """Parses one text. ``convert`` is `values.convert_value`, which itself parses texts."""

    def __init__(self, text: str, convert: Convert) -> None:
        self._tokens = Tokens(text)
        self._convert = convert

    def parse(self, *, embedded: bool) -> Parsed:
        """Parse the next value. Raises DataError if an embedded value is none."""
        tokens = self._tokens
        if not tokens.has_next:
            return _NULL
        if embedded and tokens.consume('"'):
            return self._quoted()
        for literal, meaning in (("null", _NULL), ("true", (BOOLEAN, True)), ("false", (BOOLEAN, False))):
            if self._is_literal(literal, embedded):
                return meaning
        start = tokens.mark
        try:
            if tokens.consume("["):
                return self._array()
            if tokens.consume("{"):
                return self._map()
        except DataError:
            tokens.rewind(start)
        token = tokens.next()
        stripped = token.strip(_SPACE)
        return self._scalar(stripped, embedded) if stripped else (STRING, token)

    def _is_literal(self, literal: str, embedded: bool) -> bool:
        start = self._tokens.mark
        if self._tokens.consume(literal) and (embedded or not self._tokens.has_next):
            return True
        self._tokens.rewind(start)
        return False

    def _scalar(self, token: str, embedded: bool) -> Parsed:
        is_digit = token[0].isdecimal()
        if is_digit and (temporal := self._temporal(token)) is not None:
            return temporal
        if (is_digit or token[0] in "+-") and (number := _number(token)) is not None:
            return number
        if embedded:
            raise DataError("Failed to parse embedded value")
        return STRING, self._tokens.text

    def _temporal(self, token: str) -> Parsed | None:
        """Parse a date or a time; colons split a time into five tokens."""
        start = self._tokens.mark
        rest = self._tokens.next_few(4)
        if rest is not None and (found := parse_temporal(token + rest)) is not None:
            return found
        self._tokens.rewind(start)
        return parse_temporal(token)

    def _quoted(self) -> Parsed:
        pieces = []
        while self._tokens.has_next and not self._tokens.consume('"'):
            pieces.append(self._tokens.next())
        content = "".join(pieces)
        return parse_temporal(content) or (STRING, content)

    def _array(self) -> Parsed:
        tokens = self._tokens
        values: list[Any] = []
        common = CommonSchema()
        while tokens.has_next:
            if tokens.consume("]"):
                element = common.schema
                if element is not None:
                    values = [self._convert(element, None, each) for each in values]
                return Schema(Type.ARRAY, value_schema=element), values
            if tokens.consume(","):
                raise DataError(f"Unable to parse an empty array element: {tokens.text}")
            schema, value = self.parse(embedded=True)
            common.add(schema)
            values.append(value)
            mark = tokens.mark
            if tokens.consume("]"):
                tokens.rewind(mark)
            elif not tokens.consume(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {tokens.text}")

    def _map(self) -> Parsed:
        tokens = self._tokens
        entries: list[tuple[Any, Any]] = []
        keys, values = CommonSchema(), CommonSchema()
        while tokens.has_next:
            if tokens.consume("}"):
                return self._mapped(entries, keys.schema, values.schema)
            if tokens.consume(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {tokens.text}")
            key_schema, key = self.parse(embedded=True)
            if key is None:
                raise DataError(f"Map entry may not have a null key: {tokens.text}")
            if not tokens.consume(":"):
                raise DataError(f"Map entry is missing ':' at {tokens.mark} in {tokens.text}")
            value_schema, value = self.parse(embedded=True)
            entries.append((key, value))
            tokens.consume(",")
            keys.add(key_schema)
            values.add(value_schema)
        raise DataError(f"Map is missing terminating '}}': {tokens.text}")

    def _mapped(self, entries: list[tuple[Any, Any]], key: Schema | None, value: Schema | None) -> Parsed:
        """Build the map; without a common schema of the keys, that of the values does not count either."""
        if key is None:
            value = None
        else:
            entries = [(self._convert(key, None, each), entry) for each, entry in entries]
        if value is not None:
            entries = [(each, self._convert(value, None, entry)) for each, entry in entries]
        try:
            made = dict(entries)
        except TypeError:
            raise DataError("an array or a map cannot be the key of a map in Python") from None
        return Schema(Type.MAP, key_schema=key, value_schema=value), made


class CommonSchema:
    """Finds the schema that fits all elements: numbers are widened, other types must be the same."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._is_compatible = True

    def add(self, latest: Schema | None) -> None:
        if latest is None or not self._is_compatible:
            return
        self.schema = latest if self.schema is None else _merged(self.schema, latest)
        self._is_compatible = self.schema is not None


def _merged(previous: Schema, latest: Schema) -> Schema | None:
    if previous.type is latest.type:
        return latest  # whatever its name: parsed schemas are never optional
    if previous.type in _WIDENING and latest.type in _WIDENING:
        return max(previous, latest, key=lambda each: _WIDENING.index(each.type))
    return None


def _number(token: str) -> Parsed | None:
    """Parse an integer as the smallest type that it fits, and another number as the first that holds it."""
    decimal = decimal_of(token)
    if decimal is None:
        return None
    if not decimal or 0 <= decimal.adjusted() < _INT64_MAX_TEXT:
        integer = int(decimal)
        if integer == decimal:
            for schema, bits in _INTEGERS:
                if -(1 << bits) <= integer < 1 << bits:
                    return schema, integer
    scale = scale_of(decimal)
    if scale:
        for schema, number in ((FLOAT32, float32_of_exact(decimal)), (FLOAT64, float64(decimal))):
            if abs(number) != float("inf"):
                return schema, number
    return decimal_schema(scale), decimal
