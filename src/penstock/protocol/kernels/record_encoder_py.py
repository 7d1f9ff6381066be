"""Records → the body of a batch, and the hash that chooses a key's partition: the twin in Python."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocol.murmur2 import murmur2
from penstock.protocol.records import Record, encode_record


def encode_rows(rows: Sequence[Record], base_timestamp: int) -> bytearray:
    """The records of a batch, numbered from 0 in the order of the rows; their own offsets are ignored."""
    payload = bytearray()
    for delta, (_, timestamp, key, value, headers) in enumerate(rows):
        encode_record(payload, delta, timestamp - base_timestamp, key, value, headers)
    return payload


def key_hash(key: bytes) -> int:
    """The 32-bit hash of a key as in `murmur2`, unsigned."""
    return murmur2(key)
