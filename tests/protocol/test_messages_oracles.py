"""The messages compared, byte for byte, with two other implementations: kafka-python 3 and kio.

Each oracle decodes the bytes that Penstock encoded; its values must equal the original ones, and its own
encoding of them must be the same bytes.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import pkgutil
import uuid
from collections.abc import Callable
from typing import Any

import kafka.protocol
import kio.schema.errors
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas.fields.codecs import BitField
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from message_values import all_message_versions, messages, plain

from penstock.protocol.codec import Message
from penstock.protocol.definition import Field

few_examples = settings(
    max_examples=max(2, settings.default.max_examples // 10), suppress_health_check=list(HealthCheck)
)

LATEST_MS = 4_000_000_000_000
"""The year 2096: the oracles' date types cannot hold dates far beyond that."""


def assert_same_values(
    theirs: Any, ours: Any, equal: Callable[[Any, Any], bool] = lambda theirs, ours: theirs == ours
) -> None:
    """Compare two nested lists of (name, value). The oracles shorten some names, but keep the order."""
    if isinstance(ours, list) and isinstance(theirs, list):
        assert len(theirs) == len(ours)
        for their_item, our_item in zip(theirs, ours, strict=True):
            assert_same_values(their_item, our_item, equal)
    elif isinstance(ours, tuple) and isinstance(theirs, tuple):
        assert theirs[0].replace("_", "") in ours[0].replace("_", "")
        assert_same_values(theirs[1], ours[1], equal)
    else:
        assert equal(theirs, ours)


# -- kafka-python -------------------------------------------------------------------------------------------


def kafka_python_classes() -> dict[str, Any]:
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate" not in module.name:
            importlib.import_module(module.name)
    classes = list(ApiMessage.__subclasses__())
    for cls in classes:
        classes += cls.__subclasses__()
    return {cls.__name__: cls for cls in classes}


KAFKA_PYTHON = kafka_python_classes()


def in_kafka_python() -> list[tuple[str, int]]:
    return [
        (name, version)
        for name, version in all_message_versions("request", "response")
        if name in KAFKA_PYTHON and version <= KAFKA_PYTHON[name].max_version
    ]


def kafka_python_values(value: Any, version: int) -> Any:
    if hasattr(value, "_struct"):
        return [
            (field.name, kafka_python_field(getattr(value, field.name), field, version))
            for field in value._struct._fields
            if field.for_version_q(version)
        ]
    if isinstance(value, (list, tuple)):
        return [kafka_python_values(item, version) for item in value]
    return value.bytes if isinstance(value, uuid.UUID) else value


def kafka_python_field(value: Any, field: Any, version: int) -> Any:
    if getattr(field, "_type", None) is not BitField:
        return kafka_python_values(value, version)
    bits = {31} if value is None else value
    return int.from_bytes(sum(1 << bit for bit in bits).to_bytes(4, "big"), "big", signed=True)


def equal_in_kafka_python(theirs: Any, ours: Any) -> bool:
    """Compare values: kafka-python leaves None where a tagged UUID or struct is absent."""
    absent = theirs is None and (ours == bytes(16) or isinstance(ours, list))
    return absent or bool(theirs == ours)


def without_error(field: Field) -> st.SearchStrategy[int] | None:
    """Allow only error code 0: kafka-python reads an ApiVersions response with an error as version 0."""
    return st.just(0) if field.name == "error_code" else None


@pytest.mark.longer
@pytest.mark.parametrize(("name", "version"), in_kafka_python())
def test_same_bytes_as_kafka_python(name: str, version: int) -> None:
    theirs = KAFKA_PYTHON[name]
    override = without_error if name == "ApiVersionsResponse" else lambda field: None

    @few_examples
    @given(messages(name, version, override))
    def check(message: Message) -> None:
        encoded = message.encode(version)
        decoded = theirs.decode(encoded, version=version)
        assert_same_values(
            kafka_python_values(decoded, version), plain(message, version), equal_in_kafka_python
        )
        decoded._header = None
        assert decoded.encode(version=version) == encoded

    check()


# -- kio ----------------------------------------------------------------------------------------------------


def kio_entities() -> dict[tuple[str, int], str]:
    """The class that kio has for each message and version: ``module:class``."""
    return {
        (path.partition(":")[2], version): path
        for versions in schema_name_map.values()
        for version, entities in versions.items()
        for kind, path in entities.items()
        if kind is not EntityType.header or path.endswith("Header")
    }


KIO = kio_entities()


def in_kio() -> list[tuple[str, int]]:
    return [(name, version) for name, version in all_message_versions() if (name, version) in KIO]


def kio_can_hold(field: Field) -> st.SearchStrategy[Any] | None:
    """Narrow values to kio's types: it reads error codes as an enum and times as dates and durations."""
    if field.name.endswith("error_code"):
        return st.sampled_from(list(map(int, kio.schema.errors.ErrorCode)))
    if field.type_name == "int64" and ("time" in field.name or field.name.endswith("_ms")):
        return st.integers(0, LATEST_MS)
    return None


def kio_values(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return [(field.name, kio_values(getattr(value, field.name))) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [kio_values(item) for item in value]
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime.fromtimestamp(0, datetime.UTC)) // datetime.timedelta(
            milliseconds=1
        )
    return value


def equal_in_kio(theirs: Any, ours: Any) -> bool:
    """Compare values: kio holds None for the zero UUID and for a date of -1."""
    return bool(theirs == ours) or (theirs is None and ours in (bytes(16), -1))


@pytest.mark.longer
@pytest.mark.parametrize(("name", "version"), in_kio())
def test_same_bytes_as_kio(name: str, version: int) -> None:
    entity = pkgutil.resolve_name(KIO[name, version])
    read, write = entity_reader(entity), entity_writer(entity)

    @few_examples
    @given(messages(name, version, kio_can_hold))
    def check(message: Message) -> None:
        encoded = message.encode(version)
        decoded, size = read(encoded, 0)
        assert size == len(encoded)
        assert_same_values(kio_values(decoded), plain(message, version), equal_in_kio)
        written = io.BytesIO()
        write(written, decoded)
        assert written.getvalue() == encoded

    check()


def test_the_oracles_cover_every_request_and_response() -> None:
    covered = {*in_kafka_python(), *in_kio()}
    assert set(all_message_versions("request", "response")) <= covered
