"""Encodes and decodes snapshots of producer state: `<offset>.snapshot` covers all records below that offset.

The format is Kafka's version 1, big endian:

    version int16 | crc uint32 (CRC-32C of what follows) | count int32 | entries

An entry has 46 bytes:

    producerId int64 | epoch int16 | lastSequence int32 | lastOffset int64 | offsetDelta int32 |
    timestamp int64 | coordinatorEpoch int32 | currentTxnFirstOffset int64
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

_VERSION: Final = 1
_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


class SnapshotCorrupt(ValueError):
    """A file fails its checksum or is not a snapshot; it is dropped and the state replayed."""


class SnapshotEntry(NamedTuple):
    """The last batch of one producer; `last_offset` and `txn_first_offset` are -1 if there is none."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def encode(entries: Iterable[SnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[SnapshotEntry]:
    """Decode a snapshot file. Raises SnapshotCorrupt."""
    if len(data) < _HEADER.size + _COUNT.size:
        raise SnapshotCorrupt(f"{len(data)} bytes are too few")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise SnapshotCorrupt(f"unknown version {version}")
    body = data[_HEADER.size :]
    if crc32c(body) != crc:
        raise SnapshotCorrupt(f"checksum is {crc32c(body):#010x}, expected {crc:#010x}")
    (count,) = _COUNT.unpack_from(body)
    if count * _ENTRY.size != len(body) - _COUNT.size:
        raise SnapshotCorrupt(f"{len(body) - _COUNT.size} bytes do not match {count} entries")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]
