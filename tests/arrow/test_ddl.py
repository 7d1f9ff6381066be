"""Schemas as text, compared with Spark's reading of the same text."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.arrow.ddl import parse_ddl

SIMPLE = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "bigint": pa.int64(),
    "FLOAT": pa.float32(),
    "double": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "DECIMAL": pa.decimal128(10, 0),
    "DECIMAL(38, 9)": pa.decimal128(38, 9),
}


def nested(inner):
    return st.one_of(
        inner.map(lambda t: (f"ARRAY<{t[0]}>", pa.list_(pa.field("element", t[1])))),
        inner.map(lambda t: (f"MAP<STRING,{t[0]}>", pa.map_(pa.string(), t[1]))),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: (
                "STRUCT<" + ", ".join(f"f{i}: {text}" for i, (text, _) in enumerate(ts)) + ">",
                pa.struct([pa.field(f"f{i}", kind) for i, (_, kind) in enumerate(ts)]),
            )
        ),
    )


types = st.recursive(st.sampled_from(sorted(SIMPLE.items(), key=lambda item: item[0])), nested, max_leaves=6)


@given(st.lists(types, min_size=1, max_size=4))
def test_types_nest(fields):
    text = ", ".join(f"c{i} {kind}" for i, (kind, _) in enumerate(fields))
    assert parse_ddl(text) == pa.struct([pa.field(f"c{i}", kind) for i, (_, kind) in enumerate(fields)])
    assert parse_ddl(f"struct<{text}>") == parse_ddl(text)


def test_names_of_any_kind():
    assert [field.name for field in parse_ddl("`a b` INT, `x``y`: STRING, date DATE, größe INT")] == [
        "a b",
        "x`y",
        "date",
        "größe",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a field name, not the end, after ''"),
        ("id", "a type, not the end, after 'id'"),
        ("id NUMBER", "a type, not 'NUMBER', after 'id'"),
        ("id INT name STRING", "a comma or the end, not 'name', after 'id INT'"),
        ("id INT,", "a field name, not the end"),
        ("a ARRAY<INT", "'>', not the end"),
        ("a ARRAY INT", "'<', not 'INT'"),
        ("d DECIMAL(39, 2)", r"precision up to 38, scale\); found \(39, 2\)"),
        ("d DECIMAL(4, 5)", "precision up to 38"),
        ("d DECIMAL(x)", "a whole number, not 'x'"),
        ("a INT, a INT", "found 'a' twice"),
        ("a INT; b INT", "found '; b INT'"),
    ],
)
def test_what_is_no_schema_is_told(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse_ddl(text)
