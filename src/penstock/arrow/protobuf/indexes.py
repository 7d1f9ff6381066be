"""The indexes between a value's id and its message, which identify the message in the schema's file.

There is one index for each level of nesting. They are zigzag varints with their count before them; the first
message of a file, the usual case, is a single zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from penstock.arrow.byte_columns import varint, zigzag
from penstock.client.settings import ConfigError

_INDEXES_MAX: Final = 32


def read_indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes at the start of the data and their size in bytes. Raises ValueError."""
    position = 0
    numbers: list[int] = []
    wanted = 1
    while len(numbers) < wanted:
        value = shift = 0
        while True:
            if position >= len(data) or shift > 28:
                raise ValueError("expected the indexes of a message before it, found none")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        number = (value >> 1) ^ -(value & 1)
        if len(numbers) == 0 and wanted == 1:
            if number == 0:
                return (0,), position
            wanted = number + 1
        if number < 0 or wanted > _INDEXES_MAX:
            raise ValueError("expected the indexes of a message before it, found invalid ones")
        numbers.append(number)
    return tuple(numbers[1:]), position


def indexes_bytes(indexes: Sequence[int]) -> bytes:
    """Encode indexes in the form that `read_indexes` reads."""
    if tuple(indexes) == (0,):
        return b"\0"
    return b"".join(varint(int(each)) for each in zigzag(np.array([len(indexes), *indexes])))


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

    Raises ConfigError.
    """
    file = FileDescriptorSet.FromString(files).file[-1]
    known: dict[str, tuple[int, ...]] = {}
    _number(file.message_type, file.package, (), known)
    if not known:
        raise ConfigError("the Protobuf schema has no message")
    name = next(iter(known)) if message is None else message
    if name not in known:
        raise ConfigError(f"the Protobuf schema has no message {name!r}, expected one of {', '.join(known)}")
    return known[name], name


def _number(
    messages: Sequence[DescriptorProto], scope: str, above: tuple[int, ...], known: dict[str, tuple[int, ...]]
) -> None:
    for index, each in enumerate(messages):
        if each.options.map_entry:
            continue
        name = f"{scope}.{each.name}".lstrip(".")
        known[name] = (*above, index)
        _number(each.nested_type, name, known[name], known)
