"""The primitives of Avro's binary encoding."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, pack
from struct import error as StructError
from typing import Any, Final

from penstock.sql.formats.errors import FormatError

Read = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value at an offset, and returns it with the offset of the next one."""

_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")
_VARINT_BITS_MAX: Final = 63


def ended() -> FormatError:
    return FormatError("found the end of the bytes, expected more of them")


def read_long(data: bytes, at: int) -> tuple[int, int]:
    try:
        byte = data[at]
        at += 1
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at
        value, shift = byte & 0x7F, 7
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > _VARINT_BITS_MAX:
                raise FormatError("found a number of more than ten bytes, expected at most ten")
    except IndexError:
        raise ended() from None
    # Java drops the bits beyond the 64th.
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return (value >> 1) ^ -(value & 1), at


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_long(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise FormatError(f"found a length of {size} with {len(data) - at} bytes left, expected no more")
    return data[at:end], end


def read_text(data: bytes, at: int) -> tuple[str, int]:
    found, at = read_bytes(data, at)
    return found.decode(errors="replace"), at


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    if at >= len(data):
        raise ended()
    return data[at] != 0, at + 1


def read_float(data: bytes, at: int) -> tuple[float, int]:
    try:
        return _FLOAT.unpack_from(data, at)[0], at + 4
    except StructError:
        raise ended() from None


def read_double(data: bytes, at: int) -> tuple[float, int]:
    try:
        return _DOUBLE.unpack_from(data, at)[0], at + 8
    except StructError:
        raise ended() from None


def read_nothing(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def fixed(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        if at + size > len(data):
            raise ended()
        return data[at : at + size], at + size

    return read


def long_bytes(value: int) -> bytes:
    folded = (value << 1) ^ (value >> 63)
    if 0 <= folded < 0x80:
        return bytes((folded,))
    out = bytearray()
    while folded > 0x7F:
        out.append((folded & 0x7F) | 0x80)
        folded >>= 7
    out.append(folded)
    return bytes(out)


def sized(value: bytes) -> bytes:
    return long_bytes(len(value)) + value


def double_bytes(value: float) -> bytes:
    return _DOUBLE.pack(value)


def float_bytes(value: float) -> bytes:
    return pack("<f", value)
