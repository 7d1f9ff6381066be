"""JsonConverter finds known schemas without parsing them, and reads the same as one that knows none."""

import datetime
import json
from typing import Any

import pytest

from penstock.connect.converters import CONVERTERS, HEADER_CONVERTERS, Converter, SchemaAndValue
from penstock.connect.converters.json.converter import JsonConverter
from penstock.connect.converters.schema_cache import SchemaCache
from penstock.connect.data.logical import timestamp_schema
from penstock.connect.data.schema import INT32, OPTIONAL_STRING, STRING, Schema
from penstock.connect.data.struct import Struct
from penstock.connect.errors import ConfigInvalid, DataError

USER = Schema.struct({"id": INT32, "name": OPTIONAL_STRING})


def converter(**properties: str) -> Converter:
    made = JsonConverter()
    made.configure({name.replace("_", "."): value for name, value in properties.items()}, is_key=False)
    return made


def read(of: Converter, data: bytes) -> SchemaAndValue | None:
    try:
        return of.from_bytes("topic", data)
    except DataError:
        return None


def test_records_begin_with_their_schema() -> None:
    data = converter().to_bytes("topic", USER, Struct(USER, {"id": 7}))
    assert data is not None
    assert json.loads(data) == {
        "schema": {
            "type": "struct",
            "fields": [
                {"type": "int32", "optional": False, "field": "id"},
                {"type": "string", "optional": True, "field": "name"},
            ],
            "optional": False,
        },
        "payload": {"id": 7, "name": None},
    }


@pytest.mark.parametrize(
    "ending",
    [
        b'{"id":1}}',
        b'{"id":1}} ',
        b'{"id":1} }',
        b'{"id":1},"more":2}',
        b'{"id":1},"payload":{"id":2}}',
        b'{"id":1},"schema":null}',
        b'{"id":1},"schema":{"type":"int32"}}',
        b'{"id":007}}',
        b'{"id":1}} {"id":2}}',
        b'{"id":1}',
        b"}",
    ],
)
def test_a_known_schema_changes_nothing(ending: bytes) -> None:
    data = converter().to_bytes("topic", USER, Struct(USER, {"id": 7, "name": "Ada"}))
    assert data is not None
    envelope = data[: data.index(b'{"id":7')]
    knowing = converter()
    known, value = knowing.from_bytes("topic", data)
    assert value.to_dict() == {"id": 7, "name": "Ada"}
    assert knowing.from_bytes("topic", data).schema is known
    assert read(knowing, envelope + ending) == read(converter(), envelope + ending)


def test_repeated_names_do_not_mix_schemas() -> None:
    """The last schema counts, so that the bytes before a payload don't always tell it."""
    data = b'{"schema":{"type":"int32"},"payload":1,"schema":{"type":"string"}}'
    mixed = converter()
    assert mixed.from_bytes("topic", data) == (STRING, None)
    assert mixed.from_bytes("topic", b'{"schema":{"type":"int32"},"payload":1}') == (INT32, 1)


def test_many_schemas_are_kept_up_to_the_size_of_the_cache() -> None:
    of = converter(schemas_cache_size="2")
    for number in range(30):
        schema = Schema.struct({f"f{number % 12}": INT32})
        value = Struct(schema, {f"f{number % 12}": number})
        data = of.to_bytes("topic", schema, value)
        assert data is not None
        assert of.from_bytes("topic", data) == (schema, value)


def test_schemas_are_found_by_identity_and_by_equality() -> None:
    made: list[Schema | None] = []

    def make(schema: Schema | None) -> int:
        made.append(schema)
        return len(made)

    cache = SchemaCache(2, make)
    first, equal = Schema.struct({"a": INT32}), Schema.struct({"a": INT32})
    assert [cache.get(each) for each in (first, first, equal, None, equal)] == [1, 1, 1, 2, 1]
    assert cache.get(STRING) == 3
    assert len(cache) == 2
    assert cache.get(first) == 4


def test_the_schema_of_all_records_can_be_configured() -> None:
    of = converter(
        schema_content='{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp","version":1}'
    )
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    assert of.from_bytes("topic", b"1000") == (timestamp_schema(), moment)


def test_text_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(DataError, match="lone surrogate"):
        converter().to_bytes("topic", STRING, "\ud83d")


def test_deep_json_is_an_error_and_no_crash() -> None:
    with pytest.raises(DataError):
        converter(schemas_enable="false").from_bytes("topic", b"[" * 100_000)


@pytest.mark.parametrize("name", sorted(HEADER_CONVERTERS.keys() & CONVERTERS.keys()))
def test_each_converter_of_records_converts_headers(name: str) -> None:
    values: dict[str, Any] = {"Float": 0.5, "Double": 0.5, "Boolean": True, "Json": "a", "String": "a"}
    kind = name.rpartition(".")[2].removesuffix("Converter")
    value = values.get(kind, b"a" if kind == "ByteArray" else 7)
    of = HEADER_CONVERTERS[name]()
    of.configure({"schemas.enable": "false"})
    data = of.to_bytes("topic", "name", None, value)
    assert of.from_bytes("topic", "name", data).value == value
    of.close()


def test_properties_are_checked() -> None:
    with pytest.raises(ConfigInvalid, match=r"decimal\.format"):
        converter(decimal_format="HEX")
    of = CONVERTERS["org.apache.kafka.connect.storage.StringConverter"]()
    with pytest.raises(ConfigInvalid, match=r"converter\.encoding"):
        of.configure({"converter.encoding": "UTF-9"}, is_key=True)
