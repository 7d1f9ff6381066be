"""The stages that a plan's steps are built into, and the tools that all steps are built with."""

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
from penstock.sql.language.types import SqlType
from penstock.sql.planning.processing_log import report_expression
from penstock.streams.dsl.stream import Stream
from penstock.streams.dsl.table import Table
from penstock.topology.serdes import Serde

RowOf = Callable[[Any, Any], Any]
"""``(key, stored) -> row``: the row of what a table's store holds for a key; None if there is no row."""


@dataclass(frozen=True)
class Stage:
    """The result of building one step of a plan.

    ``rows`` are tuples of ``schema``'s values. ``store`` holds what a table's rows are computed from, and
    ``row_of(key, stored)`` computes them. ``key_serde`` is that of the topic whose partitioning the rows
    still have, or None. Stages with the same ``key_format`` encode a key in the same bytes.
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
    """The context in which expressions are compiled.

    ``settings`` are the query's properties. With ``cached``, only the last of a group's updates in a batch is
    emitted.
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
        """The value of an expression that reads no column; None for any other expression."""
        if expression.find(exp.Column) is not None:
            return None
        return self.row([expression], ())(())[0]

    def type_of(self, expression: exp.Expr, schema: Sequence[Column]) -> SqlType | None:
        return Types(self.catalog, {each.name: each.type for each in schema}, "").of(expression)
