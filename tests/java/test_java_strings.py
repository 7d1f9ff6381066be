import pytest

from penstock.java.strings import hash_code, utf16, utf16_length


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),  # the classic: Integer.MIN_VALUE
        ("console-consumer-12345", 158455506),
        ("grüppe", -1233264812),
        ("😀é", 54960102),  # a surrogate pair counts as two units
    ],
)
def test_hash_code_is_javas(text: str, expected: int) -> None:
    assert hash_code(text) == expected


def test_utf16_length_counts_surrogates() -> None:
    assert utf16_length("abc") == 3
    assert utf16_length("é") == 1
    assert utf16_length("😀") == 2


def test_order_is_that_of_utf16_units() -> None:
    assert sorted(["\uffff", "😀", "a"], key=utf16) == ["a", "😀", "\uffff"]
