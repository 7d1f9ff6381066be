import pytest

from penstock.coordinators.java_strings import java_hash_code, partition_for, utf16_length


@pytest.mark.parametrize(
    ("text", "hash_code"),
    [
        ("", 0),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),  # the classic: Integer.MIN_VALUE
        ("console-consumer-12345", 158455506),
        ("grüppe", -1233264812),
        ("😀é", 54960102),  # a surrogate pair counts as two units
    ],
)
def test_hash_code_is_javas(text: str, hash_code: int) -> None:
    assert java_hash_code(text) == hash_code


def test_partition_of_the_one_hash_without_a_positive_twin() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("hello", 50) == 22


def test_utf16_length_counts_surrogates() -> None:
    assert utf16_length("abc") == 3
    assert utf16_length("é") == 1
    assert utf16_length("😀") == 2
