"""Lookups that were asked before with other keys: they are neither parsed nor compiled again.

A pull query whose WHERE says `key = literal` for each key is the same query for every key. Texts are compared
by their tokens, all of which but those literals have to be equal, and in the same state of the service.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlglot import exp

from penstock.sql import types
from penstock.sql.catalog import Column, DataSource
from penstock.sql.engine.pull import PullQuery, conjuncts, is_column
from penstock.sql.engine.queries import PersistentQuery
from penstock.sql.engine.results import ResultColumn
from penstock.sql.engine.state import State
from penstock.sql.errors import SqlError
from penstock.sql.lexer import Kind, Token, tokens_of
from penstock.sql.plan import Filter, Limit, Plan, Project
from penstock.sql.types import SqlType

SHAPES_MAX: Final = 1_000
_LITERALS: Final = (Kind.STRING, Kind.INTEGER)
_BITS: Final[dict[SqlType, int]] = {types.INTEGER: 32, types.BIGINT: 64}

Shape = tuple[tuple[Kind, str], ...]


@dataclass(frozen=True)
class Lookup:
    """A pull query over a table, ready to be asked. ``places`` are those of the keys' literals among the
    tokens, ``others`` the texts of all other literals.
    """

    pull: PullQuery
    query: PersistentQuery
    columns: tuple[ResultColumn, ...]
    limit: int | None
    places: tuple[int, ...] = ()
    others: tuple[str, ...] = ()

    def of(self, tokens: list[Token]) -> Lookup | None:
        """The same lookup of other keys; None where the tokens say something else."""
        if self.others != _others(tokens, self.places):
            return None
        key: list[Any] = []
        for place, column in zip(self.places, self.pull.source.keys, strict=True):
            value = _value(tokens[place], column.type)
            if value is None:
                return None
            key.append(value)
        return replace(self, pull=self.pull.at(tuple(key)))


class Lookups:
    """What is known of one state at a time. For all threads."""

    def __init__(self) -> None:
        self._learnt: tuple[State | None, dict[Shape, Lookup]] = (None, {})
        self._lock = threading.Lock()

    def find(self, text: str, state: State) -> Lookup | None:
        """The lookup that a text asks for, if one like it was learnt in this state."""
        of_state, known = self._learnt
        if state is not of_state or "${" in text:
            return None
        try:
            tokens = tokens_of(text)
        except SqlError:
            return None
        found = known.get(_shape(tokens))
        return None if found is None else found.of(tokens)

    def learn(self, text: str, state: State, plan: Plan, lookup: Lookup) -> None:
        """Remember a lookup that a text has asked for, unless it is of another form."""
        if "${" in text or not lookup.pull.has_lookups:
            return
        tokens = tokens_of(text)
        found = _literals_of_keys(plan, lookup.pull.source, tokens)
        if found is None:
            return
        places, rest = found
        pull = PullQuery(rest, lookup.query, state.catalog, state.user_functions)
        made = replace(lookup, pull=pull, places=places, others=_others(tokens, places))
        with self._lock:
            of_state, known = self._learnt
            if of_state is not state or len(known) >= SHAPES_MAX:
                known = {}
            known[_shape(tokens)] = made
            self._learnt = state, known


def _shape(tokens: list[Token]) -> Shape:
    return tuple((each.kind, "" if each.kind in _LITERALS else each.text) for each in tokens)


def _others(tokens: list[Token], places: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(
        each.text for place, each in enumerate(tokens) if each.kind in _LITERALS and place not in places
    )


def _value(token: Token, type_: SqlType) -> Any:
    """A key of a literal; None for what is no literal of its type."""
    if token.kind is Kind.STRING:
        return token.text if type_ == types.STRING else None
    if token.kind is not Kind.INTEGER or type_ not in _BITS:
        return None
    value = int(token.text)
    return value if value.bit_length() < _BITS[type_] else None


def _literals_of_keys(
    plan: Plan, source: DataSource, tokens: list[Token]
) -> tuple[tuple[int, ...], Plan] | None:
    """Where the literals of the keys stand, and the plan without their conditions."""
    project = plan.root.input if isinstance(plan.root, Limit) else plan.root
    if not isinstance(project, Project) or not isinstance(project.input, Filter):
        return None
    starts = {each.start: place for place, each in enumerate(tokens) if each.kind in _LITERALS}
    left = list(conjuncts(project.input.condition))
    places: list[int] = []
    for column in source.keys:
        found = next(_equalities(left, column, starts), None)
        if found is None or _value(tokens[found[1]], column.type) is None:
            return None
        left.remove(found[0])
        places.append(found[1])
    inner = project.input.input
    step = Filter(inner, exp.and_(*left, copy=True)) if left else inner
    return tuple(places), Plan(plan.kind, replace(project, input=step))


def _equalities(
    conditions: list[exp.Expr], column: Column, starts: dict[int, int]
) -> Iterator[tuple[exp.Expr, int]]:
    """Conditions that a key is equal to a literal, and the literal's place."""
    for each in conditions:
        if not isinstance(each, exp.EQ):
            continue
        for one, other in ((each.this, each.expression), (each.expression, each.this)):
            start = other.meta.get("start") if isinstance(other, exp.Literal) else None
            if start in starts and is_column(one, column.name):
                yield each, starts[start]
