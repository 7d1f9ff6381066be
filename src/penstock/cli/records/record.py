"""A consumed record with its key and value decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.cli.records.codec import Decode, Decoded, InvalidValue


class UndecodableRecord(Exception):
    """A key or value cannot be decoded; the message names the record, and what was found and expected."""


class Consumed(NamedTuple):
    """One record as a client reads it, with key and value as bytes. Without a timestamp, that is -1."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """One record. Lengths are those of the encoded key and value, -1 for null."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Decoded | None
    value: Decoded | None
    key_bytes: int
    value_bytes: int
    headers: list[tuple[str, bytes | None]]


def decoded_record(consumed: Consumed, decode_key: Decode, decode_value: Decode) -> Record:
    """Decode key and value. Raises UndecodableRecord."""
    topic, partition, offset, timestamp_ms, key, value, headers = consumed
    side = "key"
    try:
        decoded_key = None if key is None else decode_key(key)
        side = "value"
        decoded_value = None if value is None else decode_value(value)
    except InvalidValue as error:
        raise UndecodableRecord(
            f"topic {topic!r}, partition {partition}, offset {offset}: cannot decode the {side}: {error}"
        ) from None
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        key=decoded_key,
        value=decoded_value,
        key_bytes=-1 if key is None else len(key),
        value_bytes=-1 if value is None else len(value),
        headers=headers,
    )
