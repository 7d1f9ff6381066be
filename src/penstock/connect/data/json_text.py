"""JSON as Connect writes and reads it by Jackson: texts of values without a schema, and the parts of others.

Compaction and offset lookups compare keys byte by byte, so the text must be the one that Jackson writes:
UTF-8 without spaces, keys in the order of the mapping, doubles as Java prints them, bytes in base64, and
characters beyond 16 bits as two escapes.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final

import msgspec

from penstock.connect.errors import DataError
from penstock.java.numbers import double_text, float64, wrapped

MISSING: Final = object()
"""The result of a text without a value, which to Jackson is not the same as null."""

_ODD: Final = re.compile("[\x00-\x1f\U00010000-\U0010ffff]")
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_SPACE: Final = " \t\r\n"
# ArithmeticError: exponents beyond those of Decimal.
_UNREADABLE: Final = (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError)
_LEADING_ZEROS: Final = re.compile(r'("(?:[^"\\]|\\.)*+"?)|(?<![\d.eE+])(?<![eE]-)0+(?=\d)', re.DOTALL)
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


def to_json(value: object) -> bytes | None:
    """Write a value; None gives a null record. Raises DataError."""
    return None if value is None else encoded(text_of(value))


def from_json(data: bytes | None) -> Any:
    """Read a value: integers wrap to 64 bits, as Java's do, and text behind the value is ignored.

    Raises DataError.
    """
    return None if data is None else without_schema(parsed(data))


def encoded(text: str) -> bytes:
    """Encode a text. Raises DataError if it has a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"text with a lone surrogate cannot be written as JSON: {error}") from error


def quoted(text: str) -> str:
    """Return the JSON of a string."""
    if (text.isascii() and text.isprintable()) or _ODD.search(text) is None:
        return encode_basestring(text)
    return f'"{_ESCAPED.sub(_escape, text)}"'


def number_text(value: float, finite: Callable[[float], str] = double_text) -> str:
    """Return the JSON of a float; ``finite`` prints those that are finite."""
    if math.isfinite(value):
        return finite(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def base64_text(value: bytes | bytearray | memoryview) -> str:
    """Return the JSON of bytes."""
    return f'"{base64.b64encode(value).decode()}"'


def text_of(value: Any) -> str:
    """Return the JSON of a value without a schema. Raises DataError."""
    kind = value.__class__
    if kind is str:
        return quoted(value)
    if kind is int:
        return str(value)
    if kind is dict:
        return _mapping(value)
    if kind is list:
        return f"[{','.join([text_of(each) for each in value])}]"
    if kind is float:
        return number_text(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    return _text_of_other(value)


def _text_of_other(value: Any) -> str:
    """Return the JSON of a value of a class that is rarer, or derived from one of the others."""
    match value:
        case bytes() | bytearray() | memoryview():
            return base64_text(value)
        case Mapping():
            return _mapping(value)
        case tuple() | list():
            return f"[{','.join(map(text_of, value))}]"
        case str():
            return quoted(value)
        case int():
            return str(int(value))
        case float():
            return number_text(value)
    raise DataError(f"{type(value).__name__} does not have a corresponding schema type")


def _mapping(value: Mapping[Any, object]) -> str:
    """A mapping whose keys are not all strings becomes an array of pairs."""
    if all(isinstance(key, str) for key in value):
        return f"{{{','.join([f'{quoted(key)}:{text_of(each)}' for key, each in value.items()])}}}"
    return f"[{','.join([f'[{text_of(key)},{text_of(each)}]' for key, each in value.items()])}]"


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex().upper()
    return _ESCAPES.get(found[0]) or "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def only_value(data: bytes, *, exact: bool = False) -> Any:
    """Parse JSON by its standard; MISSING if the bytes are not exactly one value."""
    try:
        return (_EXACT if exact else _FAST).decode(data)
    except _UNREADABLE:
        return MISSING


def parsed(data: bytes, *, exact: bool = False) -> Any:
    """Parse JSON as Jackson does: numbers may begin with zeros, and text behind the value is ignored.

    Integers have any size. Other numbers are floats, or Decimals if ``exact``. Raises DataError.
    """
    found = only_value(data, exact=exact)
    return _parsed_leniently(data, exact) if found is MISSING else found


def _parsed_leniently(data: bytes, exact: bool) -> Any:
    try:
        text = data.decode(json.detect_encoding(data)).removeprefix("\ufeff").lstrip(_SPACE)
        if not text:
            return MISSING
        text = _LEADING_ZEROS.sub(lambda found: found[1] or "", text)
        value, end = (_LENIENT_EXACT if exact else _LENIENT).raw_decode(text)
    except _UNREADABLE as error:
        raise DataError(f"Converting byte[] to Kafka Connect data failed: {error}") from error
    if not isinstance(value, str | list | dict) and text[end : end + 1].strip(_SPACE):
        raise DataError(
            f"Converting byte[] to Kafka Connect data failed: no space at {end} in {text[:100]!r}"
        )
    return value


def without_schema(value: Any) -> Any:
    """Return a parsed value with Java's numbers: Longs and Doubles, of which none is a negative zero."""
    kind = value.__class__
    if kind is str:
        return value
    if kind is int:
        return value if _INT64_MIN <= value <= _INT64_MAX else wrapped(value, 64)
    if kind is float:
        return value + 0.0  # Java parses it by way of BigDecimal, which has no negative zero
    if kind is dict:
        return {name: without_schema(each) for name, each in value.items()}
    if kind is list:
        return [without_schema(each) for each in value]
    if kind is Decimal:
        return float64(value) + 0.0
    return None if value is MISSING else value


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


_FAST: Final = msgspec.json.Decoder()
_EXACT: Final = msgspec.json.Decoder(float_hook=Decimal)
_LENIENT: Final = json.JSONDecoder(parse_constant=_refuse)
_LENIENT_EXACT: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)
