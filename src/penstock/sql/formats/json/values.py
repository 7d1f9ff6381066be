"""Conversion of JSON values to the types of columns, with ksqlDB's rules.

A number may be in a string, and loses its fraction for an integer. Any value converts to STRING, but only
true and false convert to BOOLEAN. A field is matched by its name, or else by its name in upper case. A
missing field is null.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NoReturn

from penstock.sql.formats import numbers
from penstock.sql.formats.errors import FormatError, mismatch, shown
from penstock.sql.formats.json.writing import text_of_tree
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct

Coerce = Callable[[Any], Any]
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BASE64_SPACES: Final = str.maketrans("", "", " \t\n\r")


def _no_number(name: str) -> NoReturn:
    raise FormatError(f"found {name}, expected JSON, which has no such number")


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_number)


def parse(data: bytes) -> Any:
    """Parse a JSON text with exact decimals. Text after the value is ignored, as in ksqlDB."""
    try:
        text = bytes(data).removeprefix(_BYTE_ORDER_MARK).decode().lstrip(" \t\n\r")
        if not text:
            raise FormatError("found nothing, expected JSON")
        return _DECODER.raw_decode(text)[0]
    except FormatError:
        raise
    except RecursionError:
        raise FormatError("found JSON nested too deeply, expected at most a few hundred levels") from None
    except (ValueError, ArithmeticError) as error:  # invalid UTF-8 or JSON, or an exponent out of range
        raise FormatError(f"found bytes that are not JSON ({error}), expected JSON") from None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise mismatch(value, types.BOOLEAN)


def _whole(type_: SqlType, bits: int) -> Coerce:
    def coerce(value: Any) -> int:
        if _is_number(value):
            return numbers.truncated(value, bits)
        if isinstance(value, str):
            return numbers.whole(value, bits, type_)
        raise mismatch(value, type_)

    return coerce


def _real(value: Any) -> float:
    if _is_number(value):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    if isinstance(value, str):
        return numbers.real(value)
    raise mismatch(value, types.DOUBLE)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return text_of_tree(value)
    if isinstance(value, list):
        return f"[{', '.join('null' if each is None else _text(each) for each in value)}]"
    return str(value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return base64.b64decode(value.translate(_BASE64_SPACES), validate=True)
        except (binascii.Error, ValueError):
            raise FormatError(f"found {shown(value)}, expected BYTES as base64") from None
    raise mismatch(value, "BYTES as base64")


def _decimal(type_: types.Decimal) -> Coerce:
    fit = numbers.fitting(type_)

    def coerce(value: Any) -> Decimal:
        if _is_number(value):
            return fit(Decimal(value))
        if isinstance(value, str):
            return fit(numbers.decimal_of(value, type_))
        raise mismatch(value, type_)

    return coerce


def _array(type_: Array, has_entries: bool) -> Coerce:
    element = coercion(type_.element, has_entries)

    def coerce(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise mismatch(value, type_)
        made = []
        for index, each in enumerate(value):
            try:
                made.append(None if each is None else element(each))
            except FormatError as error:
                raise error.within(f"[{index}]") from None
        return made

    return coerce


def _map(type_: Map, has_entries: bool) -> Coerce:
    inner = coercion(type_.value, has_entries)

    def coerce(value: Any) -> dict[str, Any]:
        if has_entries and isinstance(value, list):
            value = _of_entries(value, type_)
        if not isinstance(value, dict):
            raise mismatch(value, type_)
        made = {}
        for key, each in value.items():
            try:
                made[key] = None if each is None else inner(each)
            except FormatError as error:
                raise error.within(f"[{shown(key)}]") from None
        return made

    return coerce


def _of_entries(value: list[Any], type_: Map) -> dict[Any, Any]:
    """Convert an array of objects with `key` and `value` to a map."""
    for entry in value:
        if not isinstance(entry, dict) or not entry.keys() <= {"key", "value"}:
            raise mismatch(entry, f"an entry of {type_}, an object of key and value")
        if not isinstance(entry.get("key"), (str, type(None))):
            raise mismatch(entry.get("key"), f"a key of {type_}")
    return {entry.get("key"): entry.get("value") for entry in value}


def object_coercion(
    fields: tuple[tuple[str, SqlType], ...], expected: object, has_entries: bool = False
) -> Coerce:
    """Build a function that converts a JSON object to its fields' values, in order."""
    wanted = [(name, coercion(type_, has_entries)) for name, type_ in fields]

    def coerce(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, dict):
            raise mismatch(value, expected)
        upper = {key.upper(): each for key, each in value.items()}
        made = []
        for name, inner in wanted:
            found = value[name] if name in value else upper.get(name)
            try:
                made.append(None if found is None else inner(found))
            except FormatError as error:
                raise error.within(name) from None
        return tuple(made)

    return coerce


def _struct(type_: Struct, has_entries: bool) -> Coerce:
    fields = object_coercion(type_.fields, type_, has_entries)
    names = [name for name, _ in type_.fields]
    return lambda value: dict(zip(names, fields(value), strict=True))


_PRIMITIVES: Final[dict[SqlType, Coerce]] = {
    types.BOOLEAN: _boolean,
    types.INTEGER: _whole(types.INTEGER, 32),
    types.BIGINT: _whole(types.BIGINT, 64),
    types.DOUBLE: _real,
    types.STRING: _text,
    types.BYTES: _bytes,
    types.TIME: lambda value: numbers.time_of_day(_whole(types.TIME, 64)(value)),
    types.DATE: _whole(types.DATE, 64),
    types.TIMESTAMP: _whole(types.TIMESTAMP, 64),
}


def coercion(type_: SqlType, has_entries: bool = False) -> Coerce:
    """Build a converter of non-null values. With ``has_entries`` a MAP may be an array of its entries."""
    match type_:
        case Array():
            return _array(type_, has_entries)
        case Map():
            return _map(type_, has_entries)
        case Struct():
            return _struct(type_, has_entries)
        case types.Decimal():
            return _decimal(type_)
    return _PRIMITIVES[type_]
