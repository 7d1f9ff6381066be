"""AvroConverter registers schemas, frames records, and reads them with the version of their subject."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from penstock.connect.converters.avro.converter import AvroConverter
from penstock.connect.data.logical import decimal_schema
from penstock.connect.data.schema import BYTES, INT32, OPTIONAL_STRING, STRING, Schema
from penstock.connect.data.struct import Struct
from penstock.connect.errors import ConfigInvalid, DataError, RetriableError
from small_registry import SmallRegistry

USER = Schema.struct({"id": INT32, "name": OPTIONAL_STRING}, name="org.User")


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with SmallRegistry().running() as running:
        yield running


def converter(registry: SmallRegistry, is_key: bool = False, **more: str) -> AvroConverter:
    made = AvroConverter()
    properties = {name.replace("_", "."): value for name, value in more.items()}
    made.configure({"schema.registry.url": registry.url, **properties}, is_key)
    return made


def test_a_record_comes_back_with_the_version_of_its_subject(registry: SmallRegistry) -> None:
    values = converter(registry)
    data = values.to_bytes("topic", USER, Struct(USER, {"id": 7, "name": "Ada"}))
    assert data == b"\x00\x00\x00\x00\x01\x0e\x02\x06Ada"
    assert registry.subjects == {"topic-value": [1]}
    schema, value = values.from_bytes("topic", data)
    assert schema is not None
    assert (schema.name, schema.version) == ("org.User", 1)
    assert value.to_dict() == {"id": 7, "name": "Ada"}
    assert values.from_bytes("topic", data).schema is schema


def test_a_schema_is_registered_once_for_each_subject(registry: SmallRegistry) -> None:
    keys = converter(registry, is_key=True)
    for topic in ("one", "two", "one"):
        keys.to_bytes(topic, STRING, "a")
    assert registry.subjects == {"one-key": [1], "two-key": [1]}
    assert [each for each in registry.requests if each.startswith("POST")] == [
        "POST /subjects/one-key/versions",
        "POST /subjects/two-key/versions",
    ]


def test_the_strategy_names_the_subject(registry: SmallRegistry) -> None:
    strategy = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    values = converter(registry, value_subject_name_strategy=strategy)
    values.to_bytes("topic", USER, Struct(USER, {"id": 7}))
    assert list(registry.subjects) == ["topic-org.User"]
    with pytest.raises(DataError, match="needs a record"):
        values.to_bytes("topic", STRING, "a")
    with pytest.raises(ConfigInvalid, match=r"value\.subject\.name\.strategy"):
        converter(registry, value_subject_name_strategy="mine")


def test_bytes_at_the_top_have_no_length(registry: SmallRegistry) -> None:
    """Confluent's serializer writes them so, in contrast to Avro."""
    values = converter(registry)
    assert values.to_bytes("topic", BYTES, b"abc") == b"\0\0\0\0\x01abc"
    assert values.from_bytes("topic", b"\0\0\0\0\x01abc").value == b"abc"
    price = decimal_schema(2)
    data = values.to_bytes("prices", price, Decimal("1.28"))
    assert data == b"\0\0\0\0\x02\x00\x80"
    assert values.from_bytes("prices", data).value == Decimal("1.28")


def test_values_without_a_schema_come_back(registry: SmallRegistry) -> None:
    values = converter(registry)
    value = {"a": [1, 2.5, None, "x"], 3: True}
    data = values.to_bytes("topic", None, value)
    assert values.from_bytes("topic", data) == (None, value)


def test_nulls_are_tombstones(registry: SmallRegistry) -> None:
    values = converter(registry)
    assert values.to_bytes("topic", OPTIONAL_STRING, None) is None
    assert values.from_bytes("topic", None) == (None, None)
    with pytest.raises(DataError, match="null value for non-optional"):
        values.to_bytes("topic", USER, None)
    assert registry.subjects == {}


def test_bytes_that_are_no_record_are_refused(registry: SmallRegistry) -> None:
    values = converter(registry)
    data = values.to_bytes("topic", USER, Struct(USER, {"id": 7}))
    assert data is not None
    for wrong in (b"", b"{}", b"\x01" + data[1:], data[:-1], b"\0\0\0\0\x09abc"):
        with pytest.raises(DataError):
            values.from_bytes("topic", wrong)


def test_a_registry_that_does_not_answer_is_asked_again(registry: SmallRegistry) -> None:
    values = converter(registry, max_retries="0")
    registry.failures.append(503)
    with pytest.raises(RetriableError):
        values.to_bytes("topic", STRING, "a")
    assert values.to_bytes("topic", STRING, "a") == b"\0\0\0\0\x01\x02a"


def test_names_that_avro_forbids_are_replaced_if_asked(registry: SmallRegistry) -> None:
    odd = Schema.struct({"a-b": INT32, "1~é": INT32}, name="my-app.2nd")
    struct = Struct(odd, {"a-b": 1, "1~é": 2})
    with pytest.raises(DataError, match="has no form in Avro"):
        converter(registry).to_bytes("topic", odd, struct)
    values = converter(registry, scrub_invalid_names="true")
    schema, value = values.from_bytes("topic", values.to_bytes("topic", odd, struct))
    assert value.to_dict() == {"a_b": 1, "x1_7E_C3_A9": 2}
    assert schema is not None
    assert schema.name == "my-app.2nd"
    assert '"name":"x2nd","namespace":"my_app"' in registry.schemas[1]["schema"]


def test_only_registered_schemas_are_used_if_asked(registry: SmallRegistry) -> None:
    values = converter(registry, auto_register_schemas="false")
    with pytest.raises(DataError):
        values.to_bytes("topic", STRING, "a")
    registry.add("topic-value", '"string"')
    assert values.to_bytes("topic", STRING, "a") == b"\0\0\0\0\x01\x02a"
    with pytest.raises(ConfigInvalid, match=r"use\.latest\.version"):
        converter(registry, use_latest_version="true")
    with pytest.raises(ConfigInvalid, match=r"generalized\.sum\.type\.support"):
        converter(registry, generalized_sum_type_support="true")
