"""Lines as text, and lines as JSON."""

from __future__ import annotations

import re
from typing import Final

from penstock.connect.connectors.formats.delimited import Decode, Decoded
from penstock.connect.data.json_text import MISSING, only_value
from penstock.connect.data.schema import STRING
from penstock.connect.errors import DataError

_LONG_NUMBER: Final = re.compile(rb"\d{19}")
_INT64: Final = range(-(1 << 63), 1 << 63)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def line_decoder(charset: str) -> Decode:
    """Make the function that decodes lines of text."""

    def decode(line: bytes) -> Decoded:
        return Decoded(text_in(line, charset), STRING)

    return decode


def json_line(line: bytes) -> Decoded | None:
    """Read a line that is a value in JSON; a blank line is none. Raises DataError."""
    line = line.removeprefix(_BYTE_ORDER_MARK)
    return None if not line or line.isspace() else Decoded(json_value(line), None)


def json_value(data: bytes) -> object:
    """Read one value in JSON. Raises DataError, also for integers of more than 64 bits."""
    value = only_value(data)
    if value is MISSING:
        raise DataError(f"Invalid JSON: {data[:200].decode(errors='replace')!r}")
    if _LONG_NUMBER.search(data) is not None:
        _check_integers(value)
    return value


def text_in(data: bytes, charset: str) -> str:
    """Decode text. Raises DataError."""
    try:
        return data.decode(charset)
    except UnicodeDecodeError as error:
        raise DataError(f"Invalid text in {charset}: {error}") from error


def _check_integers(value: object) -> None:
    match value:
        case int() if value not in _INT64:
            raise DataError(f"Invalid integer {value}: it has more than 64 bits")
        case list():
            for each in value:
                _check_integers(each)
        case dict():
            for each in value.values():
                _check_integers(each)
