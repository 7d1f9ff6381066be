"""Table functions called alone, with the values of ksqlDB's unit tests."""

from typing import Any

import pytest

from penstock.sql.evaluation.builtin import TABLE_FUNCTIONS
from penstock.sql.language import types
from penstock.sql.language.types import Array


def cube(values: list[Any]) -> list[Any] | None:
    of = Array(types.INTEGER)
    return TABLE_FUNCTIONS["CUBE_EXPLODE"].bind([of], of)(values)


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ([1], [[None], [1]]),
        ([None], [[None]]),
        ([1, 2], [[None, None], [None, 2], [1, None], [1, 2]]),
        ([1, None], [[None, None], [1, None]]),
        ([None, None], [[None, None]]),
        ([], [[]]),
    ],
)
def test_a_cube_combines_each_element_with_null(values: list[Any], rows: list[Any]) -> None:
    assert cube(values) == rows


def test_a_cube_of_too_many_elements_is_refused() -> None:
    with pytest.raises(ValueError, match="found 21 elements, expected at most 20"):
        cube([1] * 21)
