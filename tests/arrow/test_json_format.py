"""JSON columns: each row equals the result of Python's parser, even next to damaged rows."""

import datetime
import json
import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.arrow.formats import make_format
from penstock.client.settings import ConfigError

SCHEMA = "id BIGINT, name STRING, ok BOOLEAN, part STRUCT<x: INT>, many ARRAY<DOUBLE>"


def decode(values, schema=None):
    decoded = make_format("json", schema).decode(pa.array(values, pa.binary()))
    decoded.array.validate(full=True)
    return decoded.array.to_pylist(), decoded.bad


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
documents = st.builds(
    lambda value, indent, ascii: json.dumps(value, indent=indent, ensure_ascii=ascii).encode(),
    json_values,
    st.sampled_from([None, 1]),
    st.booleans(),
)
# Texts that could make a parser of many documents miscount: halves, doubles, wrappers, ends.
fragments = st.lists(
    st.sampled_from(
        [
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b'"',
            b":",
            b"\n",
            b"1",
            b'{"v":',
            b'"w":',
            b"true",
            b" ",
            b"\\",
            b"x",
            b"{}",
            b"Inf",
            b"inity",
            b"-",
            b"NaN",
            b"1e999",
            b'"\\udc00"',
        ]
    ),
    max_size=6,
).map(b"".join)


def finite(number):
    if math.isinf(float(number)):
        raise ValueError("greater than any double")
    return float(number)


def is_json(document):
    """Whether Python parses it (with NaN and Infinity), its numbers are doubles and its text is UTF-8."""
    try:
        value = json.loads(document.decode(), parse_float=finite)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is not valid text
    except ValueError:
        return False
    return True


@settings(max_examples=200)
@given(st.lists(st.none() | documents | fragments | st.binary(max_size=5), max_size=8))
def test_without_a_schema_documents_stay_text(values):
    found, bad = decode(values)
    for row, value in enumerate(values):
        if value is not None and is_json(value):
            assert found[row] == value.decode()
            assert row not in bad
        else:
            assert found[row] is None
            assert (row in bad) == (value is not None)


well_typed = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(max_size=4),
        "ok": st.booleans(),
        "part": st.none() | st.fixed_dictionaries({}, optional={"x": st.integers(0, 9), "y": json_values}),
        "many": st.lists(st.none() | st.floats(-1e9, 1e9), max_size=3),
        "else": json_values,
    },
)


def as_read(document):
    part = document.get("part")
    return {
        "id": document.get("id"),
        "name": document.get("name"),
        "ok": document.get("ok"),
        "part": None if part is None else {"x": part.get("x")},
        "many": document.get("many"),
    }


@settings(max_examples=200)
@given(st.lists(st.none() | well_typed | fragments, max_size=8))
def test_with_a_schema_each_row_is_read_by_itself(rows):
    values = [json.dumps(row).encode() if isinstance(row, dict) else row for row in rows]
    found, bad = decode(values, SCHEMA)
    for index, row in enumerate(rows):
        if isinstance(row, dict):
            assert found[index] == as_read(row)
        elif row is not None and index not in bad:
            assert found[index] == as_read(json.loads(row))
        else:
            assert found[index] is None


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b'{"id": "1"}', "id is a text, expected a number"),
        (b'{"id": 1.5}', "id is 1.5, expected a whole number"),
        (b'{"id": 9223372036854775808}', "too large"),
        (b'{"part": {"x": 3000000000}}', "too large"),
        (b'{"part": {"x": true}}', "part.x is a boolean, expected a number"),
        (b'{"id": 1, "id": 2}', "it has the name 'id' twice"),
        (b"[1]", "it is an array, expected an object"),
        (b"null", "it is null"),
        (b"", "Expecting value"),
        (b'{"name": "\xff"}', "can't decode byte 0xff"),
        (b'{"name": "\\ud800"}', "surrogates not allowed"),
        (b'{"id": 1},"w":{}', "expected JSON of the schema, found 16 bytes '{"),
        (b'{"id": 1}],"w":[{}', "expected JSON of the schema"),
        (b'{"id": 1}{"id": 2}', "Extra data"),
        (b'{"id": 1}}\n{"v":{"id": 2}', "Extra data"),
        (b'{"many": [Inf]}', "Expecting value"),
        (b'{"else": -Inf}', "Expecting value"),
        (b'{"many": [-NaN]}', "Expecting value"),
        (b'{"name": "Inf,", "many": [-Infinity, Inf ]}', "Expecting value"),
        (b'{"many": [1e999]}', "many[] is 1e999, which is greater than any double"),
    ],
)
def test_a_bad_row_is_told_and_harms_no_other(document, why):
    found, bad = decode([b'{"id": 1}', document, b'{"id": 3}'], SCHEMA)
    assert [row and row["id"] for row in found] == [1, None, 3]
    assert list(bad) == [1]
    assert why in bad[1]


def test_numbers_that_are_none_are_told_from_texts_that_say_so():
    documents = [
        b'{"name": "Inf, or \\"Inf", "many": [Infinity, -Infinity]}',
        b'{"name": "-NaN", "many": [NaN]}',
        b'{"Inf": {"Inf ": "\\\\"}, "name": "Information"}',
    ]
    found, bad = decode(documents, SCHEMA)
    assert bad == {}
    assert [row["name"] for row in found] == ['Inf, or "Inf', "-NaN", "Information"]
    assert found[0]["many"] == [math.inf, -math.inf]
    assert decode(documents) == ([document.decode() for document in documents], {})


def test_dates_and_times():
    schema = "d DATE, at TIMESTAMP, here TIMESTAMP_NTZ, price DECIMAL(9,2), l ARRAY<DATE>"
    found, bad = decode(
        [
            b'{"d": "2024-02-29", "at": "2024-01-01T02:00:00+02:00", "price": 1.25, "l": ["2024-01-02"]}',
            b'{"d": "2023-02-29"}',
            b'{"here": "2024-01-01T02:00:00.5"}',
        ],
        schema,
    )
    assert found[0]["d"] == datetime.date(2024, 2, 29)
    assert found[0]["at"] == datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert str(found[0]["price"]) == "1.25"
    assert found[0]["l"] == [datetime.date(2024, 1, 2)]
    assert found[2]["here"] == datetime.datetime(2024, 1, 1, 2, 0, 0, 500_000)
    assert list(bad) == [1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2024-01-01T12:00:00.123456789Z", (2024, 1, 1, 12, 0, 0, 123456)),
        ("2024-01-01T12:00:00.1234567+02:00", (2024, 1, 1, 10, 0, 0, 123456)),
        ("2024-01-01T12:00:00.1234567", (2024, 1, 1, 12, 0, 0, 123456)),
        ("2024-01-01 12:00:00", (2024, 1, 1, 12)),
        ("2024-01-01", (2024, 1, 1)),
    ],
)
def test_a_time_is_read_to_the_microsecond_whatever_is_beside_it(text, found):
    documents = [json.dumps({"at": each, "here": each}).encode() for each in (text, "2024-01-01T00:00:00Z")]
    rows, bad = decode([*documents, b'{"at": "soon"}'], "at TIMESTAMP, here TIMESTAMP_NTZ")
    assert rows[0] == {
        "at": datetime.datetime(*found, tzinfo=datetime.UTC),
        "here": datetime.datetime(*found),
    }
    assert list(bad) == [2]


def test_many_rows_with_a_few_bad_ones():
    values = [b'{"id": %d, "part": {"x": 1}, "ok": true}' % n for n in range(5000)]
    for row in (0, 17, 4999):
        values[row] = b'{"id": "bad"}'
    values[100] = b"{"
    found, bad = decode(values, SCHEMA)
    assert sorted(bad) == [0, 17, 100, 4999]
    assert [row["id"] for row in found if row] == [n for n in range(5000) if n not in bad]


def test_deep_nesting_is_read_or_told_never_a_crash():
    deep = b'{"else": ' + b"[" * 100_000 + b"]" * 100_000 + b', "id": 1}'
    found, bad = decode([deep, b'{"id": 2}'], SCHEMA)
    assert ([row["id"] for row in found], bad) == ([1, 2], {})
    found, bad = decode([deep, b'{"id": 2}', b"{"], SCHEMA)  # a bad row next to it changes nothing
    assert ([row and row["id"] for row in found], list(bad)) == ([1, 2, None], [2])
    assert decode([deep, b"{"])[0] == [deep.decode(), None]


def test_decimals_are_exact_as_numbers_and_as_texts():
    documents = [b'{"d": 12345678901234567.89}', b'{"d": "1.5"}', b'{"d": 1e2}', b'{"d": 1.500}', b'{"d": 7}']
    schema = "d DECIMAL(19,2)"
    expected = ["12345678901234567.89", "1.50", "100.00", "1.50", "7.00"]
    for more in ([], [b"{"]):  # all at once, and one by one
        assert [str(row["d"]) for row in decode(documents + more, schema)[0] if row] == expected
    bad = [b'{"d": 1.555}', b'{"d": 1e999999999}', b'{"d": "1_0"}', b'{"d": true}', b'{"d": 1e18}']
    assert decode(bad, schema)[0] == [None] * len(bad)


def test_types_that_json_does_not_have_are_refused():
    for field in ("m MAP<STRING, INT>", "b BINARY", "l ARRAY<BINARY>", "s STRUCT<m: MAP<STRING, INT>>"):
        with pytest.raises(ConfigError, match="which can't be read from JSON"):
            make_format("json", field)
    with pytest.raises(ConfigError, match="at least one field"):
        make_format("json", pa.struct([]))
    assert make_format("json", pa.schema([("id", pa.int16())])).type == pa.struct([("id", pa.int16())])
