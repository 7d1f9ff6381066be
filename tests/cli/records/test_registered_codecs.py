"""Protobuf's JSON, and JSON documents checked by their schemas, with schemas of several types and files."""

import json
from typing import Any

import pytest

from penstock.cli.records import protobuf_json, validated_json
from penstock.cli.records.codec import InvalidValue
from penstock.registry.formats import Reference, parse
from penstock.registry.formats.json_schema.schema import JsonSchema
from penstock.registry.formats.protobuf.schema import ProtobufSchema
from penstock.registry.formats.references import Found
from penstock.sql.formats.errors import FormatError

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  repeated Line lines = 2;
  google.protobuf.Timestamp paid_at = 3;
  oneof discount { double percent = 4; string code = 5; }
  message Line { string article_name = 1; Size size = 2; bytes raw = 3; }
  enum Size { SMALL = 0; LARGE = 1; }
}
message Other { optional int32 n = 1; }
"""


def protobuf() -> ProtobufSchema:
    made = parse("PROTOBUF", PROTO)
    assert isinstance(made, ProtobufSchema)
    return made


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ({}, {"id": "0", "lines": []}),
        (
            {"id": 1 << 62, "lines": [{"articleName": "tea", "size": "LARGE", "raw": "/w=="}], "code": "x"},
            {
                "id": str(1 << 62),
                "lines": [{"articleName": "tea", "size": "LARGE", "raw": "/w=="}],
                "code": "x",
            },
        ),
        ({"paid_at": "2026-01-31T12:00:00Z"}, {"id": "0", "lines": [], "paidAt": "2026-01-31T12:00:00Z"}),
    ],
)
def test_the_first_message_is_written_and_read(given: Any, printed: Any) -> None:
    data = protobuf_json.writer(protobuf())(json.dumps(given).encode())
    assert data[:1] == b"\0"
    assert json.loads(protobuf_json.reader(protobuf())(data)) == printed


def test_a_message_that_is_named_is_written_with_its_indexes() -> None:
    assert protobuf_json.writer(protobuf(), "shop.Other")(b'{"n": 5}') == b"\x02\x02\x08\x05"
    line = protobuf_json.writer(protobuf(), "shop.Order.Line")
    assert line(b'{"articleName": "t"}') == b"\x04\x00\x00\x0a\x01t"
    with pytest.raises(InvalidValue, match=r"expected shop\.Order\.Line$"):
        line(b'{"id": 1}')


def test_a_message_that_the_file_lacks_is_refused_with_the_list() -> None:
    expected = r"no message 'Other', expected one of shop\.Order, shop\.Order\.Line, shop\.Other$"
    with pytest.raises(FormatError, match=expected):
        protobuf_json.writer(protobuf(), "Other")


def test_any_message_of_the_file_is_read_by_its_indexes() -> None:
    read = protobuf_json.reader(protobuf())
    assert read(b"\x02\x02\x08\x05") == b'{"n":5}'  # the second message
    assert read(b"\x04\x00\x00\x0a\x01t") == b'{"articleName":"t","size":"SMALL","raw":""}'  # Order.Line


@pytest.mark.parametrize("data", [b"\0\x08", b"\0\xff\xff"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidValue, match=r"expected shop\.Order$"):
        protobuf_json.reader(protobuf())(data)


@pytest.mark.parametrize("text", [b"{", b'{"id": "x"}', b'{"unknown": 1}', b"\xff", b"[" * 10_000])
def test_a_text_that_is_no_message_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidValue, match=r"^found .*, expected shop\.Order$"):
        protobuf_json.writer(protobuf())(text)


def json_schema(content: Any, **referred: Any) -> JsonSchema:
    references = [Reference(f"{name}.json", name, 1) for name in referred]
    made = parse(
        "JSON",
        json.dumps(content),
        references,
        lambda reference: Found(json.dumps(referred[reference.subject])),
    )
    assert isinstance(made, JsonSchema)
    return made


def test_a_document_is_checked_against_the_schema_and_its_references() -> None:
    schema = json_schema(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"price": {"$ref": "price.json"}, "n": {"type": "integer"}},
        },
        price={"type": "number", "minimum": 0},
    )
    write = validated_json.writer(schema)
    assert write(b'{ "price": 1.10, "n": 1.0 }') == b'{"price":1.10,"n":1.0}'
    with pytest.raises(InvalidValue, match=r": \$\.price: -1 is less than the minimum of 0$"):
        write(b'{"price": -1}')


def test_the_draft_of_the_schema_decides() -> None:
    boundary = {"exclusiveMinimum": True, "minimum": 5}  # draft 4 has a flag where later drafts have a number
    schema = json_schema({"$schema": "http://json-schema.org/draft-04/schema#", **boundary})
    assert validated_json.writer(schema)(b"6") == b"6"
    with pytest.raises(InvalidValue):
        validated_json.writer(schema)(b"5")


def test_a_pattern_that_python_cannot_compile_is_named() -> None:
    write = validated_json.writer(json_schema({"pattern": r"\p{Lu}+"}))
    with pytest.raises(InvalidValue, match="found a pattern in the schema that Python cannot compile"):
        write(b'"A"')


@pytest.mark.parametrize("schema", [{"$schema": 7, "type": "integer"}, {"type": "integer"}])
def test_a_schema_that_names_no_draft_is_read_as_draft_7(schema: dict[str, Any]) -> None:
    write = validated_json.writer(json_schema(schema))
    assert write(b"5") == b"5"
    with pytest.raises(InvalidValue, match="is not of type 'integer'"):
        write(b'"5"')
