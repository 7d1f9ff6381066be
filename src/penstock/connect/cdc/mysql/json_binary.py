"""Reads MySQL's binary form of JSON as a text. Pure. (MariaDB's JSON is a text already.)

A value is a type, and content that objects and arrays reach by offsets: small ones by two bytes, large ones
by four. Texts have no spaces, as those of Debezium.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Final

from penstock.connect.cdc.mysql.row_images import decimal_reader
from penstock.connect.cdc.mysql.table_maps import DATE, DATETIME, DECIMAL, TIME, TIMESTAMP
from penstock.connect.errors import DataError

_LITERALS: Final = {0: "null", 1: "true", 2: "false"}
_NUMBERS: Final = {
    5: struct.Struct("<h"),
    6: struct.Struct("<H"),
    7: struct.Struct("<i"),
    8: struct.Struct("<I"),
    9: struct.Struct("<q"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<d"),
}
_OBJECTS: Final = {0: 2, 1: 4}
_ARRAYS: Final = {2: 2, 3: 4}
_STRING, _OPAQUE, _LITERAL = 12, 15, 4
_TEMPORAL: Final = {DATE, TIME, DATETIME, TIMESTAMP}


def json_text(data: bytes) -> str:
    """The text of a value. Raises DataError."""
    try:
        return _value(data[0], data[1:], 0)
    except (IndexError, KeyError, struct.error, RecursionError) as error:
        raise DataError(f"a JSON value of {len(data)} bytes ends early or has an unknown type") from error


def _value(kind: int, data: bytes, at: int) -> str:
    if kind in _OBJECTS or kind in _ARRAYS:
        return _container(kind, data[at:])
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _NUMBERS:
        return json.dumps(_NUMBERS[kind].unpack_from(data, at)[0])
    if kind == _STRING:
        size, at = _size(data, at)
        return _quoted(data[at : at + size])
    if kind == _OPAQUE:
        size, start = _size(data, at + 1)
        return _opaque(data[at], data[start : start + size])
    raise DataError(f"a JSON value has the unknown type {kind}")


def _container(kind: int, data: bytes) -> str:
    """The text of an object or array: counts, places and sizes of keys, types and places of elements."""
    width = _OBJECTS.get(kind) or _ARRAYS[kind]

    def number(at: int) -> int:
        return int.from_bytes(data[at : at + width], "little")

    count, at = number(0), 2 * width
    keys = []
    if kind in _OBJECTS:
        for _ in range(count):
            start, size = number(at), int.from_bytes(data[at + width : at + width + 2], "little")
            keys.append(_quoted(data[start : start + size]))
            at += width + 2
    values = []
    for _ in range(count):
        element = data[at]
        is_inline = element in (_LITERAL, 5, 6) or (width == 4 and element in (7, 8))
        values.append(_value(element, data, at + 1 if is_inline else number(at + 1)))
        at += width + 1
    if kind in _ARRAYS:
        return f"[{','.join(values)}]"
    return "{" + ",".join(f"{key}:{value}" for key, value in zip(keys, values, strict=True)) + "}"


def _size(data: bytes, at: int) -> tuple[int, int]:
    """A length in groups of seven bits, and the position after it."""
    size = shift = 0
    while True:
        byte = data[at]
        size |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return size, at


def _quoted(text: bytes) -> str:
    return json.dumps(text.decode("utf-8", "replace"), ensure_ascii=False)


def _opaque(kind: int, data: bytes) -> str:
    """A value of another SQL type: a number, a text of a time, or bytes in base64."""
    if kind == DECIMAL:
        return f"{decimal_reader(data[0], data[1])(data, 2)[0]:f}"
    if kind in _TEMPORAL:
        return json.dumps(_time(kind, int.from_bytes(data[:8], "little", signed=True)))
    return json.dumps(base64.b64encode(data).decode())


def _time(kind: int, packed: int) -> str:
    """The text of a date, time or both: bits of the date, 17 bits of the time, 24 bits of microseconds."""
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    whole, micros = packed >> 24, packed & 0xFFFFFF
    fraction = f".{micros:06}" if micros else ""
    hours = whole >> 12 & (0x3FF if kind == TIME else 0x1F)
    time = f"{hours:02}:{whole >> 6 & 63:02}:{whole & 63:02}{fraction}"
    if kind == TIME:
        return sign + time
    year, month = divmod(whole >> 22, 13)
    date = f"{year:04}-{month:02}-{whole >> 17 & 31:02}"
    return date if kind == DATE else f"{date} {time}"
