"""Avro values in Avro's JSON encoding, which Confluent's console tools print and read.

A union's value is null or an object with the name of its branch, as in `{"string": "x"}`. Bytes are strings
of the characters U+0000 to U+00FF. NaN and infinities are strings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final

from penstock.cli.records.simple import float_text, json_kind, single
from penstock.registry.formats.avro.parser import describe
from penstock.registry.formats.avro.types import Type
from penstock.sql.formats.avro import binary
from penstock.sql.formats.avro.reading import blocks, pair, plain
from penstock.sql.formats.errors import FormatError

_BITS: Final = {"int": 31, "long": 63}
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read(of: Type, data: bytes, at: int) -> tuple[Any, int]:
    """Read a value at an offset; return its JSON and the offset behind it. Raises FormatError."""
    match of.kind:
        case "record":
            made = {}
            for field in of.fields:
                with _inside(field.name):
                    made[field.name], at = read(field.type, data, at)
            return made, at
        case "union":
            return _read_branch(of, data, at)
        case "array":
            return blocks(lambda data, at: read(of.items[0], data, at), list)(data, at)
        case "map":
            entry = pair(binary.read_text, lambda data, at: read(of.items[0], data, at))
            return blocks(entry, dict)(data, at)
    value, at = plain(of)(data, at)
    if isinstance(value, bytes):
        return value.decode("latin-1"), at
    if isinstance(value, float):
        text = float_text(value, is_single=of.kind == "float")
        return (float(text) if math.isfinite(value) else text), at
    return value, at


def _read_branch(of: Type, data: bytes, at: int) -> tuple[Any, int]:
    index, at = binary.read_long(data, at)
    if not 0 <= index < len(of.items):
        raise FormatError(f"found branch {index} of a union, expected one of {len(of.items)}")
    branch = of.items[index]
    value, at = read(branch, data, at)
    return (None if branch.kind == "null" else {branch.full_name: value}), at


def write(of: Type, value: Any) -> bytes:
    """Encode a JSON value, whose numbers with a fraction are decimals. Raises FormatError."""
    match of.kind:
        case "null" if value is None:
            return b""
        case "boolean" if isinstance(value, bool):
            return b"\1" if value else b"\0"
        case "int" | "long" if isinstance(value, int) and not isinstance(value, bool):
            if -(1 << _BITS[of.kind]) <= value < 1 << _BITS[of.kind]:
                return binary.long_bytes(value)
        case "float" | "double":
            return _write_real(of, value)
        case "string" if isinstance(value, str):
            return binary.sized(_utf8(value))
        case "bytes" if isinstance(value, str):
            return binary.sized(_latin1(value))
        case "fixed" if isinstance(value, str) and len(value) == of.size:
            return _latin1(value)
        case "enum" if value in of.symbols:
            return binary.long_bytes(of.symbols.index(value))
        case "array" if isinstance(value, list):
            return _block([_write_at(f"[{index}]", of.items[0], each) for index, each in enumerate(value)])
        case "map" if isinstance(value, dict):
            return _block(
                [binary.sized(_utf8(key)) + _write_at(key, of.items[0], each) for key, each in value.items()]
            )
        case "record" if isinstance(value, dict):
            return _write_record(of, value)
        case "union":
            return _write_branch(of, value)
    raise _mismatch(of, value)


def _write_record(of: Type, value: dict[str, Any]) -> bytes:
    names = [field.name for field in of.fields]
    for name in names:
        if name not in value:
            raise FormatError(f"found no field {name!r} of {describe(of)}, expected one")
    if unknown := value.keys() - set(names):
        raise FormatError(
            f"found the field {min(unknown)!r}, expected only those of {describe(of)}: {', '.join(names)}"
        )
    return b"".join(_write_at(field.name, field.type, value[field.name]) for field in of.fields)


def _write_branch(of: Type, value: Any) -> bytes:
    name = "null" if value is None else next(iter(value)) if isinstance(value, dict) and value else ""
    for index, branch in enumerate(of.items):
        if branch.full_name == name and (value is None or len(value) == 1):
            return binary.long_bytes(index) + (b"" if value is None else _write_at(name, branch, value[name]))
    names = ("null" if each.kind == "null" else f'an object {{"{each.full_name}": …}}' for each in of.items)
    raise FormatError(f"found {json_kind(value)}, expected {' or '.join(names)}")


def _write_real(of: Type, value: Any) -> bytes:
    if isinstance(value, str) and value in _NOT_FINITE:
        number = _NOT_FINITE[value]
    elif isinstance(value, int | Decimal) and not isinstance(value, bool):
        number = float(Decimal(value))  # a whole number may be too large for float() itself
    else:
        raise _mismatch(of, value)
    return binary.double_bytes(number) if of.kind == "double" else binary.float_bytes(single(number))


def _write_at(step: str, of: Type, value: Any) -> bytes:
    with _inside(step):
        return write(of, value)


def _block(entries: list[bytes]) -> bytes:
    if not entries:
        return b"\0"
    return binary.long_bytes(len(entries)) + b"".join(entries) + b"\0"


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise FormatError(f"found {text!r}, expected a string without halves of surrogate pairs") from None


def _latin1(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as error:
        found = text[error.start]
        raise FormatError(f"found {found!r}, expected bytes as the characters U+0000 to U+00FF") from None


def _mismatch(of: Type, value: Any) -> FormatError:
    detail = ""
    if of.kind == "enum":
        detail = f" with the symbols {', '.join(of.symbols)}"
    elif of.kind == "fixed":
        detail = f" of {of.size} bytes"
    return FormatError(f"found {json_kind(value)}, expected {describe(of)}{detail}")


@contextmanager
def _inside(step: str) -> Iterator[None]:
    try:
        yield
    except FormatError as error:
        raise error.within(step) from None
