"""The analysis of GROUP BY: keys, windows and aggregate functions."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from penstock.sql.analysis import calls
from penstock.sql.analysis.expression_types import Types
from penstock.sql.analysis.plan import Aggregate, Computed, EmitFinal, Filter, Step
from penstock.sql.analysis.scope import lambda_names
from penstock.sql.analysis.selection import Selected
from penstock.sql.catalog import PSEUDO_COLUMNS, WINDOW_COLUMNS, Catalog, Column, Role
from penstock.sql.functions import FunctionKind
from penstock.sql.language.errors import SqlError, listed, shortened
from penstock.sql.language.expression_printing import print_expression
from penstock.sql.language.statements import Emit, Query, SourceKind

_OF_TABLES: Final = (
    *("ATTR", "AVG", "COLLECT_LIST", "CORRELATION", "COUNT"),
    *("HISTOGRAM", "STDDEV_SAMP", "STDDEV_SAMPLE", "SUM", "SUM_LIST"),
)
"""Functions that can remove a row from a group again, as a table's changes require."""
_COUNTS: Final = {"EARLIEST_BY_OFFSET": 1, "LATEST_BY_OFFSET": 1, "TOPK": -1, "TOPKDISTINCT": -1}
"""The index of the argument with the number of values to keep, in calls with several arguments."""
_OF_PLAIN_STATE: Final = ("COUNT", "MAX", "MIN", "SUM", "SUM_LIST")
"""Functions whose state is one primitive value, so that a format for primitive values only can store it."""


class Aggregation:
    """The aggregation of one query. ``types`` are those of the input's columns."""

    def __init__(
        self, query: Query, keys: list[exp.Expr], having: exp.Expr | None, types: Types, catalog: Catalog
    ) -> None:
        self._query = query
        self._keys = keys
        self._having = having
        self._types = types
        self._catalog = catalog

    def plan(self, step: Step, selected: tuple[Selected, ...]) -> tuple[Step, tuple[Selected, ...]]:
        """Plan the aggregation, and rewrite the SELECT items to read its columns."""
        self._check_places(step, selected)
        keys = [self._key(node, number) for number, node in enumerate(self._keys)]
        found = self._calls([each.expression for each in selected])
        if not found:
            for each in selected:
                self._types.of(each.expression)  # report an unknown function first, if there is one
            raise self._error("found GROUP BY without an aggregate function, expected one", self._keys[0])
        made = [self._computed(call, number, step) for number, call in enumerate(found)]
        parts: list[tuple[exp.Expr, str]] = [
            (call, each.name) for call, each in zip(found, made, strict=True)
        ]
        parts += [(node, key.name) for node, key in zip(self._keys, keys, strict=True)]
        names = calls.Replacements(parts)
        after: Step = Aggregate(step, tuple(keys), tuple(made), self._query.window, self._schema(keys, made))
        allowed = {each.name for each in after.schema}
        if self._query.emit is Emit.FINAL:
            after = EmitFinal(after)
        if self._having is not None:
            after = Filter(after, self._over(self._having, names, allowed, "HAVING"))
        return after, tuple(
            Selected(each.name, self._over(each.expression, names, allowed, "SELECT"), each.written)
            for each in selected
        )

    def _error(self, problem: str, node: exp.Expr) -> SqlError:
        return calls.located(SqlError(problem), node, self._types.text)

    def _check_places(self, step: Step, selected: tuple[Selected, ...]) -> None:
        text, catalog = self._types.text, self._catalog
        calls.refuse(self._keys, FunctionKind.AGGREGATE, "GROUP BY", catalog, text)
        calls.refuse(self._keys, FunctionKind.TABLE, "GROUP BY", catalog, text)
        calls.refuse(
            [each.expression for each in selected], FunctionKind.TABLE, "an aggregation", catalog, text
        )
        if step.kind is SourceKind.TABLE and self._query.window is not None:
            raise self._error("found WINDOW over a table, expected a stream for it", self._keys[0])

    def _key(self, node: exp.Expr, number: int) -> Computed:
        found = self._types.of(node)
        if found is None:
            raise self._error("found GROUP BY NULL, expected a value with a type", node)
        name = node.name if isinstance(node, exp.Column) else f"KSQL_GROUP_{number}"
        return Computed(name, node, found, Role.KEY)

    def _calls(self, nodes: list[exp.Expr]) -> list[exp.Anonymous]:
        """The distinct calls of aggregate functions in the query."""
        found: dict[exp.Expr, exp.Anonymous] = {}
        for node in [*nodes, *([] if self._having is None else [self._having])]:
            for call in calls.calls_of(node, FunctionKind.AGGREGATE, self._catalog):
                where = f"the arguments of {call.name}"
                for argument in call.expressions:
                    calls.refuse([argument], FunctionKind.AGGREGATE, where, self._catalog, self._types.text)
                found.setdefault(calls.bare(call), call)
        return list(found.values())

    def _computed(self, call: exp.Anonymous, number: int, step: Step) -> Computed:
        if step.kind is SourceKind.TABLE and call.name not in _OF_TABLES:
            problem = f"found {call.name} over a table, expected one that can remove rows"
            raise self._error(f"{problem}: {', '.join(_OF_TABLES)}", call)
        if call.name not in _OF_PLAIN_STATE and self._format() == "DELIMITED":
            problem = (
                f"found {call.name} over {self._query.source.name}, whose value is in the format DELIMITED"
            )
            raise self._error(f"{problem}, expected {listed(_OF_PLAIN_STATE)}, or another format", call)
        found = self._types.of(call)
        if found is None:
            raise self._error(f"found {call.name} of NULL, expected a value with a type", call)
        if call.name in _COUNTS and len(call.expressions) > 1:
            held = call.expressions[_COUNTS[call.name]]
            if isinstance(held, exp.Literal) and int(held.name) == 0:
                raise self._error(f"found {call.name} of no values, expected at least one", held)
        return Computed(f"KSQL_AGG_{number}", call, found)

    def _format(self) -> str:
        """The value format of the aggregated source."""
        return self._catalog.source(self._query.source.name).value_format

    def _schema(self, keys: list[Computed], made: list[Computed]) -> tuple[Column, ...]:
        system = {"ROWTIME": PSEUDO_COLUMNS["ROWTIME"]}
        if self._query.window is not None:
            system |= WINDOW_COLUMNS
        known = {key.name for key in keys}
        pseudo = (Column(name, type_, Role.PSEUDO) for name, type_ in system.items() if name not in known)
        return (*(key.column for key in keys), *(each.column for each in made), *pseudo)

    def _over(self, node: exp.Expr, names: calls.Replacements, allowed: set[str], clause: str) -> exp.Expr:
        """Rewrite an expression to read the aggregation's columns."""
        made = names.made_in(node)
        for column in made.find_all(exp.Column):
            if column.name not in allowed | lambda_names(column):
                shown = shortened(print_expression(node))
                raise self._error(
                    f"found {shown} in {clause}, expected an expression of GROUP BY or an aggregate function",
                    node,
                )
        return made
