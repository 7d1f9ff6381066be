"""Columns written as Protobuf: the same bytes as Google's library writes, for random columns."""

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory
from hypothesis import given
from hypothesis import strategies as st

from penstock.arrow.column_encoder import ColumnEncoder
from penstock.arrow.encoding import Encoding, Unwritable
from penstock.arrow.formats import make_format
from penstock.arrow.protobuf.made_schema import schema_of
from penstock.arrow.protobuf.mapping import arrow_type, decimals_of, descriptor_of
from penstock.arrow.protobuf.writing import MessageWriter
from penstock.arrow.schema_choice import SchemaChoice
from penstock.client.settings import ConfigError
from penstock.registry.client.config import RegistryConfig
from penstock.registry.formats import parse
from small_registry import SmallRegistry

ALL = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
message All {
  double real = 16; float short_real = 2; bool yes = 3; string text = 4; bytes data = 5;
  int32 i32 = 6; int64 i64 = 7; uint32 u32 = 8; uint64 u64 = 9; sint32 s32 = 10; sint64 s64 = 11;
  fixed32 f32 = 12; fixed64 f64 = 13; sfixed32 sf32 = 14; sfixed64 sf64 = 15; State state = 1;
  optional double o_real = 21; optional string o_text = 22; optional uint64 o_u64 = 23;
  optional State o_state = 24;
  repeated sint32 numbers = 31; repeated string texts = 32; repeated State states = 33;
  repeated Line lines = 34; repeated fixed64 loose = 35 [packed = false];
  map<string, Line> by_name = 41; map<int64, double> by_number = 42; map<bool, State> by_truth = 43;
  oneof pays { string card = 51; Line cash = 52; uint32 points = 53; }
  google.protobuf.Timestamp at = 61; repeated google.protobuf.Timestamp times = 62;
  google.type.Date day = 63; repeated google.type.Date days = 64;
  google.protobuf.StringValue w_text = 65; google.protobuf.UInt64Value w_u64 = 66;
  google.protobuf.BoolValue w_yes = 67; repeated google.protobuf.Int32Value w_numbers = 68;
  Line line = 71;
  enum State { NEW = 0; PAID = 1; LOST = -3; }
  message Line { string sku = 1; int32 n = 2; optional Line.Deep deep = 3; message Deep { bool x = 1; } }
}
message Other { int32 a = 1; message Inside { int32 b = 1; } }
"""
OLD = """
syntax = "proto2";
message Old {
  required int32 id = 1; optional string note = 2 [default = "none"]; repeated int32 loose = 3;
  repeated int64 tight = 4 [packed = true]; optional Kind kind = 5;
  optional group Part = 6 { optional string name = 7; }
  enum Kind { ONE = 1; TWO = 2; }
}
"""


def wholes(bits, *, is_signed):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return st.one_of(st.sampled_from([0, low, high]), st.integers(low, high))


def maybe(strategy):
    return st.none() | strategy


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
STATES = st.sampled_from(["NEW", "PAID", "LOST", "17", "-2147483648"])
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda at: at.replace(tzinfo=UTC))
DAYS = st.dates()
SHORT = st.floats(width=32, allow_nan=False)
REALS = st.floats(allow_nan=False)
LINES = st.fixed_dictionaries(
    {
        "sku": TEXTS,
        "n": wholes(32, is_signed=True),
        "deep": maybe(st.fixed_dictionaries({"x": st.booleans()})),
    }
)
CHOICES = st.one_of(
    st.just((None, None, None)),
    TEXTS.map(lambda card: (card, None, None)),
    LINES.map(lambda cash: (None, cash, None)),
    wholes(32, is_signed=False).map(lambda points: (None, None, points)),
)


@st.composite
def rows(draw):
    card, cash, points = draw(CHOICES)
    return draw(
        st.fixed_dictionaries(
            {
                "real": REALS,
                "short_real": SHORT,
                "yes": st.booleans(),
                "text": TEXTS,
                "data": st.binary(max_size=200),
                **{f"i{bits}": wholes(bits, is_signed=True) for bits in (32, 64)},
                **{f"u{bits}": wholes(bits, is_signed=False) for bits in (32, 64)},
                **{f"s{bits}": wholes(bits, is_signed=True) for bits in (32, 64)},
                **{f"f{bits}": wholes(bits, is_signed=False) for bits in (32, 64)},
                **{f"sf{bits}": wholes(bits, is_signed=True) for bits in (32, 64)},
                "state": STATES,
                "o_real": maybe(REALS),
                "o_text": maybe(TEXTS),
                "o_u64": maybe(wholes(64, is_signed=False)),
                "o_state": maybe(STATES),
                "numbers": st.lists(wholes(32, is_signed=True), max_size=4),
                "texts": st.lists(TEXTS, max_size=3),
                "states": st.lists(STATES, max_size=3),
                "lines": st.lists(LINES, max_size=3),
                "loose": st.lists(wholes(64, is_signed=False), max_size=3),
                "by_name": st.dictionaries(TEXTS, LINES, max_size=3),
                "by_number": st.dictionaries(wholes(64, is_signed=True), REALS, max_size=3),
                "by_truth": st.dictionaries(st.booleans(), STATES, max_size=2),
                "card": st.just(card),
                "cash": st.just(cash),
                "points": st.just(points),
                "at": maybe(TIMES),
                "times": st.lists(TIMES, max_size=2),
                "day": maybe(DAYS),
                "days": st.lists(DAYS, max_size=2),
                "w_text": maybe(TEXTS),
                "w_u64": maybe(wholes(64, is_signed=False)),
                "w_yes": maybe(st.booleans()),
                "w_numbers": st.lists(wholes(32, is_signed=True), max_size=3),
                "line": maybe(LINES),
            }
        )
    )


def as_pairs(value):
    """Convert the dictionaries of maps to the pairs that Arrow takes."""
    return {
        name: list(each.items()) if isinstance(each, dict) and name.startswith("by_") else each
        for name, each in value.items()
    }


@pytest.fixture(scope="module")
def everything():
    of = descriptor_of(parse("PROTOBUF", ALL).file_set(), "shop.All")
    return (
        make_format("protobuf", ALL),
        MessageWriter(of, arrow_type(of, {}), {}),
        message_factory.GetMessageClass(of),
    )


@given(st.lists(rows(), max_size=5))
def test_random_columns_come_back_and_are_the_bytes_of_googles_library(everything, values):
    reader, writer, message = everything
    column = pa.array([as_pairs(each) for each in values], reader.type)
    padded = pa.concat_arrays([column, column]).slice(len(values))  # a slice as well
    for each in (column, padded):
        data = writer.write(each)
        data.validate(full=True)
        read = reader.decode(data)
        assert read.bad == {}
        assert read.array.to_pylist(maps_as_pydicts="strict") == values
        for row, value in zip(data.to_pylist(), values, strict=True):
            parsed = message.FromString(row)
            assert parsed.ByteSize() == len(row)
            if all(
                len(value[name]) < 2 for name in ("by_name", "by_number", "by_truth")
            ):  # map entries have no order
                assert parsed.SerializeToString(deterministic=True) == row


def test_required_fields_groups_and_closed_enums_of_proto2():
    of = descriptor_of(parse("PROTOBUF", OLD).file_set(), "Old")
    kind = arrow_type(of, {})
    writer = MessageWriter(of, kind, {})
    whole = {"id": 0, "note": "", "loose": [1, -1], "tight": [5], "kind": "TWO", "part": {"name": "p"}}
    none = {"id": 7, "note": None, "loose": [], "tight": [], "kind": None, "part": None}
    data = writer.write(pa.array([whole, none], kind))
    message = message_factory.GetMessageClass(of)
    assert [message.FromString(row).SerializeToString() for row in data.to_pylist()] == data.to_pylist()
    assert make_format("protobuf", OLD).decode(data).array.to_pylist() == [whole, none]
    with pytest.raises(Unwritable, match="field 'id' is null in a row"):
        writer.write(pa.array([{**none, "id": None}], kind))
    with pytest.raises(Unwritable, match="field 'kind' is '3', expected one of ONE, TWO"):
        writer.write(pa.array([{**none, "kind": "3"}], kind))
    with pytest.raises(ConfigError, match="field 'id' is required by the schema, but not in the column"):
        MessageWriter(of, pa.struct([("note", pa.string())]), {})


KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("price", pa.decimal128(38, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("lines", pa.list_(pa.field("element", pa.struct([("sku", pa.string()), ("n", pa.int32())])))),
        ("Lines", pa.map_(pa.string(), pa.struct([("x", pa.bool_())]))),
        ("costs", pa.list_(pa.field("element", pa.decimal128(4, 4)))),
    ]
)
ROW = {
    "id": 7,
    "small": -2,
    "price": Decimal("-12345678901234567890123456789012345.67"),
    "at": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    "day": date(1, 1, 1),
    "tags": ["a", ""],
    "lines": [{"sku": "s", "n": None}, {"sku": None, "n": 0}],
    "Lines": {"k": {"x": True}},
    "costs": [Decimal("0.0000"), Decimal("-0.0128"), Decimal("0.0127")],
}
NOTHING = {**dict.fromkeys(ROW), "tags": [], "lines": [], "Lines": {}, "costs": []}


def test_a_schema_is_made_of_a_column():
    text = schema_of(KIND, "orders_value")
    made = make_format("protobuf", text)
    assert [field.name for field in made.type] == [field.name for field in KIND]
    assert made.type.field("price").type == pa.decimal128(38, 2)
    of = parse("PROTOBUF", text)
    writer = MessageWriter(descriptor_of(of.file_set(), "orders_value"), KIND, decimals_of(of))
    values = [ROW, NOTHING]
    read = made.decode(
        writer.write(pa.array([{**each, "Lines": list(each["Lines"].items())} for each in values], KIND))
    )
    assert read.bad == {}
    assert read.array.to_pylist(maps_as_pydicts="strict") == values


@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, -128, -129, 255, 256, 10**38 - 1, -(10**38) + 1])
def test_decimals_are_as_javas_integers(number):
    of = descriptor_of(
        parse("PROTOBUF", schema_of(pa.struct([("a", pa.decimal128(38, 0))]), "M")).file_set(), "M"
    )
    data = MessageWriter(of, pa.struct([("a", pa.decimal128(38, 0))]), {}).write(
        pa.array([{"a": Decimal(number)}], pa.struct([("a", pa.decimal128(38, 0))]))
    )
    message = message_factory.GetMessageClass(of).FromString(data[0].as_py())
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1  # BigInteger.toByteArray
    assert message.a.value == number.to_bytes(size, "big", signed=True)


def test_dates_and_decimals_that_are_none_are_bad():
    text = schema_of(pa.struct([("a", pa.decimal128(3, 1)), ("d", pa.date32())]), "M")
    message = message_factory.GetMessageClass(descriptor_of(parse("PROTOBUF", text).file_set(), "M"))
    values = [
        message(a={"value": b"\x05", "scale": 0}, d={"year": 2024, "month": 2, "day": 29}),
        message(a={"value": b"\x05", "scale": 2}),
        message(a={"value": b"\x7f\xff", "scale": 1}),
        message(d={"year": 2024}),
        message(a={"value": b"\x05", "scale": -(2**31)}),
        message(a={"value": b"", "scale": 0}),
        message(a={"value": b"\x7f" * 100, "scale": 0}),
    ]
    read = make_format("protobuf", text).decode(pa.array([each.SerializeToString() for each in values]))
    assert read.array[0].as_py() == {"a": Decimal("5.0"), "d": date(2024, 2, 29)}
    assert read.bad == {
        1: "expected a decimal(3, 1), found 0.05",
        2: "expected a decimal(3, 1), found 3276.7",
        3: "expected a date, found year 2024, month 0, day 0",
        4: "expected a decimal(3, 1), found 1 bytes with a scale of -2147483648",
        5: "expected a decimal(3, 1), found 0 bytes with a scale of 0",
        6: "expected a decimal(3, 1), found 100 bytes with a scale of 0",
    }


def of_message(fields):
    return descriptor_of(parse("PROTOBUF", f'syntax = "proto3"; message M {{ {fields} }}').file_set(), "M")


@pytest.mark.parametrize(
    ("fields", "kind", "told"),
    [
        (
            "int32 a = 1;",
            pa.int64(),
            "field 'a' is of type int64, which the schema's int32 can't .*: expected int32",
        ),
        (
            "string a = 1;",
            pa.int32(),
            "field 'a' is of type int32, which the schema's string can't .*: expected string",
        ),
        (
            "uint64 a = 1;",
            pa.decimal128(9, 1),
            r"the schema's uint64 can't hold: expected decimal128\(20, 0\)",
        ),
        ("repeated int32 a = 1;", pa.int32(), "the schema's repeated int32 can't hold: expected an array"),
        ("map<string, int32> a = 1;", pa.int32(), "the schema's map can't hold: expected a map"),
        ("M a = 1;", pa.int32(), "the schema's M can't hold: expected a struct"),
        ("int32 b = 1;", pa.int32(), "field 'a' is in the column, but not in the schema"),
    ],
)
def test_columns_that_do_not_fit_are_told(fields, kind, told):
    with pytest.raises(ConfigError, match=told):
        MessageWriter(of_message(fields), pa.struct([("a", kind)]), {})


@pytest.mark.parametrize(
    ("fields", "kind", "value", "told"),
    [
        ("int32 a = 1;", pa.int32(), None, "field 'a' is null in a row, which the schema does not allow"),
        ("repeated int32 a = 1;", pa.list_(pa.int32()), None, "field 'a' is null in a row"),
        ("repeated int32 a = 1;", pa.list_(pa.int32()), [None], r"field 'a\[\]' is null in a row"),
        ("map<string, int32> a = 1;", pa.map_(pa.string(), pa.int32()), [("k", None)], "field 'a{}' is null"),
        ("uint32 a = 1;", pa.int64(), -1, "field 'a' is -1, expected 0 to 4294967295"),
        ("fixed32 a = 1;", pa.int64(), 2**32, "field 'a' is 4294967296, expected 0 to 4294967295"),
        (
            "uint64 a = 1;",
            pa.decimal128(21, 0),
            Decimal(2**64),
            "field 'a' is 18446744073709551616, expected",
        ),
        ("double a = 1;", pa.int64(), 2**53 + 1, "field 'a' has a number that double can't represent"),
        ("E a = 1; enum E { X = 0; }", pa.string(), "Y", "field 'a' is 'Y', expected one of X"),
        (
            "E a = 1; enum E { X = 0; }",
            pa.string(),
            "2147483648",
            "field 'a' is 2147483648, expected a number",
        ),
    ],
)
def test_rows_that_the_schema_does_not_hold_are_told(fields, kind, value, told):
    column = pa.array([{"a": value}], pa.struct([("a", kind)]))
    with pytest.raises(Unwritable, match=told):
        MessageWriter(of_message(fields), column.type, {}).write(column)


def test_of_a_oneof_one_may_be_set():
    column = pa.array(
        [{"a": 0, "b": None}, {"a": 1, "b": "x"}], pa.struct([("a", pa.int32()), ("b", pa.string())])
    )
    with pytest.raises(Unwritable, match="field 'a' and field 'b' both have a value in a row"):
        MessageWriter(of_message("oneof c { int32 a = 1; string b = 2; }"), column.type, {}).write(column)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (pa.int32(), "it is of type int32, expected a struct"),
        (pa.struct([("a-b", pa.int32())]), "field 'a-b' has a name that Protobuf doesn't allow"),
        (
            pa.struct([("a", pa.list_(pa.list_(pa.int32())))]),
            r"field 'a\[\]' is of type list<.*, which has no form",
        ),
        (pa.struct([("a", pa.timestamp("us"))]), r"field 'a' is of type timestamp\[us\], which has no form"),
        (
            pa.struct([("a", pa.map_(pa.float64(), pa.int32()))]),
            "expected map keys of bool, int32, int64, string",
        ),
        (
            pa.struct([("a", pa.map_(pa.string(), pa.decimal128(3, 1)))]),
            "field 'a' is of type map<.*, which has no form",
        ),
    ],
)
def test_columns_that_have_no_form_in_protobuf_are_told(kind, told):
    with pytest.raises(ConfigError, match=told):
        schema_of(kind, "M")


# --- with a registry, and Confluent's client ----------------------------------------------------------------


@pytest.fixture
def registry():
    with SmallRegistry().running() as running:
        yield running


def encoding(registry, **more):
    return Encoding(
        "value",
        "protobuf",
        registry=RegistryConfig.from_properties({"schema.registry.url": registry.url}),
        **more,
    )


def test_confluents_deserializer_reads_what_is_written(registry):
    files = parse("PROTOBUF", ALL).file_set()
    message = message_factory.GetMessageClass(descriptor_of(files, "shop.All"))
    kind = pa.struct(
        [
            ("text", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
            ("lines", pa.list_(pa.struct([("n", pa.int32())]))),
        ]
    )
    at = datetime(2024, 2, 29, 12, 0, 0, 5, UTC)
    column = pa.array([{"text": "ß", "at": at, "lines": [{"n": 3}]}, None], kind)
    data = ColumnEncoder(encoding(registry, schema=ALL)).encode("t", column).to_pylist()
    (number,) = registry.subjects["t-value"]
    assert data[0][:6] == struct.pack(">bIb", 0, number, 0)
    assert data[1] is None
    deserializer = ProtobufDeserializer(
        message, schema_registry_client=SchemaRegistryClient({"url": registry.url})
    )
    read = deserializer(data[0], SerializationContext("t", MessageField.VALUE))
    assert (read.text, read.at.ToDatetime(UTC), [line.n for line in read.lines]) == ("ß", at, [3])


@pytest.mark.parametrize("name", ["shop.All", "shop.All.Line", "shop.Other", "shop.Other.Inside"])
def test_the_prefix_is_what_confluents_serializer_writes(registry, name):
    """The prefix says which message of the file it is."""
    files = parse("PROTOBUF", ALL).file_set()
    message = message_factory.GetMessageClass(descriptor_of(files, name))
    number = registry.add("t-value", ALL, "PROTOBUF")
    serializer = ProtobufSerializer(message, SchemaRegistryClient({"url": registry.url}))
    theirs = serializer(message(), SerializationContext("theirs", MessageField.VALUE))
    field = next(each for each in message.DESCRIPTOR.fields if each.name in ("text", "n", "a", "b"))
    kind = pa.struct([(field.name, pa.string() if field.name == "text" else pa.int32())])
    column = pa.array([{field.name: "" if field.name == "text" else 0}], kind)
    ours = ColumnEncoder(encoding(registry, schema_id=number, message=name)).encode("t", column)
    assert ours.to_pylist() == [struct.pack(">bI", 0, number) + theirs[5:]]
    read = make_format(
        "protobuf",
        SchemaChoice(subject="t-value", message=name, registry={"schema.registry.url": registry.url}),
    )
    assert read.decode(ours).bad == {}


@pytest.mark.parametrize("choice", [{"uses_latest": True}, {"version": 2}, {"schema_id": 2}])
def test_a_schema_that_the_registry_has_is_used_as_it_is(registry, choice):
    registry.add("t-value", 'syntax = "proto3"; message M { int32 a = 1; }', "PROTOBUF")
    registry.add(
        "t-value", 'syntax = "proto3";\nmessage M {\n  int32 b = 1; // its own layout\n}', "PROTOBUF"
    )
    column = pa.array([{"b": 1}])
    with pytest.raises(ConfigError, match="the column 'value' for topic 't': field 'b' is of type int64"):
        ColumnEncoder(encoding(registry, **choice)).encode("t", column)
    data = ColumnEncoder(encoding(registry, **choice)).encode(
        "t", column.cast(pa.struct([("b", pa.int32())]))
    )
    assert data.to_pylist() == [b"\0\0\0\0\2\0\x08\x01"]
    assert not any(asked.startswith("POST") for asked in registry.requests)


def test_a_schema_of_another_type_or_message_is_told(registry):
    number = registry.add("t-value", '{"type": "record", "name": "R", "fields": []}')
    with pytest.raises(
        ConfigError, match=f"the id {number} has a schema of the type AVRO, expected PROTOBUF"
    ):
        ColumnEncoder(encoding(registry, schema_id=number)).encode("t", pa.array([{"a": 1}]))
    with pytest.raises(
        ConfigError, match=r"no message 'shop\.Nobody', expected one of shop\.All, shop\.All\.Line"
    ):
        ColumnEncoder(encoding(registry, schema=ALL, message="shop.Nobody")).encode("t", pa.array([{"a": 1}]))


def test_times_before_1970_keep_their_fraction():
    kind = pa.struct([("a", pa.timestamp("us", "UTC"))])
    text = schema_of(kind, "M")
    of = descriptor_of(parse("PROTOBUF", text).file_set(), "M")
    at = datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=1)
    data = MessageWriter(of, kind, {}).write(pa.array([{"a": at}], kind))
    found = message_factory.GetMessageClass(of).FromString(data[0].as_py()).a
    assert (found.seconds, found.nanos) == (-1, 999_999_000)
