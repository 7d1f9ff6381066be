"""Expressions compiled to functions of rows: their values in text cases, and pickling them."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from expression_cases import (
    ExpressionCase,
    catalog,
    columns,
    expression_cases,
    outcome,
    projected,
    row_of,
)

from penstock.sql import SqlError, parse
from penstock.sql.analysis import analyze
from penstock.sql.analysis.plan import Filter, Project
from penstock.sql.evaluation import NullValue, compile_condition, compile_row, compile_value
from penstock.sql.language import types

CASES = list(expression_cases())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_expression_gives_what_the_case_says(case: ExpressionCase) -> None:
    assert outcome(case) == case.expected


def _row_function(*texts: str):
    expressions = [projected(text).columns[0].expression for text in texts]
    return compile_row(expressions, columns(), catalog().functions)


def _condition(text: str):
    query = f"SELECT * FROM rows WHERE {text} EMIT CHANGES"
    plan = analyze(parse(query), catalog(), query).plan
    assert plan is not None
    assert isinstance(plan.root, Project)
    assert isinstance(plan.root.input, Filter)
    return compile_condition(plan.root.input.condition, columns(), catalog().functions)


def test_one_failing_expression_leaves_the_others() -> None:
    function = _row_function("i + 1", "i / 0", "s", "ni * 2", "ARRAY[1 / 0, i]")
    reports: list[tuple[str, type[Exception]]] = []
    function.report = lambda text, error: reports.append((text, type(error)))
    assert function(row_of()) == (8, None, "Text", None, [None, 7])
    assert reports == [("I / 0", ZeroDivisionError), ("NI * 2", NullValue), ("1 / 0", ZeroDivisionError)]


def test_no_expressions_give_an_empty_row() -> None:
    assert _row_function()(row_of()) == ()


@pytest.mark.parametrize(
    ("text", "holds", "reported"),
    [
        ("i = 7", True, False),
        ("i = 8", False, False),
        ("ni = 7", False, False),
        ("NOT ni = 7", True, False),
        ("flag", True, False),
        ("nflag", False, True),
        ("i / 0 = 1", False, True),
        ("i = 7 OR i / 0 = 1", True, False),
        ("s LIKE 'T%' AND i BETWEEN 1 AND 9", True, False),
    ],
)
def test_a_condition_is_true_or_false(text: str, holds: bool, reported: bool) -> None:
    condition = _condition(text)
    reports: list[str] = []
    condition.report = lambda part, error: reports.append(part)
    assert condition(row_of()) is holds
    assert bool(reports) is reported


def test_errors_that_nobody_asked_for_are_silent() -> None:
    assert _row_function("i / 0")(row_of()) == (None,)


def test_values_become_the_columns_they_are_written_to() -> None:
    wanted = [types.DOUBLE, types.Decimal(5, 2), types.BOOLEAN, types.TIMESTAMP, types.STRING, None]
    texts = ["i", "1", "'yes'", "'2020-01-01'", "5", "i"]
    expressions = [projected(text).columns[0].expression for text in texts]
    function = compile_row(expressions, columns(), catalog().functions, wanted=wanted)
    assert list(map(str, function(row_of()))) == ["7.0", "1.00", "True", "1577836800000", "5", "7"]


def test_what_has_no_type_is_refused() -> None:
    expression = projected("s").columns[0].expression
    with pytest.raises(SqlError, match="found no column S"):
        compile_value(expression, (), catalog().functions)


def test_functions_travel_as_what_they_are_made_of() -> None:
    for text in ("i + 1", "CASE WHEN s LIKE 'T%' THEN p * 2 END", "ARRAY[CAST(s AS INT), 1]"):
        function = _row_function(text)
        again = pickle.loads(pickle.dumps(function))
        assert again(row_of()) == function(row_of())
    condition = _condition("i = 7")
    assert pickle.loads(pickle.dumps(condition))(row_of()) is True


_OTHER = """
import pickle, sys
function, row = pickle.loads(sys.stdin.buffer.read())
sys.stdout.buffer.write(pickle.dumps(function(row)))
"""


def test_another_process_gives_the_same() -> None:
    texts = [
        "d / 3e0",
        "p * q",
        "CAST(d AS STRING)",
        "CAST(ts AS STRING)",
        "MAP(s := i, 'b' := 2)",
        "s || ns",
    ]
    function, row = _row_function(*texts), row_of(Q="1.5")
    source = str(Path(__file__).parents[3] / "src")
    done = subprocess.run(
        [sys.executable, "-c", _OTHER],
        input=pickle.dumps((function, row)),
        capture_output=True,
        check=True,
        env={"PYTHONPATH": source, "PYTHONHASHSEED": "7"},
    )
    assert pickle.loads(done.stdout) == function(row)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" + ".join(["i"] * 101), 707),
        (" OR ".join(["i = 8"] * 100 + ["flag"]), True),
        (" AND ".join(["flag", "i / 7 = 1"] * 50), True),
        (" || ".join(["s"] * 101), "Text" * 101),
        ("(" * 38 + "i" + ")" * 38, 7),
        ("CAST(" * 36 + "i" + " AS INT)" * 36, 7),
        ("CAST(" * 36 + "i / 7" + " AS STRING)" * 36, "1"),
        ("CASE WHEN flag THEN " * 36 + "i / 7" + " ELSE 0 END" * 36, 1),
        ("CASE " + "".join(f"WHEN i = {n + 8} THEN {n} " for n in range(300)) + "ELSE -1 END", -1),
        ("CASE " + "".join(f"WHEN i / {n + 8} = 1 THEN {n} " for n in range(300)) + "ELSE -1 END", -1),
        ("ARRAY[" * 36 + "i / 7" + "]" * 36 + "[1]" * 36, 1),
        (f"i IN ({', '.join(map(str, range(500)))})", True),
        ("NOT " * 36 + "flag", True),
    ],
    ids=range(13),
)
def test_the_deepest_and_longest_expressions_compile(text: str, value: object) -> None:
    assert _row_function(text)(row_of()) == (value,)
