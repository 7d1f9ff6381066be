"""A step of a plan as it is being built, and what all steps are built with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from penstock.sql.analysis.expression_types import Types
from penstock.sql.catalog import Catalog, Column
from penstock.sql.evaluation import (
    Condition,
    RowFunction,
    UserFunctions,
    compile_condition,
    compile_row,
)
from penstock.sql.planning.processing_log import report_expression
from penstock.sql.types import SqlType
from penstock.streams.stream import Stream
from penstock.streams.table import Table
from penstock.topology.serdes import Serde

RowOf = Callable[[Any, Any], Any]
"""``(key, stored) -> row``: what the store of a table holds of a key, as a row; None where there is none."""


@dataclass(frozen=True)
class Stage:
    """``rows`` are tuples of ``schema``'s values. ``store`` is the one that holds what the rows of a table
    are computed from, and ``row_of(key, stored)`` computes them. ``key_serde`` is that of the topic whose
    partitions the rows are in, where they still are; where ``key_format`` is the same, so are the bytes.
    """

    rows: Stream[Any, Any] | Table[Any, Any]
    schema: tuple[Column, ...]
    is_windowed: bool = False
    store: str | None = None
    row_of: RowOf | None = None
    key_serde: Serde[Any] | None = None
    key_format: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tools:
    """What expressions are compiled with. ``settings`` are the query's properties; ``cached``: of a group's
    updates in a batch the last is sent.
    """

    catalog: Catalog
    user_functions: UserFunctions = field(default_factory=UserFunctions)
    settings: Mapping[str, str] = field(default_factory=dict)
    cached: bool = False

    def row(
        self,
        expressions: Sequence[exp.Expr],
        schema: Sequence[Column],
        wanted: Sequence[SqlType | None] | None = None,
    ) -> RowFunction:
        made = compile_row(expressions, schema, self.catalog.functions, self.user_functions, wanted)
        made.report = report_expression
        return made

    def condition(self, condition: exp.Expr, schema: Sequence[Column]) -> Condition:
        made = compile_condition(condition, schema, self.catalog.functions, self.user_functions)
        made.report = report_expression
        return made

    def constant(self, expression: exp.Expr) -> Any:
        """The value of an expression that reads no column; None for any other."""
        if expression.find(exp.Column) is not None:
            return None
        return self.row([expression], ())(())[0]

    def type_of(self, expression: exp.Expr, schema: Sequence[Column]) -> SqlType | None:
        return Types(self.catalog, {each.name: each.type for each in schema}, "").of(expression)
