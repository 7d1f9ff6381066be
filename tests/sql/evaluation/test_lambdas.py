"""Lambdas passed to calls as Python functions, with the other arguments in the types that the call takes."""

from typing import Any

import pytest
from expression_cases import ExpressionCase, outcome

from penstock.sql.evaluation import calls
from penstock.sql.evaluation.builtin import Scalar


def _reduced(values: list[Any], state: Any, combine: Any) -> Any:
    for value in values:
        state = combine(state, value)
    return state


# The functions are as simple as possible, because the tests check their arguments.
_FUNCTIONS = {
    "TRANSFORM": lambda values, make: [make(value) for value in values],
    "FILTER": lambda entries, holds: {key: each for key, each in entries.items() if holds(key, each)},
    "REDUCE": _reduced,
    "COALESCE": lambda *values: next((value for value in values if value is not None), None),
    "SQRT": lambda value: value**0.5,
    "DATEADD": lambda unit, count, day: day + count * {"DAYS": 1}[unit],
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("TRANSFORM(ints, x => x + 1)", "[4, 2, 3] ARRAY<INTEGER>"),
        ("TRANSFORM(ints, x => x * b)", "[15000000000, 5000000000, 10000000000] ARRAY<BIGINT>"),
        ("FILTER(props, (k, v) => v IS NOT NULL AND k = 'one')", "{'one': 1} MAP<STRING, INTEGER>"),
        ("REDUCE(ints, 2.5, (total, x) => total + x)", "8.5 DECIMAL(12, 1)"),
        ("REDUCE(ints, s, (text, x) => text || CAST(x AS STRING))", "'Text312' STRING"),
        (
            "TRANSFORM(ARRAY[ints, ARRAY[5]], x => REDUCE(x, 0, (total, y) => total + y))",
            "[6, 5] ARRAY<INTEGER>",
        ),
        (
            "TRANSFORM(ints, x => TRANSFORM(ARRAY[10], y => x * y + i))",
            "[[37], [17], [27]] ARRAY<ARRAY<INTEGER>>",
        ),
        ("TRANSFORM(ints, x => CASE WHEN x = 1 THEN 0 ELSE 6 / (x - 1) END)", "[3, 0, 6] ARRAY<INTEGER>"),
        (
            "TRANSFORM(ints, x => 1 / (x - 1))",
            "null ARRAY<INTEGER> ! TRANSFORM(INTS, X => 1 / (X - 1)): found a division by zero",
        ),
        (
            "TRANSFORM(ARRAY['1', 'x'], x => CAST(x AS INT))",
            "[1, null] ARRAY<INTEGER> ! CAST(X AS INTEGER): found 'x', expected an integer that fits INTEGER",
        ),
        ("SQRT(CAST(16 AS INT))", "4.0 DOUBLE"),
        ("DATEADD(DAYS, 1, '2020-01-31')", "18293 DATE"),
        ("COALESCE(np, 1.5)", "1.50 DECIMAL(6, 2)"),
        (
            "COALESCE(SQRT(nd + 1e0), 5e0)",
            "5.0 DOUBLE ! SQRT(ND + 1E0): found NULL beside an operator, expected a value",
        ),
        ("COALESCE(nhome->zip, 5)", "5 INTEGER"),
        (
            "COALESCE(ni + 1, 5)",
            "null INTEGER ! COALESCE(NI + 1, 5): found NULL beside an operator, expected a value",
        ),
    ],
)
def test_calls_are_given_what_they_want(
    expression: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {name: Scalar(lambda types, result, made=made: made) for name, made in _FUNCTIONS.items()}
    monkeypatch.setattr(calls, "SCALARS", made)
    assert outcome(ExpressionCase("", (), expression, expected)) == expected
