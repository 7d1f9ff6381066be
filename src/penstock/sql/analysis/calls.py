"""Searching expressions for calls of one kind of function, and replacing parts of expressions by columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from penstock.sql.catalog import Catalog
from penstock.sql.functions import FunctionKind
from penstock.sql.language.errors import SqlError
from penstock.sql.language.type_nodes import node_of, type_of


def column(name: str, like: exp.Expr) -> exp.Column:
    """Create a column of the plan, with the place in the text of the expression that it replaces."""
    made = exp.Column(this=exp.Identifier(this=name, quoted=False))
    made.meta.update(like.meta)
    return made


def calls_of(node: exp.Expr, kind: FunctionKind, catalog: Catalog) -> Iterator[exp.Anonymous]:
    """Find the calls of one kind of function, outer ones first."""
    for call in node.find_all(exp.Anonymous):
        found = catalog.functions.get(call.name)
        if found is not None and found.kind is kind:
            yield call


def located(error: SqlError, node: exp.Expr, text: str) -> SqlError:
    start = node.meta.get("start")
    return error if start is None else error.at(text, start)


def with_types(node: exp.Expr, catalog: Catalog, text: str) -> exp.Expr:
    """Copy an expression and resolve the custom types in its casts, as its evaluation has no catalog."""
    made = node.copy()
    for cast in made.find_all(exp.Cast):
        try:
            cast.set("to", node_of(catalog.resolved(type_of(cast.args["to"]))))
        except SqlError as error:
            raise located(error, cast, text) from None
    return made


def refuse(nodes: Sequence[exp.Expr], kind: FunctionKind, where: str, catalog: Catalog, text: str) -> None:
    """Reject calls of functions of this kind. Raises a SqlError if any of the expressions has one."""
    for node in nodes:
        for call in calls_of(node, kind, catalog):
            problem = f"found the {kind.value} function {call.name} in {where}, expected none there"
            raise located(SqlError(problem), call, text)


def bare(node: exp.Expr) -> exp.Expr:
    """Copy an expression without its parentheses, for comparison only, not for printing."""
    return node.copy().transform(lambda each: each.unnest() if isinstance(each, exp.Paren) else each)


class Replacements:
    """A mapping of expressions to the columns that replace them. The first of several equal ones counts."""

    def __init__(self, parts: Iterable[tuple[exp.Expr, str]]) -> None:
        self._names: dict[exp.Expr, tuple[int, str]] = {}
        for number, (part, name) in enumerate(parts):
            self._names.setdefault(bare(part), (number, name))

    def made_in(self, node: exp.Expr) -> exp.Expr:
        """Copy an expression and replace its mapped parts by columns, outer parts first."""
        made = node.copy()
        there = {each: self._names[each] for each in map(bare, made.walk()) if each in self._names}
        for wanted, (_, name) in sorted(there.items(), key=lambda each: each[1]):
            if bare(made) == wanted:
                return column(name, node)
            for found in [each for each in made.find_all(type(wanted)) if bare(each) == wanted]:
                found.replace(column(name, found))
        return made
