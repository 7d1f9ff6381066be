"""Serdes: round trips, Kafka's bytes, and errors that name the expected type or size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.topology.errors import SerdeError
from penstock.topology.operators.tables import change_serde
from penstock.topology.serdes import (
    Serde,
    Window,
    Windowed,
    double,
    integer,
    json,
    long,
    raw,
    session_windowed,
    string,
    time_windowed,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.text(), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.floats(), JSON)
def test_round_trips(text: str, small: int, large: int, number: float, document: Any) -> None:
    assert string.deserialize(string.serialize(text)) == text
    assert integer.deserialize(integer.serialize(small)) == small
    assert long.deserialize(long.serialize(large)) == large
    assert repr(double.deserialize(double.serialize(number))) == repr(number)
    assert json.deserialize(json.serialize(document)) == document


@given(st.binary(), st.integers(0, 2**60), st.integers(0, 2**60))
def test_windowed_keys(key: bytes, start: int, length: int) -> None:
    window = Windowed(key, Window(start, start + length + 1))
    by_time, by_session = time_windowed(raw, length + 1), session_windowed(raw)
    assert by_time.deserialize(by_time.serialize(window)) == window
    assert by_session.deserialize(by_session.serialize(window)) == window


def test_the_bytes_are_kafkas() -> None:
    assert integer.serialize(1) == b"\x00\x00\x00\x01"
    assert long.serialize(-1) == b"\xff" * 8
    assert double.serialize(1) == bytes.fromhex("3ff0000000000000")
    assert json.serialize({"a": [1, "é", None]}) == '{"a":[1,"é",null]}'.encode()
    window = Windowed("k", Window(1, 2))
    assert time_windowed(string, 1).serialize(window) == b"k" + (1).to_bytes(8, "big")
    assert session_windowed(string).serialize(window) == b"k" + (2).to_bytes(8, "big") + (1).to_bytes(
        8, "big"
    )


@pytest.mark.parametrize(
    ("serde", "value", "message"),
    [
        (string, 1, "string takes str, not int 1"),
        (raw, "a", "raw takes bytes, not str 'a'"),
        (long, "1", "long takes int, not str '1'"),
        (long, True, "long takes int, not bool True"),
        (long, 2**63, "out of the range of the serde long, 8 bytes"),
        (integer, 2**31, "out of the range of the serde integer, 4 bytes"),
        (double, "x", "double takes float or int, not str 'x'"),
    ],
)
def test_values_that_do_not_fit(serde: Serde[Any], value: object, message: str) -> None:
    with pytest.raises(SerdeError, match=message):
        serde.serialize(value)


def test_json_has_no_nan() -> None:
    for value in (float("nan"), [1, {"a": float("inf")}]):
        with pytest.raises(ValueError, match="not JSON compliant"):
            json.serialize(value)
    assert json.serialize([None, "null"]) == b'[null,"null"]'
    with pytest.raises(ValueError, match="malformed"):
        json.deserialize(b"NaN")


def test_json_keeps_large_integers() -> None:
    assert json.deserialize(json.serialize(2**100)) == 2**100


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (long, b"1234567"),
        (integer, b""),
        (time_windowed(raw, 1), b"1234567"),
        (session_windowed(raw), b"1" * 15),
    ],
)
def test_bytes_that_are_too_short(serde: Serde[Any], data: bytes) -> None:
    with pytest.raises(SerdeError, match=f"found {len(data)}"):
        serde.deserialize(data)


@given(st.binary(), st.binary())
def test_changes(new: bytes, old: bytes) -> None:
    serde = change_serde(raw)
    for change in ((new, None, True), (None, old, True), (new, old, True)):
        assert serde.deserialize(serde.serialize(change)) == change


def test_a_change_has_kafka_streams_bytes() -> None:
    assert change_serde(raw).serialize((b"n", b"o", True)) == b"\x02no\x02"
    long_one = b"n" * 200
    assert change_serde(raw).deserialize(b"\x90\x03" + long_one + b"o\x02") == (long_one, b"o", True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "ends with 0, 1 or 2, found None"),
        (b"abc\x07", "ends with 0, 1 or 2, found 7"),
        (b"\x10ab\x02", "gives its new value a length of 8"),
        (b"\xff\xff\x02", "gives its new value"),
        (b"\x02", "ends with 0, 1 or 2"),
    ],
)
def test_changes_that_are_none(data: bytes, message: str) -> None:
    with pytest.raises(SerdeError, match=message):
        change_serde(raw).deserialize(data)
