"""Reads Avro's binary data as values: each pair of schemas becomes a function from bytes to a value."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from penstock.connect.converters.avro.from_avro import is_map_entry
from penstock.connect.converters.avro.settings import is_union
from penstock.connect.data import logical
from penstock.connect.data.schema import Schema
from penstock.connect.data.schema import Type as ConnectType
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError
from penstock.java.numbers import wrapped
from penstock.registry.formats.avro.types import Type

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value that begins at an offset, and returns it with the offset behind it."""

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_EMPTY_MAX: Final = 100_000
"""Limit on entries of a block that have no bytes, such as empty records, which could fill the memory."""
_SMALL: Final = {ConnectType.INT8: 8, ConnectType.INT16: 16}


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer of up to 64 bits. Raises IndexError at the end of the data."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise DataError("Invalid long encoding: more than ten bytes")


def reader(schema: Schema | None, of: Type) -> Read:
    """Make the function that reads values of an Avro schema whose translation is ``schema``.

    It raises DataError, or IndexError or struct.error at the end of the data.
    """
    if schema is None:
        return read_anything
    if of.kind == "union":
        return _union_reader(schema, of)
    match schema.name:
        case logical.DECIMAL_NAME:
            scale = logical.scale_parameter(schema)
            return _converted(_bytes_reader(of), lambda found: logical.decimal_of_bytes(found, scale))
        case logical.DATE_NAME:
            return _converted(read_long, logical.date_of)
        case logical.TIME_NAME:
            return _converted(read_long, logical.time_of)
        case logical.TIMESTAMP_NAME:
            return _converted(read_long, logical.timestamp_of)
    return _plain_reader(schema, of)


def _plain_reader(schema: Schema, of: Type) -> Read:
    match of.kind:
        case "int" | "long":
            bits = _SMALL.get(schema.type)
            return read_long if bits is None else _converted(read_long, lambda found: wrapped(found, bits))
        case "string":
            return _read_string
        case "boolean":
            return _read_boolean
        case "float":
            return _read_float
        case "double":
            return _read_double
        case "bytes" | "fixed":
            return _bytes_reader(of)
        case "enum":
            return _enum_reader(of)
        case "record":
            return _struct_reader(schema, of)
        case "array" if is_map_entry(of.items[0]):
            key, value = of.items[0].fields
            return _map_reader(reader(schema.key_schema, key.type), reader(schema.value_schema, value.type))
        case "array":
            return _array_reader(reader(schema.value_schema, of.items[0]))
    return _map_reader(_read_string, reader(schema.value_schema, of.items[0]))


def _converted(read: Read, convert: Callable[[Any], Any]) -> Read:
    def read_converted(data: bytes, at: int) -> tuple[Any, int]:
        found, at = read(data, at)
        return convert(found), at

    return read_converted


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    size = data[at]
    if size < 0x80 and not size & 1:  # most strings are short: this saves a call
        size >>= 1
        at += 1
    else:
        size, at = read_long(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise _misplaced(at, size, data)
    return data[at:end].decode(errors="replace"), end


def _misplaced(at: int, size: int, data: bytes) -> DataError:
    return DataError(f"Invalid length {size} at {at} of {len(data)} bytes")


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] == 1, at + 1


def _read_float(data: bytes, at: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(data, at)[0], at + 4


def _read_double(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def _bytes_reader(of: Type) -> Read:
    fixed = of.size if of.kind == "fixed" else None

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        size, at = read_long(data, at) if fixed is None else (fixed, at)
        end = at + size
        if size < 0 or end > len(data):
            raise _misplaced(at, size, data)
        return data[at:end], end

    return read


def _enum_reader(of: Type) -> Read:
    symbols = of.symbols

    def read(data: bytes, at: int) -> tuple[str, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(symbols):
            raise DataError(f"Invalid symbol {index} of the enum {of.full_name}, which has {len(symbols)}")
        return symbols[index], at

    return read


def _struct_reader(schema: Schema, of: Type) -> Read:
    pairs = zip(schema.fields, of.fields, strict=True)
    fields = [reader(each.schema, other.type) for each, other in pairs]

    def read(data: bytes, at: int) -> tuple[Struct, int]:
        values = []
        for read_field in fields:
            value, at = read_field(data, at)
            values.append(value)
        return Struct.of_values(schema, values), at

    return read


def _union_reader(schema: Schema, of: Type) -> Read:
    """Make the function that reads a member of a union: null, the only other member, or a struct's field."""
    if len(of.items) == 2 and not is_union(schema):
        at = next(at for at, each in enumerate(of.items) if each.kind != "null")
        return _optional_reader(reader(schema, of.items[at]), at)
    readers: list[Read | None] = []
    names = iter(schema.fields if is_union(schema) else ())
    for each in of.items:
        if each.kind == "null":
            readers.append(None)
        elif is_union(schema):
            found = next(names)
            readers.append(_converted(reader(found.schema, each), _member(schema, found.index)))
        else:
            readers.append(reader(schema, each))

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(readers):
            raise DataError(f"Invalid member {index} of a union, which has {len(readers)}")
        read_member = readers[index]
        return (None, at) if read_member is None else read_member(data, at)

    return read


def _optional_reader(read_value: Read, branch: int) -> Read:
    """Make the function that reads null or a value; ``branch`` is the place of the value in the union."""
    value_byte, null_byte = branch << 1, (1 - branch) << 1

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found = data[at]
        if found == value_byte:
            return read_value(data, at + 1)
        if found == null_byte:
            return None, at + 1
        raise DataError(f"Invalid member at {at} of a union, which has 2: found the byte {found}")

    return read


def _member(schema: Schema, index: int) -> Callable[[Any], Struct]:
    size = len(schema.fields)

    def make(value: Any) -> Struct:
        values = [None] * size
        values[index] = value
        return Struct.of_values(schema, values)

    return make


def _array_reader(read_element: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                value, at = read_element(data, at)
                found.append(value)
            count, at = _block(data, at)
        return found, at

    return read


def _map_reader(read_key: Read, read_value: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[dict[Any, Any], int]:
        found: dict[Any, Any] = {}
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                key, at = read_key(data, at)
                value, at = read_value(data, at)
                if isinstance(key, list | dict):
                    raise DataError(f"{key!r} cannot be the key of a map in Python")
                found[key] = value
            count, at = _block(data, at)
        return found, at

    return read


def _block(data: bytes, at: int) -> tuple[int, int]:
    """Read the number of entries in the next block; a negative one is followed by the size in bytes."""
    count, at = read_long(data, at)
    if count < 0:
        _, at = read_long(data, at)
    if abs(count) > max(len(data) - at, _EMPTY_MAX):
        raise DataError(f"Invalid number of entries {count} in {len(data)} bytes")
    return abs(count), at


def read_anything(data: bytes, at: int) -> tuple[Any, int]:
    """Read a value without a schema: the first field of the record that has a value."""
    found = None
    for read in _ANYTHING:
        is_set, at = read_long(data, at)
        if is_set:
            value, at = read(data, at)
            found = value if found is None else found
    return found, at


_ANYTHING: Final[tuple[Read, ...]] = (
    _read_boolean,
    _bytes_reader(Type("bytes")),
    _read_double,
    _read_float,
    read_long,
    read_long,
    _read_string,
    _array_reader(read_anything),
    _map_reader(read_anything, read_anything),
)
