"""Texts become values and values texts, as headers need it. Another test compares many with Kafka's."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.connect.converters import HEADER_CONVERTERS
from penstock.connect.data.logical import (
    date_schema,
    decimal_of_bytes,
    decimal_schema,
    epoch_millis,
    time_schema,
    timestamp_schema,
    unscaled_bytes,
)
from penstock.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
)
from penstock.connect.data.struct import Struct
from penstock.connect.data.values import convert_value, infer_schema, parse_text, value_text
from penstock.connect.errors import DataError

NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("null", None, None),
        ("", STRING, ""),
        ("some words", STRING, "some words"),
        ("true", BOOLEAN, True),
        ("-128", INT8, -128),
        ("128", INT16, 128),
        ("2147483648", INT64, 1 << 31),
        ("0.5", FLOAT32, 0.5),
        ("[1, 300]", Schema.array(INT16), [1, 300]),
        ('{"a":1}', Schema.map(STRING, INT8), {"a": 1}),
        ('{"a":1,"b":null}', STRING, '{"a":1,"b":null}'),  # null does not fit the type of the other values
        ("2024-02-29", date_schema(), NOON.date()),
        ("12:00:00.000Z", time_schema(), NOON.time()),
        ("2024-02-29T12:00:00.000Z", timestamp_schema(), NOON),
        ("2024-02-30", date_schema(), datetime.date(2024, 3, 1)),
        ("[1, oops]", STRING, "[1, oops]"),
    ],
)
def test_texts_are_values_of_the_smallest_type(text: str, schema: Schema | None, value: Any) -> None:
    assert parse_text(text) == (schema, value)


def test_values_become_texts_that_can_be_parsed() -> None:
    point = Schema.struct({"x": INT32, "names": Schema.array(STRING)})
    assert value_text(point, Struct(point, {"x": 1, "names": ['a"b']})) == '{"x":1,"names":["a\\"b"]}'
    assert value_text(None, {"a": [1, 2.5, None, True, b"ab"]}) == '{"a":[1,2.5,null,true,"YWI="]}'
    assert value_text(timestamp_schema(), NOON) == "2024-02-29T12:00:00.000Z"
    assert value_text(STRING, None) is None
    with pytest.raises(DataError, match="unexpected value type"):
        value_text(None, object())


def test_values_are_converted_between_types() -> None:
    assert convert_value(INT8, INT32, 300) == 44
    assert convert_value(INT64, timestamp_schema(), NOON) == epoch_millis(NOON)
    assert convert_value(date_schema(), timestamp_schema(), NOON) == NOON.date()
    assert convert_value(decimal_schema(2), STRING, "1.50") == Decimal("1.50")
    assert convert_value(BOOLEAN, STRING, "true") is True
    with pytest.raises(DataError, match="Unable to convert"):
        convert_value(INT32, BYTES, b"a")
    with pytest.raises(DataError, match="null"):
        convert_value(INT32, None, None)


def test_the_schema_of_a_value_is_inferred_if_it_has_only_one() -> None:
    assert infer_schema([1, None]) == Schema.array(INT64.as_optional())
    assert infer_schema({"a": 1}) == Schema.map(STRING, INT64)
    assert [infer_schema(each) for each in ([], [1, "a"], [None], None)] == [None] * 4


@pytest.mark.parametrize(("text", "scale", "data"), [("1.28", 2, "0080"), ("-1.28", 2, "80"), ("0", 0, "00")])
def test_decimals_are_as_few_bytes_as_they_need(text: str, scale: int, data: str) -> None:
    assert unscaled_bytes(Decimal(text), scale).hex() == data
    assert decimal_of_bytes(bytes.fromhex(data), scale) == Decimal(text)


def test_headers_that_cannot_be_parsed_are_bytes() -> None:
    of = HEADER_CONVERTERS["org.apache.kafka.connect.storage.SimpleHeaderConverter"]()
    of.configure({})
    assert of.from_bytes("topic", "name", b"7") == (INT8, 7)
    assert of.to_bytes("topic", "name", INT8, 7) == b"7"
    assert of.from_bytes("topic", "name", None) == (None, None)
    deep = b"[" * 100_000
    schema, value = of.from_bytes("topic", "name", deep)
    assert (schema, value) in ((BYTES, deep), (STRING, deep.decode()))
    of.close()
