"""JSON as Connect's JsonConverter without schemas writes and reads it.

Compaction and offset lookups compare keys byte by byte, so the text must be the one that Jackson writes:
UTF-8 without spaces, keys in the order of the mapping, doubles as Java prints them, bytes in base64, and
characters beyond 16 bits as two escapes.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.connect.errors import DataError
from penstock.java.numbers import double_text

_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def to_json(value: object) -> bytes | None:
    """Write a value; None gives a null record. Raises DataError."""
    if value is None:
        return None
    try:
        return _text(value).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"text with a lone surrogate cannot be written as JSON: {error}") from error


def from_json(data: bytes | None) -> Any:
    """Read a value: integers wrap to 64 bits, as Java's do, and text behind the value is ignored.

    Raises DataError.
    """
    if data is None:
        return None
    try:
        text = data.decode().lstrip(" \t\r\n")
        return _DECODER.raw_decode(text)[0] if text else None
    except (ValueError, RecursionError) as error:
        raise DataError(f"Converting byte[] to Kafka Connect data failed: {error}") from error


def _text(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case int():
            return str(value)
        case float():
            return _float(value)
        case bytes() | bytearray() | memoryview():
            return _quoted(base64.b64encode(value).decode())
        case Mapping():
            return _mapping(value)
        case list() | tuple():
            return f"[{','.join(map(_text, value))}]"
        case _:
            raise DataError(f"{type(value).__name__} does not have a corresponding schema type")


def _mapping(value: Mapping[Any, object]) -> str:
    """A mapping whose keys are not all strings becomes an array of pairs."""
    if all(isinstance(key, str) for key in value):
        return f"{{{','.join(f'{_quoted(key)}:{_text(each)}' for key, each in value.items())}}}"
    return f"[{','.join(f'[{_text(key)},{_text(each)}]' for key, each in value.items())}]"


def _float(value: float) -> str:
    return double_text(value) if math.isfinite(value) else f'"{double_text(value)}"'


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex().upper()
    return _ESCAPES.get(found[0]) or "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _int64(digits: str) -> int:
    return (int(digits) + (1 << 63)) % (1 << 64) - (1 << 63)


def _double(digits: str) -> float:
    """Parse a double as Java does by way of BigDecimal, which has no negative zero."""
    return float(digits) + 0.0


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_int=_int64, parse_float=_double, parse_constant=_refuse)
