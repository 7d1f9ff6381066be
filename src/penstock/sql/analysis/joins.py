"""The analysis of joins, which determines the form and the keys of each join."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from penstock.sql.analysis.calls import column, located
from penstock.sql.analysis.expression_types import Types
from penstock.sql.analysis.plan import Join, JoinForm, Step
from penstock.sql.analysis.properties import REGISTERED_FORMATS
from penstock.sql.analysis.scope import Scope, ScopedSource
from penstock.sql.catalog import Catalog, Column, Role
from penstock.sql.language.errors import SqlError, shortened
from penstock.sql.language.expression_printing import print_expression
from penstock.sql.language.keywords import quoted
from penstock.sql.language.statements import JoinedRelation, JoinKind, Query, SourceKind
from penstock.sql.language.types import SqlType

_ALLOWED: Final[dict[JoinForm, tuple[JoinKind, ...]]] = {
    JoinForm.STREAM_STREAM: tuple(JoinKind),
    JoinForm.STREAM_TABLE: (JoinKind.INNER, JoinKind.LEFT),
    JoinForm.TABLE_TABLE: tuple(JoinKind),
    JoinForm.FOREIGN_KEY: (JoinKind.INNER, JoinKind.LEFT),
}


class JoinPlanner:
    """The planner of one query's joins, from left to right."""

    def __init__(self, query: Query, scope: Scope, catalog: Catalog) -> None:
        self._query = query
        self._scope = scope
        self._catalog = catalog

    def plan(self) -> Step:
        step: Step = self._scope.sources[0].step()
        for number, join in enumerate(self._query.joins, 1):
            known = {each.alias for each in self._scope.sources[:number]}
            step = self._join(step, known, self._scope.sources[number], join)
        return step

    def _join(self, left: Step, known: set[str], right: ScopedSource, join: JoinedRelation) -> Join:
        self._check_sources(known, right, join)
        right_step = right.step()
        one, other = self._sides(join, known, right)
        left_key, right_key = self._scope.resolved(one), self._scope.resolved(other)
        left_type = self._types(left).of(left_key)
        if left_type is None or left_type != self._types(right_step).of(right_key):
            found = f"{left_type or 'NULL'} = {self._types(right_step).of(right_key) or 'NULL'}"
            raise self._error(f"found a join on {found}, expected equal types", join.condition)
        key_before = _key_for(left, left_key)
        form = self._form(left, key_before, right, right_key, join)
        if form is JoinForm.FOREIGN_KEY and right.source.window is not None:
            raise self._error(
                "found a foreign-key join of windowed tables, expected tables without windows", join.condition
            )
        if form is JoinForm.FOREIGN_KEY and len(known) > 1:
            raise self._error(
                "found a foreign-key join after another join, expected it to be the first", join.condition
            )
        if join.kind not in _ALLOWED[form]:
            allowed = " or ".join(kind.value for kind in _ALLOWED[form])
            raise self._error(
                f"found a {join.kind.value} {form.value} join, expected {allowed}", join.condition
            )
        if form is not JoinForm.FOREIGN_KEY:
            self._check_copartitioned(known, right, (left_key, right_key), join)
        key = (
            None
            if form is JoinForm.FOREIGN_KEY
            else _key(join.kind, key_before, right_key, self._scope.synthetic_key)
        )
        schema = _schema(left, right_step, key, left_type, form, self._scope.synthetic_key)
        return Join(
            join.kind,
            form,
            left,
            right_step,
            key_before,
            right_key,
            key,
            join.within,
            schema,
            () if key is None or join.kind is JoinKind.FULL else _equivalents(left, left_key, right_key),
        )

    def _check_sources(self, known: set[str], right: ScopedSource, join: JoinedRelation) -> None:
        for left in (each for each in self._scope.sources if each.alias in known):
            if left.source.name == right.source.name:
                problem = f"found {left.source.name} joined with itself, expected different sources"
                raise self._error(problem, join.condition)
            kinds = [
                "none" if each.source.window is None else each.source.window.kind.value
                for each in (left, right)
            ]
            sessions = [kind == "SESSION" for kind in kinds]
            if ("none" in kinds and kinds != ["none", "none"]) or sessions[0] is not sessions[1]:
                problem = f"found the windows {kinds[0]} and {kinds[1]} in a join, expected those of one kind"
                raise self._error(problem, join.condition)

    def _check_copartitioned(
        self, known: set[str], right: ScopedSource, keys: tuple[exp.Expr, exp.Expr], join: JoinedRelation
    ) -> None:
        """Check that both sides are copartitioned, as far as their partition counts are known.

        A windowed source must also be joined by its own key.
        """
        before = [each for each in self._scope.sources if each.alias in known]
        left = before[-1]
        counts = (left.source.partitions, right.source.partitions)
        if None not in counts and counts[0] != counts[1]:
            raise self._error(
                f"found {left.alias} of {counts[0]} partitions joined with {right.alias} of {counts[1]}, "
                "expected equal numbers",
                join.condition,
            )
        for sides, key in zip((before, [right]), keys, strict=True):
            names = [side.inner(each.name) for side in sides for each in side.source.keys]
            if sides[0].source.window is not None and print_expression(key) not in map(quoted, names):
                raise self._error(
                    f"found a windowed source joined by {print_expression(key)}, "
                    f"expected its key {' or '.join(names)}",
                    join.condition,
                )
        formats = (left.source.key_format, right.source.key_format)
        if left.source.window != right.source.window and not set(formats) <= set(REGISTERED_FORMATS):
            raise self._error(
                f"found {left.alias} and {right.alias} with different windows, expected equal ones",
                join.condition,
            )

    def _types(self, step: Step) -> Types:
        return Types(self._catalog, {each.name: each.type for each in step.schema}, self._scope.text)

    def _error(self, problem: str, node: exp.Expr) -> SqlError:
        return located(SqlError(problem), node, self._scope.text)

    def _sides(self, join: JoinedRelation, known: set[str], right: ScopedSource) -> tuple[exp.Expr, exp.Expr]:
        """The left and the right expression of the join condition."""
        condition = join.condition
        while isinstance(condition, exp.Paren):
            condition = condition.this
        if not isinstance(condition, exp.EQ):
            found = shortened(print_expression(condition))
            raise self._error(f"found a join on {found}, expected one equality", condition)
        sides = (condition.this, condition.expression)
        # Report an unknown name before any other error.
        for side in sides:
            self._scope.resolved(side)
        used = [self._scope.used(side) for side in sides]
        for place in (0, 1):
            one, other = used[place], used[1 - place]
            if one and len(one) == 1 and one <= known and other == {right.alias}:
                return sides[place], sides[1 - place]
        raise self._error(
            f"found a join whose sides read {_listed(used[0])} and {_listed(used[1])}, expected one source "
            f"of {_listed(known)} on one side and {right.alias} on the other",
            condition,
        )

    def _form(
        self, left: Step, left_key: exp.Expr, right: ScopedSource, right_key: exp.Expr, join: JoinedRelation
    ) -> JoinForm:
        right_kind = right.source.kind
        if left.kind is SourceKind.TABLE and right_kind is SourceKind.STREAM:
            raise self._error(
                "found a table joined with a stream, expected the stream on the left", join.condition
            )
        streams = left.kind is right_kind is SourceKind.STREAM
        if streams and join.within is None:
            raise self._error("found a stream-stream join, expected WITHIN for it", join.condition)
        if not streams and join.within is not None:
            raise self._error(
                "found WITHIN in a join with a table, expected it only between streams", join.condition
            )
        if streams:
            return JoinForm.STREAM_STREAM
        self._check_table_key(right, right_key, join)
        if left.kind is SourceKind.STREAM:
            return JoinForm.STREAM_TABLE
        keys = [each.name for each in left.schema if each.role is Role.KEY]
        is_key = isinstance(left_key, exp.Column) and keys == [left_key.name]
        return JoinForm.TABLE_TABLE if is_key else JoinForm.FOREIGN_KEY

    def _check_table_key(self, right: ScopedSource, right_key: exp.Expr, join: JoinedRelation) -> None:
        keys = [right.inner(each.name) for each in right.source.keys]
        if not isinstance(right_key, exp.Column) or keys != [right_key.name]:
            wanted = ", ".join(each.name for each in right.source.keys)
            raise self._error(
                f"found a join with the table {right.alias} on something other than its PRIMARY KEY, "
                f"expected {wanted}" + (", and one column" if len(keys) > 1 else ""),
                join.condition,
            )


def _key(kind: JoinKind, left: exp.Expr, right: exp.Expr, synthetic: str) -> str:
    """Return the name of the result's key: the first side that is a column, else the synthetic one."""
    if kind is JoinKind.FULL:
        return synthetic
    sides = (right, left) if kind is JoinKind.RIGHT else (left, right)
    return next((side.name for side in sides if isinstance(side, exp.Column)), synthetic)


def _key_for(left: Step, written: exp.Expr) -> exp.Expr:
    """The expression that joins the left side's rows. It is their own key if ``written`` is equivalent to it.

    The rows then need no repartitioning, and in a chain of outer joins they have their key even if a side in
    between had no matching row.
    """
    if isinstance(left, Join) and left.key is not None and written in left.equivalents:
        return column(left.key, written)
    return written


def _equivalents(left: Step, left_key: exp.Expr, right_key: exp.Expr) -> tuple[exp.Expr, ...]:
    before = left.equivalents if isinstance(left, Join) and left_key in left.equivalents else ()
    return tuple(dict.fromkeys((*before, left_key, right_key)))


def _schema(
    left: Step, right: Step, key: str | None, key_type: SqlType, form: JoinForm, synthetic: str
) -> tuple[Column, ...]:
    def role(column: Column) -> Role:
        if form is JoinForm.FOREIGN_KEY:
            return column.role if column in left.schema or column.role is not Role.KEY else Role.VALUE
        if column.name == key:
            return Role.KEY
        return Role.VALUE if column.role is Role.KEY else column.role

    both = tuple(
        Column(each.name, each.type, role(each), each.header) for each in (*left.schema, *right.schema)
    )
    if key == synthetic:
        both = (Column(synthetic, key_type, Role.KEY), *(each for each in both if each.name != key))
    return both


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
