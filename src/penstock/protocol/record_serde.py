"""Messages as records: the framing of the metadata log and of the coordinators' topics.

Metadata log
    The value is frame version 1, record id and version, each as an unsigned varint, and then the message.
Coordinators' topics (``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``)
    The key is the record's id as int16 and then the key message. The value is its version as int16 and then
    the value message. A missing value is a tombstone.
"""

from __future__ import annotations

import struct
from enum import Enum
from functools import cache
from typing import TypeVar

from penstock.protocol.codec import MalformedMessage, Message
from penstock.protocol.decoder import uvarint
from penstock.protocol.definition import library
from penstock.protocol.encoder import uvarint_bytes
from penstock.protocol.malformed import Malformation
from penstock.protocol.messages import message_class

M = TypeVar("M", bound=Message)

Buffer = bytes | memoryview

METADATA_FRAME_VERSION = 1
_INT16 = struct.Struct(">h")


class UnknownRecordType(ValueError):
    """The supported release does not have a record of this type."""


class Coordinator(Enum):
    """The families of coordinator records, each with ids from 0 on; the values name definition files."""

    GROUP = "group_coordinator"
    TRANSACTION = "transaction_coordinator"
    SHARE = "share_coordinator"


def encode_metadata_record(message: Message, version: int) -> bytes:
    """Encode the value of a record of the metadata log."""
    head = bytes((METADATA_FRAME_VERSION,)) + uvarint_bytes(message.ID) + uvarint_bytes(version)
    return head + message.encode(version)


def decode_metadata_record(buf: Buffer) -> tuple[Message, int]:
    """Decode (message, version) from the value of a record of the metadata log.

    Raises UnknownRecordType, UnsupportedVersion or MalformedMessage.
    """
    (frame_version, record_id, version), start = _metadata_head(buf)
    if frame_version != METADATA_FRAME_VERSION:
        raise MalformedMessage("metadata record", version, "frame version", 0, f"is {frame_version}, not 1")
    cls = _class_of("metadata", "record", record_id)
    message, end = cls.decode(version, buf, start)
    if end != len(buf):
        raise MalformedMessage(cls.__name__, version, "", end, f"is followed by {len(buf) - end} bytes")
    return message, version


def _metadata_head(buf: Buffer) -> tuple[list[int], int]:
    numbers, position = [], 0
    try:
        for _ in range(3):
            number, position = buf[position], position + 1
            if number > 127:
                number, position = uvarint(buf, position, number)
            numbers.append(number)
    except (IndexError, Malformation) as error:
        raise MalformedMessage("metadata record", 0, "head", position, "is cut off or not varints") from error
    return numbers, position


def encode_versioned(message: Message, version: int) -> bytes:
    """Encode ``message`` after its version as int16, for coordinator values and the consumer protocol."""
    return _INT16.pack(version) + message.encode(version)


def decode_versioned(cls: type[M], buf: Buffer, newest_known: bool = False) -> tuple[M, int]:
    """Decode (message, version) as ``encode_versioned`` wrote them; bytes after the message are ignored.

    With ``newest_known`` a version above the highest is decoded as the highest. The consumer protocol
    requires this, because its later versions only append fields.
    """
    if len(buf) < 2:
        raise MalformedMessage(cls.__name__, 0, "version", 0, f"is cut off: {len(buf)} bytes remain")
    version = _INT16.unpack_from(buf)[0]
    if newest_known:
        version = min(version, cls.MAX_VERSION)
    message, _ = cls.decode(version, buf, 2)
    return message, version


def encode_coordinator_key(key: Message) -> bytes:
    """Encode the key of a coordinator's record; keys only have version 0, since a new form gets a new id."""
    return _INT16.pack(key.ID) + key.encode(0)


def decode_coordinator_key(coordinator: Coordinator, buf: Buffer) -> Message:
    """Decode a key, as the inverse of ``encode_coordinator_key``.

    Raises UnknownRecordType or MalformedMessage.
    """
    if len(buf) < 2:
        raise MalformedMessage(f"{coordinator.value} key", 0, "id", 0, f"is cut off: {len(buf)} bytes remain")
    key, _ = _class_of(coordinator.value, "key", _INT16.unpack_from(buf)[0]).decode(0, buf, 2)
    return key


def decode_coordinator_value(key: Message, buf: Buffer) -> tuple[Message, int]:
    """Decode (message, version) from the value that belongs to ``key``.

    Raises UnsupportedVersion or MalformedMessage.
    """
    return decode_versioned(message_class(type(key).__name__.removesuffix("Key") + "Value"), buf)


def _class_of(file: str, kind: str, record_id: int) -> type[Message]:
    name = _names(file, kind).get(record_id)
    if name is None:
        raise UnknownRecordType(f"no {kind} of {file} has the id {record_id}")
    return message_class(name)


@cache
def _names(file: str, kind: str) -> dict[int, str]:
    return {message.id: message.name for message in library.messages_in(file) if message.kind == kind}
