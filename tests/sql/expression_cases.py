"""Cases of expressions in text files.

A case is `== name`, perhaps `with COLUMN = VALUE; …` to replace the row below, then lines
`expression → value TYPE`, and after ` !` the reported errors, each with the part that failed.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context
from decimal import Decimal as Number
from functools import cache
from typing import Any

from sql_cases import CASES

from penstock.sql import parse
from penstock.sql.analysis import analyze
from penstock.sql.analysis.plan import Project
from penstock.sql.catalog import Catalog, Column, DataSource
from penstock.sql.evaluation import compile_value
from penstock.sql.language import types
from penstock.sql.language.types import Array, Decimal, Map, SqlType, Struct

SETTING = """
CREATE STREAM rows (
  i INT, b BIGINT, d DOUBLE, p DECIMAL(6, 2), s STRING, y BYTES, t TIME, day DATE, ts TIMESTAMP, flag BOOLEAN,
  tags ARRAY<STRING>, ints ARRAY<INT>, props MAP<STRING, INT>, home STRUCT<street STRING, zip INT>,
  ni INT, nb BIGINT, nd DOUBLE, np DECIMAL(6, 2), ns STRING, nt TIME, nday DATE, nts TIMESTAMP, nflag BOOLEAN,
  ntags ARRAY<STRING>, nprops MAP<STRING, INT>, nhome STRUCT<street STRING, zip INT>,
  wide DECIMAL(38, 0), fine DECIMAL(38, 10), j INT, c BIGINT, e DOUBLE, q DECIMAL(4, 1), r STRING, f BOOLEAN
) WITH (KAFKA_TOPIC='rows', FORMAT='JSON');
"""
# 09:30:00.500 on 2020-01-01. Columns that are not here are null.
ROW = {
    "I": 7,
    "B": 5_000_000_000,
    "D": 2.5,
    "P": "12.34",
    "S": "Text",
    "Y": b"\x01\x02",
    "T": 34_200_500,
    "DAY": 18_262,
    "TS": 1_577_871_000_500,
    "FLAG": True,
    "TAGS": ["a", "b", None],
    "INTS": [3, 1, 2],
    "PROPS": {"one": 1, "none": None},
    "HOME": {"STREET": "Main", "ZIP": 8001},
    "ROWTIME": 1_577_871_000_500,
}


@dataclass(frozen=True)
class ExpressionCase:
    name: str
    given: tuple[tuple[str, Any], ...]
    expression: str
    expected: str


def expression_cases() -> Iterator[ExpressionCase]:
    for path in sorted((CASES / "expressions").glob("*.txt")):
        for block in path.read_text().split("\n== ")[1:]:
            name, *lines = block.strip("\n").split("\n")
            given: tuple[tuple[str, Any], ...] = ()
            if lines[0].startswith("with "):
                assignments = (
                    each.split(" = ", 1) for each in lines.pop(0).removeprefix("with ").split("; ")
                )
                given = tuple((column.upper(), ast.literal_eval(value)) for column, value in assignments)
            for line in lines:
                expression, _, expected = line.partition(" → ")
                yield ExpressionCase(f"{path.stem}: {name}: {expression}", given, expression, expected)


@cache
def catalog() -> Catalog:
    return analyze(parse(SETTING), Catalog(), SETTING).catalog


def source() -> DataSource:
    return catalog().source("ROWS")


def columns() -> tuple[Column, ...]:
    return (*source().columns, *source().pseudo_columns)


def projected(expression: str) -> Project:
    """The step of the plan that computes the expression."""
    text = f"SELECT {expression} AS x FROM rows EMIT CHANGES"
    plan = analyze(parse(text), catalog(), text).plan
    assert plan is not None
    assert isinstance(plan.root, Project)
    return plan.root


def row_of(**given: Any) -> tuple[Any, ...]:
    values = {**ROW, **given}
    return tuple(_held(values.get(column.name), column.type) for column in columns())


def _held(value: Any, type_: SqlType) -> Any:
    if value is None or not isinstance(type_, Decimal):
        return value
    return Number(value).quantize(Number((0, (1,), -type_.scale)), context=Context(prec=type_.precision))


def outcome(case: ExpressionCase) -> str:
    """The value and its type, and the errors reported."""
    (computed,) = projected(case.expression).columns
    function = compile_value(computed.expression, columns(), catalog().functions)
    reports: list[str] = []
    function.report = lambda text, error: reports.append(f" ! {text}: {error}")
    value = shown(function(row_of(**dict(case.given))), computed.type)
    return f"{value} {computed.type}{''.join(reports)}"


def shown(value: Any, type_: SqlType) -> str:
    """Write a value as the cases do; fail if it does not fit its type."""
    if value is None:
        return "null"
    match type_:
        case Array(element):
            assert type(value) is list
            return f"[{', '.join(shown(each, element) for each in value)}]"
        case Map(key, inner):
            assert type(value) is dict
            entries = (f"{shown(name, key)}: {shown(each, inner)}" for name, each in value.items())
            return f"{{{', '.join(entries)}}}"
        case Struct(fields):
            assert list(value) == [name for name, _ in fields]
            return f"{{{', '.join(f'{name} {shown(value[name], inner)}' for name, inner in fields)}}}"
        case Decimal(_, scale):
            assert type(value) is Number
            assert value.as_tuple().exponent == -scale
            return f"{value:f}"
    assert type(value) is _CLASSES[type_], (value, type_)
    return str(value).lower() if type_ == types.BOOLEAN else repr(value)


_CLASSES: dict[SqlType, type] = {
    **dict.fromkeys((types.INTEGER, types.BIGINT, types.TIME, types.DATE, types.TIMESTAMP), int),
    types.BOOLEAN: bool,
    types.DOUBLE: float,
    types.STRING: str,
    types.BYTES: bytes,
}
