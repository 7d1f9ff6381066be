"""The sketch of COUNT_DISTINCT: exact for small groups, near for large ones, never larger than its bound."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sql.evaluation.builtin.cardinality import EMPTY, HASHES_MAX, added, estimate, merged

SKETCH_BYTES_MAX = 16_384


def sketch_of(values):
    sketch = EMPTY
    for value in values:
        sketch = added(sketch, value)
    return sketch


@given(st.lists(st.one_of(st.integers(-9, 9), st.text(max_size=1), st.booleans(), st.floats(0, 1))))
def test_small_groups_are_counted_exactly(values):
    assert estimate(sketch_of(values)) == len({(type(value), value) for value in values})


def test_values_of_every_kind_are_told_apart():
    values = [b"x", "x", 1, 1.0, True, Decimal("1.5"), [1], ["1"], {"A": 1}, {"A": 2}, {"B": 1}]
    assert estimate(sketch_of(values)) == len(values)
    assert estimate(sketch_of([{"A": 1, "B": 2}, {"B": 2, "A": 1}])) == 1


@pytest.mark.parametrize("count", [HASHES_MAX + 1, 3_000, 50_000])
def test_large_groups_are_estimated_within_three_standard_errors(count):
    sketch = sketch_of(range(count))
    assert len(sketch) == SKETCH_BYTES_MAX
    assert abs(estimate(sketch) - count) < 3 * 0.0082 * count
    assert sketch_of([*range(count), *range(100)]) == sketch


@given(st.integers(0, 900), st.integers(0, 900), st.integers(0, 900))
def test_two_groups_merge_into_what_one_would_have_been(one, start, length):
    left, right = range(one), range(start, start + length)
    whole, parts = sketch_of([*left, *right]), merged(sketch_of(left), sketch_of(right))
    assert estimate(parts) == estimate(whole)
    assert len(parts) == len(whole)
