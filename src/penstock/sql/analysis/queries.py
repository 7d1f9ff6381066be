"""The planner of SELECT, with ksqlDB's restrictions."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.sql.analysis import calls
from penstock.sql.analysis.aggregation import Aggregation
from penstock.sql.analysis.expression_types import Types
from penstock.sql.analysis.generated_names import GeneratedNames
from penstock.sql.analysis.joins import JoinPlanner
from penstock.sql.analysis.plan import (
    Aggregate,
    Computed,
    EmitFinal,
    Filter,
    Flatten,
    Join,
    Limit,
    Plan,
    Project,
    QueryKind,
    Rekey,
    Step,
)
from penstock.sql.analysis.scope import Scope
from penstock.sql.analysis.selection import Selected, Selection
from penstock.sql.catalog import WINDOW_COLUMNS, Catalog, Role
from penstock.sql.functions import FunctionKind
from penstock.sql.language import types as sql_types
from penstock.sql.language.errors import SqlError
from penstock.sql.language.expression_printing import print_expression
from penstock.sql.language.statements import Emit, Query, SourceKind


def plan_query(query: Query, catalog: Catalog, text: str) -> Plan:
    """Plan a standalone SELECT: a push query with EMIT, a pull query without it."""
    kind = QueryKind.PULL if query.emit is None else QueryKind.PUSH
    step: Step = QueryPlanner(query, catalog, text, kind).plan()
    return Plan(kind, step if query.limit is None else Limit(step, query.limit))


def plan_persistent(query: Query, catalog: Catalog, text: str) -> Project:
    """Plan the SELECT of a persistent query, without the sink."""
    if query.limit is not None:
        raise SqlError("found LIMIT in a persistent query, expected none").at(text, query.source.start)
    return QueryPlanner(query, catalog, text, QueryKind.PERSISTENT).plan()


class QueryPlanner:
    def __init__(self, query: Query, catalog: Catalog, text: str, kind: QueryKind) -> None:
        self._query = query
        self._catalog = catalog
        self._text = text
        self._kind = kind
        self._scope = Scope.of(query, catalog, text)

    def plan(self) -> Project:
        self._check_clauses()
        step: Step = JoinPlanner(self._query, self._scope, self._catalog).plan()
        synthetic = self._scope.synthetic_key
        if any(each.name == synthetic for each in step.schema) and self._query.joins:
            self._scope = replace(self._scope, synthetic=frozenset({synthetic}))
        if self._query.where is not None:
            step = Filter(step, self._condition(step))
        if self._query.partition_by:
            step = self._rekey(step)
        if self._query.window is not None:
            self._scope = replace(self._scope, synthetic=self._scope.synthetic | set(WINDOW_COLUMNS))
        selected = self._selected(step)
        if self._query.group_by or self._is_of_all_rows(selected):
            step, selected = self._aggregation(step).plan(step, selected)
        else:
            self._refuse_aggregates(selected)
            step, selected = self._flattened(step, selected)
        return self._projected(step, selected)

    def _error(self, problem: str, node: exp.Expr | None = None) -> SqlError:
        error = SqlError(problem)
        if node is not None:
            calls.located(error, node, self._text)
        return error.at(self._text, self._query.source.start)

    def _types(self, step: Step) -> Types:
        return Types(self._catalog, {each.name: each.type for each in step.schema}, self._text)

    # Restrictions on clauses

    def _check_clauses(self) -> None:
        query = self._query
        if query.group_by and query.partition_by:
            raise self._error(
                "found PARTITION BY beside GROUP BY, expected one of them", query.partition_by[0]
            )
        if query.window is not None and not query.group_by:
            raise self._error("found WINDOW without GROUP BY, expected GROUP BY for it")
        if query.having is not None and not query.group_by:
            raise self._error("found HAVING without GROUP BY, expected GROUP BY for it", query.having)
        if query.emit is Emit.FINAL and query.window is None:
            raise self._error("found EMIT FINAL without WINDOW, expected a windowed aggregation for it")
        if self._kind is QueryKind.PULL:
            self._check_pull()
        for each in self._scope.sources:
            source = each.source
            if self._kind is QueryKind.PERSISTENT and source.window and source.kind is SourceKind.TABLE:
                raise self._error(
                    f"found the windowed table {source.name} in a persistent query, expected a stream "
                    "or a table without windows"
                )
            if source.value_format == "KAFKA" and (query.joins or query.group_by):
                clause = "JOIN" if query.joins else "GROUP BY"
                raise self._error(
                    f"found {clause} over {source.name}, whose value is in the format KAFKA, expected another"
                )

    def _check_pull(self) -> None:
        query = self._query
        for clause, there in {
            "JOIN": query.joins,
            "WINDOW": query.window,
            "GROUP BY": query.group_by,
            "PARTITION BY": query.partition_by,
            "HAVING": query.having,
        }.items():
            if there:
                raise self._error(
                    f"found {clause} in a pull query, expected a push query for it: add EMIT CHANGES"
                )
        source = self._scope.sources[0].source
        self._check_places()
        if source.kind is SourceKind.TABLE and not source.is_queryable:
            raise self._error(
                f"found a pull query of the table {source.name}, whose state is not materialized, expected "
                f"one created by CREATE TABLE … AS SELECT * FROM {source.name}, or a SOURCE TABLE"
            )

    def _check_places(self) -> None:
        """Reject ROWPARTITION and ROWOFFSET in a pull query, as ksqlDB does. A table's state lacks them."""
        parts = [each.expression for each in self._query.items]
        parts += [] if self._query.where is None else [self._query.where]
        for name in (name for part in parts for name in part.find_all(exp.Column)):
            if name.name in ("ROWPARTITION", "ROWOFFSET"):
                problem = f"found {name.name} in a pull query, expected a push query for it"
                raise self._error(f"{problem}: add EMIT CHANGES", name)

    # Clauses

    def _condition(self, step: Step) -> exp.Expr:
        assert self._query.where is not None
        condition = self._scope.resolved(self._query.where)
        for kind in (FunctionKind.AGGREGATE, FunctionKind.TABLE):
            calls.refuse([condition], kind, "WHERE", self._catalog, self._text)
        self._types(step).expect(condition, sql_types.BOOLEAN, "a condition")
        return condition

    def _rekey(self, step: Step) -> Rekey:
        if step.kind is SourceKind.TABLE:
            raise self._error(
                "found PARTITION BY over a table, expected a stream for it", self._query.partition_by[0]
            )
        nodes = [self._scope.resolved(node) for node in self._query.partition_by]
        for kind in (FunctionKind.AGGREGATE, FunctionKind.TABLE):
            calls.refuse(nodes, kind, "PARTITION BY", self._catalog, self._text)
        if len(nodes) == 1 and isinstance(nodes[0], exp.Null):
            return Rekey(step, ())
        keys: list[Computed] = []
        generated = GeneratedNames(each.name for each in step.schema)
        for node in nodes:
            found = self._types(step).of(node)
            if found is None:
                raise self._error("found NULL among several keys, expected a value with a type", node)
            if isinstance(node, exp.Column):
                name = node.name
            else:
                is_field = isinstance(node, exp.Dot)
                name = generated.field(node.expression.name) if is_field else generated.expression()
            keys.append(Computed(name, node, found, Role.KEY))
        return Rekey(step, tuple(keys))

    def _selected(self, step: Step) -> tuple[Selected, ...]:
        persistent = self._kind is QueryKind.PERSISTENT
        known = {source.inner(each.name) for source in self._scope.sources for each in source.selected}
        new_keys = [each.name for each in step.schema if each.role is Role.KEY and each.name not in known]
        selection = Selection(self._query, self._scope, self._types(step), new_keys, persistent=persistent)
        selected = selection.columns()
        if not isinstance(step, Rekey):
            return selected
        # A SELECT item that equals an expression of PARTITION BY is the key.
        keys = calls.Replacements((key.expression, key.name) for key in step.keys)
        return tuple(replace(each, expression=keys.made_in(each.expression)) for each in selected)

    def _aggregation(self, step: Step) -> Aggregation:
        keys = [self._scope.resolved(node) for node in self._query.group_by or (exp.Literal.number(0),)]
        having = None if self._query.having is None else self._scope.resolved(self._query.having)
        return Aggregation(self._query, keys, having, self._types(step), self._catalog)

    def _is_of_all_rows(self, selected: tuple[Selected, ...]) -> bool:
        """Whether this is a push query that aggregates without GROUP BY, with all rows in one group."""
        if self._kind is not QueryKind.PUSH or self._query.partition_by:
            return False
        return any(
            [*calls.calls_of(each.expression, FunctionKind.AGGREGATE, self._catalog)] for each in selected
        )

    def _refuse_aggregates(self, selected: tuple[Selected, ...]) -> None:
        for each in selected:
            for call in calls.calls_of(each.expression, FunctionKind.AGGREGATE, self._catalog):
                raise self._error(f"found {call.name} without GROUP BY, expected GROUP BY for it", call)

    def _flattened(self, step: Step, selected: tuple[Selected, ...]) -> tuple[Step, tuple[Selected, ...]]:
        found: list[exp.Anonymous] = []
        for each in selected:
            for call in calls.calls_of(each.expression, FunctionKind.TABLE, self._catalog):
                self._check_table_call(call, step)
                if call not in found:
                    found.append(call)
        if not found:
            return step, selected
        made: list[Computed] = []
        for number, call in enumerate(found):
            type_ = self._types(step).of(call)
            if type_ is None:
                raise self._error(f"found {call.name} of NULL, expected a value with a type", call)
            made.append(Computed(f"KSQL_SYNTH_{number}", call, type_))
        names = calls.Replacements((call, each.name) for call, each in zip(found, made, strict=True))
        return Flatten(step, tuple(made)), tuple(
            replace(each, expression=names.made_in(each.expression)) for each in selected
        )

    def _check_table_call(self, call: exp.Anonymous, step: Step) -> None:
        for argument in call.expressions:
            where = f"the arguments of {call.name}"
            calls.refuse([argument], FunctionKind.TABLE, where, self._catalog, self._text)
        if call.find_ancestor(exp.Case) is not None:
            raise self._error(f"found the table function {call.name} in CASE, expected none there", call)
        if self._kind is QueryKind.PULL:
            raise self._error(f"found the table function {call.name} in a pull query, expected none", call)
        if step.kind is SourceKind.TABLE:
            raise self._error(f"found {call.name} over a table, expected a stream for it", call)

    # The result

    def _projected(self, step: Step, selected: tuple[Selected, ...]) -> Project:
        types = self._types(step)
        if isinstance(step, Filter) and self._query.having is not None:
            types.expect(step.condition, sql_types.BOOLEAN, "a condition")
        keys = self._keys(step, selected)
        columns: list[Computed] = []
        for each in selected:
            expression = exp.column(keys[each.name]) if each.name in keys else each.expression
            found = types.of(expression)
            if found is None:
                raise self._error(
                    f"found NULL as {each.name}, expected a value with a type: CAST(NULL AS …)", each.written
                )
            role = Role.KEY if each.name in keys else Role.VALUE
            columns.append(Computed(each.name, expression, found, role))
        if self._kind is QueryKind.PERSISTENT:
            columns.sort(key=lambda each: each.role is not Role.KEY)
            if all(each.role is Role.KEY for each in columns):
                raise self._error("found only key columns, expected a value column too")
        return Project(step, tuple(columns))

    def _keys(self, step: Step, selected: tuple[Selected, ...]) -> dict[str, str]:
        """Map the result's key columns to the input's key columns.

        A persistent query must select each key exactly once.
        """
        named = [each.expression.name for each in selected if isinstance(each.expression, exp.Column)]
        viable = _viable_keys(step)
        found: dict[str, str] = {}
        for key in (each.name for each in step.schema if each.role is Role.KEY):
            # Any column equal to the key may represent it. In an outer join it is null without a match.
            name = next((each for each in (*viable, key) if each in named), key)
            found |= {
                each.name: key
                for each in selected
                if isinstance(each.expression, exp.Column) and each.expression.name == name
            }
            if self._kind is not QueryKind.PERSISTENT:
                continue
            if name not in named:
                wanted = " or ".join(dict.fromkeys((_shown(step, key), *viable)))
                raise self._error(f"found no key in the list of SELECT, expected {wanted} in it")
            if named.count(name) > 1:
                raise self._error(
                    f"found the key {name} more than once in the list of SELECT, expected AS_VALUE({name})"
                )
        return found


def _shown(step: Step, key: str) -> str:
    """Show a key as it is written in the query."""
    while isinstance(step, (Filter, Flatten, EmitFinal)):
        step = step.input
    if isinstance(step, (Rekey, Aggregate)):
        return next((print_expression(each.expression) for each in step.keys if each.name == key), key)
    return key


def _viable_keys(step: Step) -> tuple[str, ...]:
    while isinstance(step, (Filter, Flatten)):
        step = step.input
    return step.viable_keys if isinstance(step, Join) else ()
