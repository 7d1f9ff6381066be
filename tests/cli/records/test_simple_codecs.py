"""The codecs of keys and values without a registry."""

import struct
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.records.codec import InvalidValue
from penstock.cli.records.formats import Format, Side

ID = uuid.UUID("0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0")


def side(format: Format) -> Side:
    return Side("value", format, registry="")


@pytest.mark.parametrize(
    ("format", "data", "text", "json"),
    [
        (Format.BYTES, b"\xff", b"\xff", None),
        (Format.STRING, 'say "hé"'.encode(), 'say "hé"'.encode(), '"say \\"hé\\""'.encode()),
        (Format.JSON, b' {"a": 1.10,\n "b": [1e400]}', b'{"a":1.10,"b":[1e400]}', b'{"a":1.10,"b":[1e400]}'),
        (Format.SHORT, b"\xff\xfe", b"-2", b"-2"),
        (Format.INT, b"\0\0\1\0", b"256", b"256"),
        (Format.LONG, b"\x80" + b"\0" * 7, b"-9223372036854775808", b"-9223372036854775808"),
        (Format.FLOAT, struct.pack(">f", 0.1), b"0.1", b"0.1"),
        (Format.DOUBLE, struct.pack(">d", 0.1), b"0.1", b"0.1"),
        (Format.DOUBLE, struct.pack(">d", float("-inf")), b"-Infinity", b'"-Infinity"'),
        (Format.UUID, str(ID).upper().encode(), str(ID).encode(), f'"{ID}"'.encode()),
        (Format.UUID, ID.bytes, str(ID).encode(), f'"{ID}"'.encode()),
    ],
)
def test_bytes_become_text_and_json(format: Format, data: bytes, text: bytes, json: bytes | None) -> None:
    assert side(format).decoder()(data) == (text, json)


@pytest.mark.parametrize(
    ("format", "data", "said"),
    [
        (Format.STRING, b"ok\xff", "found 3 bytes 6f 6b ff (invalid start byte at byte 2), expected UTF-8"),
        (Format.JSON, b"{", "expected JSON"),
        (Format.JSON, b'"\xff"', "expected JSON"),
        (Format.JSON, b"NaN", "expected JSON"),
        (Format.JSON, b"[" * 100_000, "expected JSON"),
        (Format.LONG, b"12", "found '12', expected 8 bytes"),
        (Format.LONG, b"\0\1", "found 2 bytes 00 01, expected 8 bytes"),
        (Format.LONG, b"a" * 100, f"found '{'a' * 40}'…, expected 8 bytes"),
        (Format.UUID, b"abc", "found 'abc', expected a UUID"),
    ],
)
def test_bytes_of_another_format_are_refused(format: Format, data: bytes, said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        side(format).decoder()(data)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (Format.LONG, b"9223372036854775808"),
        (Format.SHORT, b"1.5"),
        (Format.INT, b""),
        (Format.DOUBLE, b"one"),
        (Format.FLOAT, b"1e300"),
        (Format.UUID, b"abc"),
        (Format.JSON, b"{"),
        (Format.STRING, b"\xff"),
    ],
)
def test_a_text_that_is_not_of_the_format_is_refused(format: Format, text: bytes) -> None:
    encoder = side(format).encoder("t")
    assert encoder is not None
    with pytest.raises(InvalidValue, match=r"found .*expected"):
        encoder.of_text(text)


@given(st.data())
def test_what_is_decoded_is_encoded_to_the_same_bytes(data: st.DataObject) -> None:
    format, sample = data.draw(
        st.sampled_from(
            [
                (Format.SHORT, st.binary(min_size=2, max_size=2)),
                (Format.INT, st.binary(min_size=4, max_size=4)),
                (Format.LONG, st.binary(min_size=8, max_size=8)),
                (Format.FLOAT, st.floats(width=32, allow_nan=False).map(lambda x: struct.pack(">f", x))),
                (Format.DOUBLE, st.floats(allow_nan=False).map(lambda x: struct.pack(">d", x))),
                (Format.STRING, st.text().map(str.encode)),
                (Format.UUID, st.uuids().map(lambda x: str(x).encode())),
            ]
        )
    )
    written = data.draw(sample)
    decoded = side(format).decoder()(written)
    encoder = side(format).encoder("t")
    assert encoder is not None
    assert encoder.of_text(decoded.text) == written


def test_json_values_keep_their_digits() -> None:
    encoder = side(Format.JSON).encoder("t")
    assert encoder is not None
    assert (
        encoder.of_json({"a": Decimal("1.10"), "b": 10**30})
        == b'{"a":1.10,"b":1000000000000000000000000000000}'
    )
