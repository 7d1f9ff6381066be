"""A consumed record with its key and value decoded."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import Message

from penstock.cli.records.codec import Decode, Decoded, InvalidValue


class UndecodableRecord(Exception):
    """A key or value cannot be decoded; the message names the record, and what was found and expected."""


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


def decoded_record(message: Message, decode_key: Decode, decode_value: Decode) -> Record:
    """Decode a message. Raises UndecodableRecord."""
    key, value = _bytes(message.key()), _bytes(message.value())
    topic, partition, offset = message.topic() or "", message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
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
        timestamp_ms=message.timestamp()[1],
        key=decoded_key,
        value=decoded_value,
        key_bytes=-1 if key is None else len(key),
        value_bytes=-1 if value is None else len(value),
        headers=_headers(message),
    )


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(name, _bytes(value)) for name, value in pairs]
