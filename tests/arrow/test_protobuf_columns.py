"""Messages read by columns, compared with Google's parser: random, damaged and rearranged messages."""

import random

import numpy as np
import pytest
from google.protobuf import message_factory

from penstock.arrow.protobuf.columns import MessageColumns, NotByColumns
from penstock.arrow.protobuf.mapping import arrow_type, descriptor_of
from penstock.arrow.protobuf.parsing import parsing_descriptor
from penstock.arrow.protobuf.reading import MessageReader
from penstock.registry.formats import parse

ALL = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
message All {
  double real = 1; float short_real = 2; bool yes = 3; string text = 4; bytes data = 5;
  int32 i32 = 6; int64 i64 = 7; uint32 u32 = 8; uint64 u64 = 9; sint32 s32 = 10; sint64 s64 = 11;
  fixed32 f32 = 12; fixed64 f64 = 13; sfixed32 sf32 = 14; sfixed64 sf64 = 15; State state = 16;
  optional double o_real = 21; optional string o_text = 22; optional int32 o_i32 = 23;
  optional State o_state = 24;
  repeated sint32 numbers = 31; repeated string texts = 32; repeated State states = 33;
  repeated Line lines = 34;
  repeated fixed64 loose = 35 [packed = false]; repeated bool truths = 36; repeated float reals = 37;
  map<string, Line> by_name = 41; map<int64, double> by_number = 42; map<bool, State> by_truth = 43;
  oneof pays { string card = 51; Line cash = 52; uint32 points = 53; }
  google.protobuf.Timestamp at = 61; repeated google.protobuf.Timestamp times = 62;
  google.type.Date day = 63; google.protobuf.StringValue w_text = 65;
  repeated google.protobuf.Int32Value w = 68;
  Line line = 536870911;
  enum State { NEW = 0; PAID = 1; LOST = -3; }
  message Line { string sku = 1; int32 n = 2; optional Deep deep = 3; message Deep { bool x = 1; } }
}
"""
OLD = """
syntax = "proto2";
message Old {
  optional string note = 2 [default = "none"]; repeated int32 loose = 3;
  optional Kind kind = 5 [default = TWO]; map<string, Kind> kinds = 6; map<int32, In> parts = 7;
  optional sint64 z = 8 [default = 5];
  repeated Kind many = 9;
  enum Kind { ONE = 0; TWO = 2; } message In { optional int32 x = 1; }
}
"""


def random_value(pick, field):
    kinds = {
        "double": lambda: pick.choice([0.0, -0.0, 1.5, pick.uniform(-1e300, 1e300)]),
        "float": lambda: pick.choice([0.0, 0.5, -2.25]),
        "bool": lambda: pick.random() < 0.5,
        "string": lambda: pick.choice(["", "a", "ß𝄞", "x" * 200]),
        "bytes": lambda: pick.randbytes(pick.choice([0, 1, 5, 130])),
    }
    name = {1: "double", 2: "float", 8: "bool", 9: "string", 12: "bytes"}.get(field.type)
    if name is not None:
        return kinds[name]()
    if field.enum_type is not None:
        return pick.choice(
            [*field.enum_type.values_by_number, 17]
            if not field.enum_type.is_closed
            else list(field.enum_type.values_by_number)
        )
    bits = 32 if field.type in (5, 7, 13, 15, 17) else 64
    is_signed = field.type in (3, 5, 15, 16, 17, 18)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return pick.choice([0, 1, low, high, pick.randint(low, high)])


def fill(pick, message):
    for field in message.DESCRIPTOR.fields:
        if pick.random() < 0.5:
            continue
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if field.message_type is not None and field.message_type.full_name == "google.type.Date":
            date = getattr(message, field.name)
            date.year, date.month, date.day = pick.choice(
                [(2024, 2, 29), (1, 1, 1), (9999, 12, 31), (2023, 2, 29), (2024, 0, 1)]
            )
        elif is_map:
            entry = field.message_type.fields_by_name
            for _ in range(pick.choice([1, 2])):
                key = random_value(pick, entry["key"])
                if entry["value"].message_type is not None:
                    fill(pick, getattr(message, field.name)[key])
                else:
                    getattr(message, field.name)[key] = random_value(pick, entry["value"])
        elif field.is_repeated:
            for _ in range(pick.choice([1, 2, 5])):
                if field.message_type is not None:
                    fill(pick, getattr(message, field.name).add())
                else:
                    getattr(message, field.name).append(random_value(pick, field))
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            fill(pick, getattr(message, field.name))
        else:
            setattr(message, field.name, random_value(pick, field))
    return message


def damaged(pick, data):
    """The message, perhaps damaged as no serializer writes it, or seldom: cut, changed, doubled or random."""
    match pick.randrange(5):
        case 0:
            return data[: pick.randrange(len(data) + 1)]
        case 1 if data:
            changed = bytearray(data)
            changed[pick.randrange(len(data))] = pick.randrange(256)
            return bytes(changed)
        case 2:
            return data + data
        case 3:
            return pick.randbytes(pick.randrange(20))
    return data


def comparable(value):
    """The value in a form that distinguishes NaN and signed zeros, and ignores the order of map entries."""
    match value:
        case dict():
            return {key: comparable(each) for key, each in value.items()}
        case list():
            return [comparable(each) for each in value]
        case float():
            return repr(value)
    return value


def both(files, name, data):
    """Read rows and bad rows by columns, with Google's parser for odd messages, and by that parser alone."""
    reader = MessageReader(files, name, {})
    lengths = np.array([len(each) for each in data], np.int64)
    starts = np.cumsum(lengths) - lengths
    whole = np.frombuffer(b"".join(data), np.uint8)
    assert len(data) >= 100
    found, expected = reader.read(whole, starts, lengths), reader._by_google(whole, starts, lengths)
    for each in (found, expected):
        each.array.validate(full=True)
        assert each.array.type == reader.type
    return [(each.array.to_pylist(maps_as_pydicts="strict"), dict(each.bad)) for each in (found, expected)]


@pytest.mark.parametrize(("text", "name"), [(ALL, "shop.All"), (OLD, "Old")])
@pytest.mark.parametrize("seed", range(6))
def test_columns_are_what_googles_parser_reads(text, name, seed):
    files = parse("PROTOBUF", text).file_set()
    message = message_factory.GetMessageClass(descriptor_of(files, name))
    pick = random.Random(seed)
    data = [fill(pick, message()).SerializeToString() for _ in range(150)]
    if seed % 2:
        data = [damaged(pick, each) if pick.random() < 0.5 else each for each in data]
    (rows, bad), (expected, expected_bad) = both(files, name, data)
    assert bad == expected_bad
    for at, (row, other) in enumerate(zip(rows, expected, strict=True)):
        assert comparable(row) == comparable(other), (at, data[at])


def test_only_what_is_odd_is_left_to_google():
    files = parse("PROTOBUF", ALL).file_set()
    of = descriptor_of(files, "shop.All")
    message = message_factory.GetMessageClass(of)
    columns = MessageColumns(of, parsing_descriptor(files, "shop.All", {}), {})
    whole = message(text="x", numbers=[1, -1], lines=[{"sku": "s"}], by_name={"k": message.Line(n=1)}, i32=-5)
    assert not whole.ByteSize() > 200
    good = whole.SerializeToString()
    data = [good, b"", good + good, good[:-1], message(card="c", points=3).SerializeToString(), good]
    twice = message(line=message.Line(n=1)).SerializeToString() * 2
    too_wide = b"\x30" + b"\x80\x80\x80\x80\x10"
    endless = message(texts=["x"] * 2000).SerializeToString()
    data += [endless, twice, too_wide, b"\x22\x01\xff", b"\x13\x14"]
    lengths = np.array([len(each) for each in data], np.int64)
    found, is_odd = columns.read(
        np.frombuffer(b"".join(data), np.uint8), np.cumsum(lengths) - lengths, lengths
    )
    assert found.type == arrow_type(of, {})
    assert is_odd.tolist() == [False, False, True, True, False, False, *[True] * 5]


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"\x0a\x01x", "field 'real' (number 1) has the wire type 2 in a form that double does not have"),
        (b"\x20\x05", "field 'text' (number 4) has the wire type 0 in a form that string"),
        (b"\xa5\x02\x00\x00\x00\x00", "field 'truths' (number 36) has the wire type 5"),  # a bool in 4 bytes
        (
            b"\x92\x02\x02\x0a\x00" + b"\x95\x02\x00\x00\x00\x00",
            "field 'lines' (number 34) has the wire type 5",
        ),
        (b"\xca\x02\x04\x08\x01\x12\x00", "field 'by_name' (number 41)"),  # an entry's key is a number
        (b"\xea\x03\x02\x0a\x00", "field 'seconds' (number 1) has the wire type 2"),
        (b"\x8a\x04\x02\x08\x01", "field 'value' (number 1) has the wire type 0"),
        (b"\x92\x02\x04\x1a\x02\x0a\x00", "field 'x' (number 1) has the wire type 2"),
    ],
)
def test_what_is_in_another_form_than_its_field_is_never_a_default(data, field):
    files = parse("PROTOBUF", ALL).file_set()
    (rows, bad), (expected, expected_bad) = both(files, "shop.All", [data, *[b""] * 100])
    assert bad == expected_bad
    assert list(bad) == [0]
    assert bad[0].startswith(field)
    assert rows[0] is expected[0] is None


def test_what_is_of_no_field_is_passed_over():
    files = parse("PROTOBUF", ALL).file_set()
    (rows, bad), _ = both(files, "shop.All", [b"\xa2\x06\x01x\x18\x01", *[b""] * 100])
    assert (rows[0]["yes"], bad) == (True, {})


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto2"; message M { required int32 a = 1; }',
        'syntax = "proto2"; message M { optional group G = 1 { optional int32 a = 1; } }',
        'import "confluent/type/decimal.proto"; message M { optional confluent.type.Decimal a = 1; }',
    ],
)
def test_some_messages_are_all_left_to_google(text):
    files = parse("PROTOBUF", text).file_set()
    with pytest.raises(NotByColumns):
        MessageColumns(descriptor_of(files, "M"), parsing_descriptor(files, "M", {}), {})
