"""Records: their frames, and their messages byte for byte as the target release writes them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.protocol import messages as m
from penstock.protocol.codec import MalformedMessage, Message, UnsupportedVersion
from penstock.protocol.definition import Field, Struct, library
from penstock.protocol.messages import message_class
from penstock.protocol.record_serde import (
    Coordinator,
    UnknownRecordType,
    decode_coordinator_key,
    decode_coordinator_value,
    decode_metadata_record,
    decode_versioned,
    encode_coordinator_key,
    encode_metadata_record,
    encode_versioned,
)
from penstock.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text

RECORDED = Path(__file__).parent / "kafka_4_3_1_records.txt"


# -- as Apache Kafka writes them ----------------------------------------------------------------------------


def recorded() -> list[tuple[str, int, bytes, Any]]:
    lines = [line for line in RECORDED.read_text("utf-8").splitlines() if not line.startswith("#")]
    words = [line.split(" ", 3) for line in lines]
    return [
        (name, int(version), b"" if data == "-" else bytes.fromhex(data), json.loads(values))
        for name, version, data, values in words
    ]


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def from_json(struct: Struct, cls: type, message: type[Message], values: dict[str, Any]) -> Any:
    """The struct for Kafka's JSON; names match without case, because Kafka's are not regular."""
    folded = {key.lower(): value for key, value in values.items()}
    arguments = {
        field.name: value_from_json(field, message, folded.pop(camel_case(field.name).lower()))
        for field in struct.fields
        if camel_case(field.name).lower() in folded
    }
    assert not folded
    return cls(**arguments)


def value_from_json(field: Field, message: type[Message], value: Any) -> Any:
    if isinstance(value, list):
        return [value_from_json(field, message, item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    if field.struct is not None:
        return from_json(field.struct, getattr(message, field.type_name), message, value)
    match field.type_name:
        case "uuid":
            return uuid_from_text(value)
        case "bytes":
            return base64.b64decode(value)
    return value


@pytest.mark.parametrize(
    ("name", "version", "data", "values"), [pytest.param(*r, id=f"{r[0]}-{r[1]}") for r in recorded()]
)
def test_as_apache_kafka_writes_it(name: str, version: int, data: bytes, values: Any) -> None:
    cls = message_class(name)
    expected = from_json(cls._definition.body, cls, cls, values)
    assert expected.encode(version) == data
    assert cls.decode(version, data) == (expected, len(data))


def test_every_kind_of_record_is_recorded() -> None:
    names = {name for name, *_ in recorded()}
    kinds = {"record", "key", "value"}
    assert {message.name for message in library.all_messages() if message.kind in kinds} <= names


# -- frames -------------------------------------------------------------------------------------------------


def test_metadata_record() -> None:
    record = m.TopicRecord(name="x", topic_id=b"0123456789abcdef")
    data = encode_metadata_record(record, 0)
    assert data == b"\x01\x02\x00" + b"\x02x" + b"0123456789abcdef" + b"\x00"
    assert decode_metadata_record(data) == (record, 0)
    assert decode_metadata_record(memoryview(data)) == (record, 0)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", MalformedMessage),
        (b"\x01\x02", MalformedMessage),
        (b"\xff\xff\xff\xff\xff\xff", MalformedMessage),
        (b"\x00\x02\x00", MalformedMessage),
        (b"\x01\x02\x00\x02x", MalformedMessage),
        (b"\x01\x14\x00\x00extra", MalformedMessage),
        (b"\x01\x7d\x00\x00", UnknownRecordType),
        (b"\x01\x02\x09\x00", UnsupportedVersion),
    ],
)
def test_metadata_records_that_cannot_be_read(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_metadata_record(data)


def test_coordinator_key_and_value() -> None:
    key = m.OffsetCommitKey(group="g", topic="t", partition=3)
    data = encode_coordinator_key(key)
    assert data == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x03"
    assert decode_coordinator_key(Coordinator.GROUP, data) == key
    value = m.OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9)
    assert decode_coordinator_value(key, encode_versioned(value, 3)) == (value, 3)


def test_coordinators_have_ids_of_their_own() -> None:
    assert type(decode_coordinator_key(Coordinator.TRANSACTION, b"\x00\x00\x00\x01t")) is m.TransactionLogKey
    assert decode_coordinator_key(Coordinator.GROUP, b"\x00\x02\x00\x01g") == m.GroupMetadataKey(group="g")


def test_coordinator_records_that_cannot_be_read() -> None:
    with pytest.raises(UnknownRecordType):
        decode_coordinator_key(Coordinator.GROUP, b"\x00\x63")
    with pytest.raises(MalformedMessage):
        decode_coordinator_key(Coordinator.GROUP, b"\x00")
    with pytest.raises(MalformedMessage):
        decode_coordinator_value(m.OffsetCommitKey(), b"\x00\x03\x00")
    with pytest.raises(UnsupportedVersion):
        decode_coordinator_value(m.OffsetCommitKey(), b"\x00\x63\x00")


def test_later_versions_of_the_consumer_protocol_read_as_the_highest_known() -> None:
    subscription = m.ConsumerProtocolSubscription(topics=["a"], rack_id="r")
    data = encode_versioned(subscription, 3)
    later = b"\x00\x09" + data[2:] + b"fields of the future"
    assert decode_versioned(m.ConsumerProtocolSubscription, later, newest_known=True) == (subscription, 3)
    with pytest.raises(UnsupportedVersion):
        decode_versioned(m.ConsumerProtocolSubscription, later)


# -- ids ----------------------------------------------------------------------------------------------------


def test_uuid_text() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(b"\xff" * 16) == "_____________________w"
    assert uuid_from_text("_____________________w") == b"\xff" * 16


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAA!", "AAAAAAAAAAAAAAAAAAAAAAAA", "é" * 22])
def test_texts_that_are_no_uuid(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        uuid_from_text(text)
