"""Calls of one kind of function in expressions: found, taken out and put elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from penstock.sql.catalog import Catalog
from penstock.sql.datatypes import node_of, type_of
from penstock.sql.errors import SqlError
from penstock.sql.functions import FunctionKind


def column(name: str, like: exp.Expr) -> exp.Column:
    """A column of the plan, at the place of what it stands for."""
    made = exp.Column(this=exp.Identifier(this=name, quoted=False))
    made.meta.update(like.meta)
    return made


def calls_of(node: exp.Expr, kind: FunctionKind, catalog: Catalog) -> Iterator[exp.Anonymous]:
    """The calls of functions of a kind, outer ones first."""
    for call in node.find_all(exp.Anonymous):
        found = catalog.functions.get(call.name)
        if found is not None and found.kind is kind:
            yield call


def located(error: SqlError, node: exp.Expr, text: str) -> SqlError:
    start = node.meta.get("start")
    return error if start is None else error.at(text, start)


def with_types(node: exp.Expr, catalog: Catalog, text: str) -> exp.Expr:
    """A copy whose casts spell out what names of types stand for: who computes it has no catalogue."""
    made = node.copy()
    for cast in made.find_all(exp.Cast):
        try:
            cast.set("to", node_of(catalog.resolved(type_of(cast.args["to"]))))
        except SqlError as error:
            raise located(error, cast, text) from None
    return made


def refuse(nodes: Sequence[exp.Expr], kind: FunctionKind, where: str, catalog: Catalog, text: str) -> None:
    """That no function of a kind is called there."""
    for node in nodes:
        for call in calls_of(node, kind, catalog):
            problem = f"found the {kind.value} function {call.name} in {where}, expected none there"
            raise located(SqlError(problem), call, text)


def bare(node: exp.Expr) -> exp.Expr:
    """The expression without parentheses: fit to be compared, not to be printed."""
    return node.copy().transform(lambda each: each.unnest() if isinstance(each, exp.Paren) else each)


class Replacements:
    """Parts of expressions, and the columns that stand for them; of several that match, the first ones."""

    def __init__(self, parts: Iterable[tuple[exp.Expr, str]]) -> None:
        self._names: dict[exp.Expr, tuple[int, str]] = {}
        for number, (part, name) in enumerate(parts):
            self._names.setdefault(bare(part), (number, name))

    def made_in(self, node: exp.Expr) -> exp.Expr:
        """The expression with equal parts replaced by columns; outer parts first."""
        made = node.copy()
        there = {each: self._names[each] for each in map(bare, made.walk()) if each in self._names}
        for wanted, (_, name) in sorted(there.items(), key=lambda each: each[1]):
            if bare(made) == wanted:
                return column(name, node)
            for found in [each for each in made.find_all(type(wanted)) if bare(each) == wanted]:
                found.replace(column(name, found))
        return made
