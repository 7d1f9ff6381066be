"""The format strings of `penstock consume -f`."""

import pytest

from penstock.cli.records.codec import Decoded
from penstock.cli.records.layout import InvalidLayout, Layout
from penstock.cli.records.record import Record

RECORD = Record(
    topic="orders",
    partition=3,
    offset=42,
    timestamp_ms=1_700_000_000_123,
    key=Decoded(b"7", b"7"),
    value=Decoded("tee ☕".encode(), None),
    key_bytes=8,
    value_bytes=7,
    headers=[("a", b"1"), ("b", None), ("a", b"\xff")],
)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%t[%p]@%o", b"orders[3]@42"),
        (r"%k=%s\n", "7=tee ☕\n".encode()),
        (r"%v %V", "tee ☕ 7".encode()),
        (r"%K %S", b"8 7"),
        (r"%R%v", b"\0\0\0\x07" + "tee ☕".encode()),
        (r"%T", b"1700000000123"),
        (r"%h", b"a=1,b=NULL,a=\xff"),
        (r"100%%", b"100%"),
        (r"\t\r\n\0\\\x41\x0a", b"\t\r\n\0\\A\n"),
        ("☕ two\nlines", "☕ two\nlines".encode()),
        ("", b""),
    ],
)
def test_letters_and_escapes(text: str, printed: bytes) -> None:
    assert Layout(text).format(RECORD) == printed


def test_a_null_prints_nothing_and_has_the_length_minus_one() -> None:
    null = Record("t", 0, 0, -1, None, None, -1, -1, [])
    assert Layout(r"<%k><%s><%h> %K %V").format(null) == b"<><><> -1 -1"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("%t %q", "found '%q' at character 4, expected % and one of"),
        ("%", "found '%' at character 1"),
        (r"a\q", r"found '\\q' at character 2, expected \ and one of"),
        (r"\x4", r"found '\\x' at character 1"),
    ],
)
def test_a_wrong_text_is_refused_with_its_place(text: str, found: str) -> None:
    with pytest.raises(InvalidLayout) as refused:
        Layout(text)
    assert found in str(refused.value)
