"""Columns written as JSON documents and read by Python's parser, and the columns that are refused."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.arrow.column_encoder import ColumnEncoder
from penstock.arrow.encoding import Encoding, Unwritable
from penstock.client.settings import ConfigError


def written(column):
    found = ColumnEncoder(Encoding("value", "json")).encode("t", column)
    found.validate(full=True)
    assert found.type == pa.binary()
    return found.to_pylist()


KIND = pa.struct(
    [
        ("yes", pa.bool_()),
        ("i", pa.int64()),
        ("real", pa.float64()),
        ("s", pa.string()),
        ('a "quoted"\n name', pa.string()),
        ("list", pa.list_(pa.string())),
        ("structs", pa.list_(pa.struct([("x", pa.int32()), ("deep", pa.list_(pa.list_(pa.float64())))]))),
        ("m", pa.map_(pa.string(), pa.list_(pa.int16()))),
        ("numbered", pa.map_(pa.int32(), pa.string())),
        ("inner", pa.struct([("s", pa.string())])),
    ]
)
TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
REALS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.none() | st.fixed_dictionaries(
    {
        "yes": st.none() | st.booleans(),
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "real": REALS,
        "s": TEXTS,
        'a "quoted"\n name': TEXTS,
        "list": st.none() | st.lists(TEXTS, max_size=3),
        "structs": st.none()
        | st.lists(
            st.none()
            | st.fixed_dictionaries(
                {
                    "x": st.none() | st.integers(-9, 9),
                    "deep": st.none() | st.lists(st.none() | st.lists(REALS, max_size=2), max_size=2),
                }
            ),
            max_size=3,
        ),
        "m": st.none()
        | st.dictionaries(st.text('ab"\\é', max_size=2), st.none() | st.lists(st.integers(0, 9)), max_size=2),
        "numbered": st.none() | st.dictionaries(st.integers(-9, 9), TEXTS, max_size=2),
        "inner": st.none() | st.fixed_dictionaries({"s": TEXTS}),
    }
)


def as_read(row):
    """The row as JSON holds it: the keys of maps are texts."""
    numbered = row["numbered"]
    return {**row, "numbered": numbered and {str(key): each for key, each in numbered.items()}} | (
        {"numbered": {}} if numbered == {} else {}
    )


@settings(max_examples=150)
@given(st.lists(ROWS, max_size=6))
def test_random_columns_are_documents(rows):
    column = pa.array(
        [
            row
            and {**row, **{name: row[name] and list(row[name].items()) for name in ("m", "numbered")}}
            | {name: [] for name in ("m", "numbered") if row[name] == {}}
            for row in rows
        ],
        KIND,
    )
    padded = pa.concat_arrays([column, column]).slice(len(rows))  # a slice as well
    for each in (column, padded):
        found = [None if value is None else json.loads(value) for value in written(each)]
        assert found == [None if row is None else as_read(row) for row in rows]


def test_times_are_iso_8601_decimals_texts_and_bytes_base64():
    kind = pa.struct(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("day", pa.date32()),
            ("price", pa.decimal128(8, 2)),
            ("data", pa.binary()),
            ("short", pa.float32()),
        ]
    )
    row = {
        "at": datetime(2024, 1, 2, 3, 4, 5, 678, UTC),
        "local": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "day": date(2024, 2, 29),
        "price": Decimal("1.50"),
        "data": b"\x00\xff",
        "short": 0.1,
    }
    (found,) = map(json.loads, written(pa.array([row], kind)))
    assert found == {
        "at": "2024-01-02T03:04:05.000678Z",
        "local": "1969-12-31T23:59:59.999999",
        "day": "2024-02-29",
        "price": "1.50",
        "data": "AP8=",
        "short": 0.1,
    }


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_does_not_have_are_told(number):
    with pytest.raises(Unwritable, match=r"field 'a\[\]' is -?(nan|inf) in a row, which has no form in JSON"):
        written(pa.array([{"a": [1.0, None, number]}]))


def test_types_that_json_does_not_have_are_told():
    with pytest.raises(ConfigError, match=r"field 'a' is of type duration\[s\], which has no form in JSON"):
        written(pa.array([], pa.struct([("a", pa.duration("s"))])))
    with pytest.raises(ConfigError, match=r"field 'a' is of type map<double, .*: keys must be texts"):
        written(pa.array([], pa.struct([("a", pa.map_(pa.float64(), pa.int32()))])))


def by_schema(kind, **properties):
    schema = json.dumps({"type": "object", "properties": properties})
    rows = pa.nulls(0, pa.struct([("a", kind)]))
    return ColumnEncoder(Encoding("value", "json-schema", schema)).encode("t", rows)


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (pa.int32(), {"type": "integer"}),
        (pa.int64(), {"type": ["number", "null"]}),
        (pa.float32(), {"type": "number"}),
        (pa.bool_(), {"type": "boolean"}),
        (pa.decimal128(5, 2), {"type": "string"}),
        (pa.timestamp("us", "UTC"), {"type": "string"}),
        (pa.timestamp("us", "UTC"), {"type": "string", "format": "date-time"}),
        (pa.string(), {"type": "string", "format": "date"}),
        (
            pa.list_(pa.struct([("x", pa.int32())])),
            {"type": "array", "items": {"properties": {"x": {"type": "integer"}}}},
        ),
        (pa.map_(pa.string(), pa.int32()), {"type": "object", "additionalProperties": {"type": "integer"}}),
        (pa.struct([("x", pa.int32())]), {"type": "object", "additionalProperties": {"type": "integer"}}),
        (pa.list_(pa.int32()), {}),
        (pa.int32(), {"type": ["integer", "string"]}),
    ],
)
def test_columns_fit_schemas(kind, schema):
    by_schema(kind, a=schema)
    by_schema(kind, b={"type": "string"})  # fields that are not declared are allowed


@pytest.mark.parametrize(
    ("kind", "schema", "told"),
    [
        (pa.string(), {"type": "integer"}, "field 'a' is of type string, .* expected int64"),
        (pa.int32(), {"type": "string"}, "field 'a' is of type int32, .* expected string"),
        (pa.float64(), {"type": "integer"}, "field 'a' is of type double, .* expected int64"),
        (pa.int64(), {"type": "boolean"}, "expected bool"),
        (pa.bool_(), {"type": "number"}, "expected double"),
        (pa.date32(), {"type": "string", "format": "date-time"}, "expected timestamp"),
        (pa.string(), {"type": "array", "items": {"type": "string"}}, "expected list"),
        (
            pa.list_(pa.string()),
            {"type": "array", "items": {"type": "integer"}},
            r"field 'a\[\]' is of type string",
        ),
    ],
)
def test_columns_that_do_not_fit_a_schema_are_told(kind, schema, told):
    with pytest.raises(ConfigError, match=f"the column 'value' for topic 't': .*{told}"):
        by_schema(kind, a=schema)


def test_simple_columns_are_documents_as_well():
    assert written(pa.array(['a"', None])) == [b'"a\\""', None]
    assert written(pa.array([1, 2])) == [b"1", b"2"]
