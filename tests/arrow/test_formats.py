"""Columns of bytes to columns of numbers and texts: every row equals Python's own conversion."""

import pickle
import struct
import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.arrow.formats import FORMATS, make_format
from penstock.client.settings import ConfigError

NUMBERS = {"short": ">h", "int": ">i", "long": ">q", "float": ">f", "double": ">d"}


def decode(name, values, schema=None):
    """(rows, bad rows); the array is valid, also when it is a slice of a longer one."""
    made = make_format(name, schema)
    decoded = made.decode(pa.array([b"before", *values], pa.binary()).slice(1))
    assert decoded.array.type == made.type
    decoded.array.validate(full=True)
    assert all(not decoded.array[row].is_valid for row in decoded.bad)
    return decoded.array.to_pylist(), decoded.bad


@pytest.mark.parametrize("name", NUMBERS)
@given(data=st.data())
def test_numbers_are_kafkas(name, data):
    size = struct.calcsize(NUMBERS[name])
    kinds = st.one_of(st.none(), st.binary(min_size=size, max_size=size), st.binary(max_size=size + 1))
    values = data.draw(st.lists(kinds, max_size=20))
    found, bad = decode(name, values)
    good = [value is not None and len(value) == size for value in values]
    expected = [
        struct.unpack(NUMBERS[name], v)[0] if ok else None for v, ok in zip(values, good, strict=True)
    ]
    assert list(map(repr, found)) == list(map(repr, expected))  # repr makes NaN equal NaN
    assert sorted(bad) == [row for row, v in enumerate(values) if v is not None and not good[row]]


@given(st.lists(st.none() | st.binary(max_size=12) | st.text(max_size=6).map(str.encode), max_size=20))
def test_strings_are_utf8(values):
    found, bad = decode("string", values)
    for row, value in enumerate(values):
        try:
            expected = None if value is None else value.decode()
        except UnicodeDecodeError:
            expected = None
            assert row in bad
        else:
            assert row not in bad
        assert found[row] == expected


hex_like = st.text("0123456789abcdefABCDEF-g", min_size=36, max_size=36).map(str.encode)
uuids = st.uuids().flatmap(
    lambda u: st.sampled_from([u.bytes, str(u).encode(), str(u).upper().encode(), u.hex.encode()])
)


@given(st.lists(st.none() | uuids | hex_like | st.binary(max_size=40), max_size=12))
def test_uuids_are_texts_or_sixteen_bytes(values):
    found, bad = decode("uuid", values)
    for row, value in enumerate(values):
        expected = None
        if value is not None and len(value) == 16:
            expected = str(uuid.UUID(bytes=value))
        elif value is not None and len(value) == 36:
            try:
                text = value.decode().lower()
                expected = text if str(uuid.UUID(text)) == text else None
            except ValueError:
                expected = None
        assert found[row] == expected
        assert (row in bad) == (value is not None and expected is None)


def test_a_long_value_is_shown_in_part():
    _, bad = decode("int", [b"x" * 1000])
    assert bad == {0: f"expected 4 bytes, found 1000 bytes {b'x' * 32!r}…"}


@pytest.mark.parametrize("name", FORMATS)
def test_no_rows_and_nothing_but_nulls(name):
    schema = "n INT" if name == "csv" else None
    assert decode(name, [], schema) == ([], {})
    assert decode(name, [None, None], schema) == ([None, None], {})
    made = make_format(name, schema)
    assert pickle.loads(pickle.dumps(made)) == made


def test_what_is_no_format_is_told():
    with pytest.raises(ConfigError, match="unknown format 'xml': expected one of binary, bytes, string"):
        make_format("xml")
    with pytest.raises(ConfigError, match="'string' takes no schema"):
        make_format("string", "id INT")
    with pytest.raises(ConfigError, match="invalid schema 'id': expected a type"):
        make_format("json", "id")
