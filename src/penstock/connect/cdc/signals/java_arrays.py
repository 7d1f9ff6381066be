"""Arrays in Java's serialization, as hexadecimal text: Debezium's offsets hold keys in this form. Pure.

Keys have few kinds of values: Integer, Long, Short, Byte, Boolean, Float, Double, String, UUID and null.
Other classes, such as BigDecimal, are not read.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Any, Final

_HEADER: Final = bytes.fromhex("aced0005")
_NULL, _REFERENCE, _CLASS, _OBJECT, _STRING, _ARRAY, _LONG_STRING = 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x7C
_END, _SERIALIZABLE, _FIRST_HANDLE = 0x78, 2, 0x7E0000
_STRING_MAX: Final = 0xFFFF
_ARRAY_CLASS: Final = "[Ljava.lang.Object;"
_NUMBER: Final = "java.lang.Number"
_INTEGER, _LONG, _BOOLEAN = "java.lang.Integer", "java.lang.Long", "java.lang.Boolean"
_UIDS: Final = {
    _ARRAY_CLASS: 0x90CE589F1073296C,
    _NUMBER: 0x86AC951D0B94E08B,
    _INTEGER: 0x12E2A0A4F7818738,
    _LONG: 0x3B8BE490CC8F23DF,
    _BOOLEAN: 0xCD207280D59CFAEE,
}
"""``serialVersionUID`` of the classes that are written."""
_FORMATS: Final = {"B": ">b", "S": ">h", "I": ">i", "J": ">q", "Z": ">?", "F": ">f", "D": ">d"}
_UUID: Final = "java.util.UUID"
_INT32: Final = 2**31


def write_array(values: Sequence[Any] | None) -> str:
    """Serialize an array of int, bool, str and None; a whole number is an Integer if it fits, else a Long.

    Raises:
        TypeError: another type.
    """
    if values is None:
        return (_HEADER + bytes([_NULL])).hex()
    return _Writer().array(values).hex()


def read_array(text: str) -> tuple[Any, ...] | None:
    """Read a serialized array; a UUID becomes its text.

    Raises:
        ValueError: the text is no such array, or has a class that is not known.
    """
    data = bytes.fromhex(text)
    if not data.startswith(_HEADER):
        raise ValueError(f"{text[:20]}… is not an object serialized by Java")
    try:
        found = _Reader(data).value()
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"{text[:20]}… ends too early or is damaged: {error}") from error
    if found is not None and not isinstance(found, tuple):
        raise ValueError(f"found {found!r}; expected an array of objects")
    return found


class _Writer:
    """Writes one array; classes and texts that were written before become references, as in Java."""

    def __init__(self) -> None:
        self._handles: dict[Any, int] = {}
        self._next = _FIRST_HANDLE

    def array(self, values: Sequence[Any]) -> bytes:
        head = _HEADER + bytes([_ARRAY]) + self._class(_ARRAY_CLASS, b"\0\0", None)
        self._next += 1
        return head + struct.pack(">i", len(values)) + b"".join(map(self._value, values))

    def _value(self, value: Any) -> bytes:
        if value is None:
            return bytes([_NULL])
        if isinstance(value, bool):
            return self._boxed(_BOOLEAN, "Z", None, value)
        if isinstance(value, int):
            is_small = -_INT32 <= value < _INT32
            return self._boxed(_INTEGER if is_small else _LONG, "I" if is_small else "J", _NUMBER, value)
        if isinstance(value, str):
            self._next += 1
            content = _modified_utf8(value)
            if len(content) > _STRING_MAX:
                return bytes([_LONG_STRING]) + struct.pack(">q", len(content)) + content
            return bytes([_STRING]) + struct.pack(">H", len(content)) + content
        raise TypeError(f"found {value!r} in a key; expected a number, a text or None")

    def _boxed(self, name: str, code: str, parent: str | None, value: int) -> bytes:
        fields = struct.pack(">H", 1) + code.encode() + _name("value")
        described = self._class(name, fields, parent)
        self._next += 1
        return bytes([_OBJECT]) + described + struct.pack(_FORMATS[code], value)

    def _class(self, name: str, fields: bytes, parent: str | None) -> bytes:
        if name in self._handles:
            return bytes([_REFERENCE]) + struct.pack(">I", self._handles[name])
        self._handles[name] = self._next
        self._next += 1
        head = bytes([_CLASS]) + _name(name) + struct.pack(">QB", _UIDS[name], _SERIALIZABLE) + fields
        return head + bytes([_END]) + (self._class(parent, b"\0\0", None) if parent else bytes([_NULL]))


class _Reader:
    """Reads one object and what it refers to."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = len(_HEADER)
        self._known: list[Any] = []

    def value(self) -> Any:
        tag = self._take(">B")
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            return self._known[self._take(">I") - _FIRST_HANDLE]
        if tag in (_STRING, _LONG_STRING):
            size = self._take(">H" if tag == _STRING else ">q")
            return self._learn(_from_modified_utf8(self._bytes(size)))
        if tag == _ARRAY:
            self._described()
            place = len(self._known)
            self._learn(None)
            made = tuple(self.value() for _ in range(self._take(">i")))
            self._known[place] = made
            return made
        if tag == _OBJECT:
            return self._object()
        raise ValueError(f"found the tag {tag:#x}; expected a value")

    def _object(self) -> Any:
        described = self._described()
        place = len(self._known)
        self._learn(None)
        found: dict[str, Any] = {}
        names = []
        while described is not None:
            names.append(described[0])
            found |= {field: self._take(_FORMATS[code]) for code, field in described[1]}
            described = described[2]
        if names[0] == _UUID:
            bits = (found["mostSigBits"] % 2**64) << 64 | found["leastSigBits"] % 2**64
            made: Any = str(uuid.UUID(int=bits))
        elif list(found) == ["value"]:
            made = found["value"]
        else:
            raise ValueError(f"the class {names[0]} is not known here")
        self._known[place] = made
        return made

    def _described(self) -> Any:
        """A class: its name, its fields and the class that it extends."""
        tag = self._take(">B")
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            return self._known[self._take(">I") - _FIRST_HANDLE]
        if tag != _CLASS:
            raise ValueError(f"found the tag {tag:#x}; expected a class")
        name = self._bytes(self._take(">H")).decode()
        self._take(">Q")
        place = len(self._known)
        self._learn(None)
        flags, fields = self._take(">B"), []
        for _ in range(self._take(">H")):
            code, field = self._bytes(1).decode(), self._bytes(self._take(">H")).decode()
            if code not in _FORMATS:
                raise ValueError(f"the class {name} is not known here")
            fields.append((code, field))
        if flags != _SERIALIZABLE or self._take(">B") != _END:
            raise ValueError(f"the class {name} is not known here")
        self._known[place] = made = (name, fields, self._described())
        return made

    def _learn(self, value: Any) -> Any:
        self._known.append(value)
        return value

    def _take(self, form: str) -> Any:
        (found,) = struct.unpack_from(form, self._data, self._place)
        self._place += struct.calcsize(form)
        return found

    def _bytes(self, size: int) -> bytes:
        if size < 0 or self._place + size > len(self._data):
            raise ValueError("the array ends too early")
        self._place += size
        return self._data[self._place - size : self._place]


def _name(name: str) -> bytes:
    return struct.pack(">H", len(name)) + name.encode()


def _modified_utf8(text: str) -> bytes:
    """Java's form of UTF-8: surrogates one by one, and two bytes for the character zero."""
    units = text.encode("utf-16-be", "surrogatepass")
    each = (int.from_bytes(units[place : place + 2], "big") for place in range(0, len(units), 2))
    return b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in each)


def _from_modified_utf8(data: bytes) -> str:
    parts = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return parts.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
