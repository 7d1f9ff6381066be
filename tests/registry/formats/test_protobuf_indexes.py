"""The indexes of messages, as Confluent's serializers write them before a message."""

import pytest

from penstock.registry.formats import SchemaError, parse
from penstock.registry.formats.protobuf.indexes import indexes_bytes, indexes_of, message_at, read_indexes
from penstock.registry.formats.protobuf.schema import ProtobufSchema

PROTO = """
syntax = "proto2";
package shop;
message Order {
  enum Size { SMALL = 0; }
  message Line { message Part { optional int32 n = 1; } }
}
message Other {}
"""


@pytest.fixture(scope="module")
def files() -> bytes:
    made = parse("PROTOBUF", PROTO)
    assert isinstance(made, ProtobufSchema)
    return made.file_set()


@pytest.mark.parametrize(
    ("message", "indexes", "encoded"),
    [
        ("shop.Order", (0,), b"\x00"),
        ("shop.Other", (1,), b"\x02\x02"),
        ("shop.Order.Line", (0, 0), b"\x04\x00\x00"),
        ("shop.Order.Line.Part", (0, 0, 0), b"\x06\x00\x00\x00"),
    ],
)
def test_a_message_by_name_and_by_indexes(
    files: bytes, message: str, indexes: tuple[int, ...], encoded: bytes
) -> None:
    assert indexes_of(files, message) == (indexes, message)
    assert message_at(files, indexes) == message
    assert indexes_bytes(indexes) == encoded
    assert read_indexes(b"id" + encoded + b"message", 2) == (indexes, 2 + len(encoded))


def test_the_first_message_is_the_default(files: bytes) -> None:
    assert indexes_of(files, None) == ((0,), "shop.Order")


def test_large_indexes_take_several_bytes() -> None:
    assert indexes_bytes((64, 3)) == b"\x04\x80\x01\x06"
    assert read_indexes(b"\x04\x80\x01\x06") == ((64, 3), 4)


def test_an_unknown_name_gets_the_list_of_all(files: bytes) -> None:
    expected = "has no message 'Order', expected one of shop.Order, shop.Order.Line, shop.Order.Line.Part, "
    with pytest.raises(SchemaError, match=expected):
        indexes_of(files, "Order")
    assert message_at(files, (2,)) is None


def test_a_file_without_a_message_is_refused() -> None:
    made = parse("PROTOBUF", 'syntax = "proto3"; enum Size { SMALL = 0; }')
    assert isinstance(made, ProtobufSchema)
    with pytest.raises(SchemaError, match="has no message"):
        indexes_of(made.file_set(), None)


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01", b"\x80", b"\xfe\xff\xff\xff\xff\x0f", b"\x02\x01"])
def test_bytes_that_are_no_indexes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="expected the indexes of a message"):
        read_indexes(data)
