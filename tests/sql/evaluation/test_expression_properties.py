"""Random expressions compared with other implementations: C for integers, DuckDB for decimals and choices."""

import ctypes
import math
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import duckdb
from expression_cases import catalog, columns, projected, row_of

from penstock.java.numbers import double_text
from penstock.sql.evaluation import compile_row, compile_value
from penstock.sql.evaluation.texts import parse_double
from penstock.sql.language.times import format_date, format_timestamp, parse_date, parse_timestamp


@contextmanager
def _seeded() -> Iterator[random.Random]:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    yield random.Random(seed)


def _value(text: str, **given: Any) -> Any:
    expression = projected(text).columns[0].expression
    return compile_value(expression, columns(), catalog().functions)(row_of(**given))


def _edgy(choose: random.Random, bits: int) -> int:
    """An integer of this many bits, often near an end of the range or zero."""
    end = 2 ** (bits - 1)
    near = choose.choice([-end, end - 1, 0, choose.randrange(-end, end)])
    return max(-end, min(end - 1, near + choose.randrange(-3, 4)))


def _cut(one: int, other: int) -> int:
    return math.trunc(Fraction(one, other))


_INTEGER_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": _cut,
    "%": lambda one, other: one - other * _cut(one, other),
}


def test_integers_are_those_of_c() -> None:
    kinds = (("I", "J", 32, ctypes.c_int32), ("B", "C", 64, ctypes.c_int64), ("I", "C", 64, ctypes.c_int64))
    with _seeded() as choose:
        functions = {
            (left, right): compile_row(
                [
                    projected(f"{left} {operator} {right}").columns[0].expression
                    for operator in _INTEGER_OPERATIONS
                ],
                columns(),
                catalog().functions,
            )
            for left, right, _, _ in kinds
        }
        for _ in range(600):
            left, right, bits, width = choose.choice(kinds)
            one = _edgy(choose, 32 if left == "I" else bits)
            other = _edgy(choose, bits)
            if other == 0:
                continue
            expected = tuple(width(each(one, other)).value for each in _INTEGER_OPERATIONS.values())
            assert functions[left, right](row_of(**{left: one, right: other})) == expected, (one, other)


class _Random:
    """A generator of expressions over columns of three types.

    The columns are p, q (decimals), i and j (integers below a million) and s, r (texts). None is null: in
    DuckDB a comparison with NULL is NULL, in ksqlDB it is false.
    """

    def __init__(self, choose: random.Random) -> None:
        self._choose = choose

    def number(self, depth: int) -> str:
        if depth == 0:
            literal = f"{self._choose.randrange(100)}.{self._choose.randrange(10)}"
            return self._choose.choice(["p", "q", "i", "j", literal, str(self._choose.randrange(50))])
        kind = self._choose.randrange(6)
        if kind == 0:
            return f"CAST({self.number(depth - 1)} AS DECIMAL(20, {self._choose.randrange(4)}))"
        if kind == 1:
            one, other = self.number(depth - 1), self.number(depth - 1)
            return f"CASE WHEN {self.condition(depth - 1)} THEN {one} ELSE {other} END"
        if kind == 2:
            return f"-({self.number(depth - 1)})"
        operator = self._choose.choice("+-*" if depth < 3 else "+-")
        return f"({self.number(depth - 1)} {operator} {self.number(depth - 1)})"

    def condition(self, depth: int) -> str:
        kind = self._choose.randrange(6 if depth else 4)
        numbers = [self.number(max(0, depth - 1)) for _ in range(3)]
        if kind == 0:
            return f"{numbers[0]} {self._choose.choice(['=', '<>', '<', '<=', '>', '>='])} {numbers[1]}"
        if kind == 1:
            return f"({numbers[0]} {self._choose.choice(['', 'NOT '])}BETWEEN {numbers[1]} AND {numbers[2]})"
        if kind == 2:
            pattern = "".join(self._choose.choice("ab%_") for _ in range(self._choose.randrange(1, 4)))
            return self._choose.choice(
                [f"s LIKE '{pattern}'", "s < r", "s = r", "s IN (r, 'ab')", "s >= 'ab'"]
            )
        if kind == 3:
            return f"({numbers[0]} IS {self._choose.choice(['', 'NOT '])}DISTINCT FROM {numbers[1]})"
        if kind == 4:
            return f"(NOT ({self.condition(depth - 1)}))"
        return (
            f"({self.condition(depth - 1)} {self._choose.choice(['AND', 'OR'])} {self.condition(depth - 1)})"
        )


def test_decimals_and_choices_are_those_of_duckdb() -> None:
    typed = "i::INTEGER i, j::INTEGER j, p::DECIMAL(6, 2) p, q::DECIMAL(4, 1) q, s::TEXT s, r::TEXT r"
    compared = 0
    with _seeded() as choose, duckdb.connect() as database:
        make = _Random(choose)
        for _ in range(250):
            given = {
                "I": choose.randrange(-1000, 1000),
                "J": choose.randrange(-1000, 1000),
                "P": str(Decimal(choose.randrange(-99999, 99999)).scaleb(-2)),
                "Q": str(Decimal(choose.randrange(-999, 999)).scaleb(-1)),
                "S": "".join(choose.choice("ab") for _ in range(choose.randrange(4))),
                "R": "".join(choose.choice("ab") for _ in range(choose.randrange(4))),
            }
            text = make.number(2) if choose.random() < 0.5 else make.condition(2)
            query = f"SELECT {text} FROM (SELECT {typed} FROM (SELECT ? i, ? j, ? p, ? q, ? s, ? r))"
            try:
                (expected,) = database.execute(query, list(given.values())).fetchone() or ()
            except (duckdb.OutOfRangeException, duckdb.ConversionException):
                continue  # more digits than DuckDB has
            found = _value(text, **given)
            assert found == expected, (text, given)
            compared += 1
    assert compared > 150


def test_decimals_of_38_digits_are_exact() -> None:
    exact = Context(prec=100)
    with _seeded() as choose:
        for _ in range(100):
            wide = Decimal(choose.randrange(-(10**37), 10**37))
            fine = Decimal(choose.randrange(-(10**36), 10**36)).scaleb(-10, exact)
            assert _value("wide - 1", WIDE=str(wide)) == exact.subtract(wide, Decimal(1))
            assert _value("fine + 1.5", FINE=str(fine)) == exact.add(fine, Decimal("1.5"))
            assert _value("fine < wide", WIDE=str(wide), FINE=str(fine)) is (fine < wide)


def test_texts_of_doubles_and_times_are_read_as_they_were() -> None:
    with _seeded() as choose:
        for _ in range(2000):
            number = math.ldexp(choose.uniform(-1, 1), choose.randrange(-300, 300))
            text = double_text(number)
            assert parse_double(text) == number
            assert ("E" in text) is not (number == 0 or 1e-3 <= abs(number) < 1e7), text
            days = choose.randrange(-1_000_000, 4_000_000)
            assert parse_date(format_date(days)) == days
            timestamp_ms = choose.randrange(-60_000_000_000_000, 250_000_000_000_000)
            assert parse_timestamp(format_timestamp(timestamp_ms)) == timestamp_ms
