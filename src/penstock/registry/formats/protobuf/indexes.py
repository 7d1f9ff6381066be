"""The indexes between a value's id and its message, which identify the message in the schema's file.

There is one index for each level of nesting. They are zigzag varints with their count before them; the first
message of a file, the usual case, is a single zero.

``files`` are those of `ProtobufSchema.file_set`, of which the last is the schema's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from penstock.registry.formats.errors import SchemaError

_INDEXES_MAX: Final = 32


def read_indexes(data: bytes, at: int = 0) -> tuple[tuple[int, ...], int]:
    """Return the indexes that begin at ``at``, and where they end. Raises ValueError."""
    count, at = _number_at(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count < _INDEXES_MAX:
        raise ValueError("expected the indexes of a message before it, found invalid ones")
    indexes = []
    for _ in range(count):
        index, at = _number_at(data, at)
        if index < 0:
            raise ValueError("expected the indexes of a message before it, found invalid ones")
        indexes.append(index)
    return tuple(indexes), at


def _number_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag varint of at most five bytes that begins at ``at``, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 28:
            raise ValueError("expected the indexes of a message before it, found none")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def indexes_bytes(indexes: Sequence[int]) -> bytes:
    """Encode indexes in the form that `read_indexes` reads."""
    if tuple(indexes) == (0,):
        return b"\0"
    return b"".join(_number_bytes(number) for number in (len(indexes), *indexes))


def _number_bytes(number: int) -> bytes:
    left = 2 * number  # the zigzag form of a number that is not negative
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def message_at(files: bytes, indexes: Sequence[int]) -> str | None:
    """Return the full name of a message of the last file, or None if it does not exist."""
    file = FileDescriptorSet.FromString(files).file[-1]
    name: str = file.package
    messages: Sequence[DescriptorProto] = file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            return None
        name = f"{name}.{messages[index].name}".lstrip(".")
        messages = messages[index].nested_type
    return name


def indexes_of(files: bytes, message: str | None) -> tuple[tuple[int, ...], str]:
    """Return the indexes and the full name of a message of the last file; None is the first.

    Raises SchemaError.
    """
    file = FileDescriptorSet.FromString(files).file[-1]
    known = dict(_numbered(file.message_type, file.package, ()))
    if not known:
        raise SchemaError("the Protobuf schema has no message")
    name = next(iter(known)) if message is None else message
    if name not in known:
        raise SchemaError(f"the Protobuf schema has no message {name!r}, expected one of {', '.join(known)}")
    return known[name], name


def _numbered(
    messages: Sequence[DescriptorProto], scope: str, above: tuple[int, ...]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    for number, each in enumerate(messages):
        if not each.options.map_entry:
            name = f"{scope}.{each.name}".lstrip(".")
            yield name, (*above, number)
            yield from _numbered(each.nested_type, name, (*above, number))
