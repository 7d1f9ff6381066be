"""The format DELIMITED, with the default quoting rules of Apache Commons CSV 1.4, which ksqlDB uses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.sql.formats import numbers
from penstock.sql.formats.errors import FormatError, mismatch, shown
from penstock.sql.language import types
from penstock.sql.language.types import SqlType
from penstock.sql.language.utf8 import utf8

NAMED_DELIMITERS: Final = {"TAB": "\t", "SPACE": " "}
_LINE_ENDS: Final = "\r\n"


def delimiter(setting: str | None) -> str:
    """The character that a VALUE_DELIMITER or KEY_DELIMITER setting denotes."""
    if setting is None:
        return ","
    found = NAMED_DELIMITERS.get(setting, setting)
    if len(found) != 1 or (len(setting) == 1 and not setting.strip()):
        raise FormatError(
            f"found the delimiter {shown(setting)}, expected one character, or the name TAB or SPACE"
        )
    return found


def _truth(text: str) -> bool:
    return text.lower() == "true"


def _bytes(text: str) -> bytes:
    try:
        # Java's decoder accepts base64 without padding, but no characters outside the alphabet.
        return base64.b64decode(text + "=" * (-len(text) % 4) if "=" not in text else text, validate=True)
    except (binascii.Error, ValueError):
        raise FormatError(f"found {shown(text)}, expected BYTES as base64") from None


def _reading(type_: SqlType) -> Callable[[str], Any]:
    if isinstance(type_, types.Decimal):
        fit = numbers.fitting(type_)
        return lambda text: fit(numbers.decimal_of(text, type_))
    found = _READINGS.get(type_)
    if found is None:
        raise FormatError(f"found {type_} in the format DELIMITED, expected no ARRAY, MAP or STRUCT")
    return found


_READINGS: Final[dict[SqlType, Callable[[str], Any]]] = {
    types.BOOLEAN: _truth,
    types.INTEGER: lambda text: numbers.whole(text, 32, types.INTEGER),
    types.BIGINT: lambda text: numbers.whole(text, 64, types.BIGINT),
    types.DOUBLE: numbers.real,
    types.STRING: str,
    types.BYTES: _bytes,
    types.TIME: lambda text: numbers.time_of_day(numbers.whole(text, 64, types.TIME)),
    types.DATE: lambda text: numbers.whole(text, 32, types.DATE),
    types.TIMESTAMP: lambda text: numbers.whole(text, 64, types.TIMESTAMP),
}
_WRITINGS: Final[dict[SqlType, Callable[[Any], str]]] = {
    types.BOOLEAN: lambda value: "true" if value else "false",
    types.DOUBLE: numbers.real_text,
    types.BYTES: lambda value: base64.b64encode(value).decode(),
}


def _writing(type_: SqlType) -> Callable[[Any], str]:
    if type_ == types.STRING:
        return _own_text
    if isinstance(type_, types.Decimal):
        return "{:f}".format
    return _WRITINGS.get(type_, "{:d}".format)


def _own_text(value: Any) -> str:
    if not isinstance(value, str):
        raise mismatch(value, types.STRING)
    return value


def _quoted(text: str, mark: str, is_first: bool) -> str:
    """Quote a value where Commons CSV does.

    In addition to values that need quotes, these are values that start a line with anything but a letter or
    digit, start with ``#`` or a character before it, or end with a space.
    """
    if not text:
        return '""' if is_first else ""
    begin = text[0]
    is_plain = begin.isascii() and begin.isalnum()
    needs = (is_first and not is_plain) or begin <= "#" or text[-1] <= " "
    if needs or mark in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


def row_writer(fields: Sequence[tuple[str, SqlType]], mark: str) -> Callable[[Sequence[Any]], bytes]:
    columns = [(name, type_, _writing(type_)) for name, type_ in fields]

    def serialize(row: Sequence[Any]) -> bytes:
        if len(row) != len(columns):
            raise FormatError(f"found {len(row)} values, expected {len(columns)}")
        parts: list[str] = []
        for (name, type_, write), value in zip(columns, row, strict=True):
            try:
                parts.append("" if value is None else _quoted(write(value), mark, not parts))
            except (TypeError, ValueError):
                raise mismatch(value, type_).within(name) from None
        return utf8(mark.join(parts))

    return serialize


def row_reader(fields: Sequence[tuple[str, SqlType]], mark: str) -> Callable[[bytes], tuple[Any, ...]]:
    columns = []
    for name, type_ in fields:
        try:
            columns.append((name, _reading(type_)))
        except FormatError as error:
            raise error.within(name) from None

    def deserialize(data: bytes) -> tuple[Any, ...]:
        texts = first_record(data.decode(errors="replace"), mark)
        if len(texts) != len(columns):
            raise FormatError(f"found {len(texts)} values, expected {len(columns)}")
        row: list[Any] = []
        for (name, read), text in zip(columns, texts, strict=True):
            try:
                row.append(read(text) if text else None)
            except FormatError as error:
                raise error.within(name) from None
        return tuple(row)

    return deserialize


def first_record(text: str, mark: str) -> list[str]:
    """Split the first non-empty line into its values."""
    text = text.lstrip(_LINE_ENDS)
    if not text:
        raise FormatError("found no values, expected a line of them")
    if '"' not in text:
        end = min((at for at in (text.find("\n"), text.find("\r")) if at >= 0), default=len(text))
        return text[:end].split(mark)
    values: list[str] = []
    at = 0
    while True:
        value, at = _token(text, at, mark)
        values.append(value)
        if at >= len(text) or text[at] in _LINE_ENDS:
            return values
        at += 1


def _token(text: str, at: int, mark: str) -> tuple[str, int]:
    """Read one value; return it and its end, which is a delimiter, the end of the line or of the text."""
    if at < len(text) and text[at] == '"':
        return _token_in_quotes(text, at, mark)
    end = at
    while end < len(text) and text[end] != mark and text[end] not in _LINE_ENDS:
        end += 1
    return text[at:end], end


def _token_in_quotes(text: str, start: int, mark: str) -> tuple[str, int]:
    parts: list[str] = []
    at = start + 1
    while True:
        end = text.find('"', at)
        if end < 0:
            raise FormatError(f"found no end of the quotes at character {start}, expected a quote")
        parts.append(text[at:end])
        if text[end + 1 : end + 2] != '"':
            break
        parts.append('"')
        at = end + 2
    end += 1
    while end < len(text) and text[end] != mark and text[end] not in _LINE_ENDS:
        if not text[end].isspace():
            raise FormatError(f"found {text[end]!r} after a quote at character {end}, expected a delimiter")
        end += 1
    return "".join(parts), end
