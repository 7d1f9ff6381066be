"""Pull queries that were seen before with other keys: these are neither parsed nor compiled again.

A pull query whose WHERE has `key = literal` for each key is the same query for every key. Clients send the
same text with different literals, so texts are compared literally except for the keys' values, and only
within the same state of the service.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from sqlglot import exp

from penstock.sql.analysis.plan import Filter, Limit, Plan, Project
from penstock.sql.catalog import Column, DataSource
from penstock.sql.engine.ground.persistent_queries import PersistentQuery
from penstock.sql.engine.ground.state import State
from penstock.sql.engine.reading.pull_query import PullQuery, conjuncts, is_column
from penstock.sql.engine.reading.results import ResultColumn
from penstock.sql.language import types
from penstock.sql.language.types import SqlType

SHAPES_MAX: Final = 1_000
_TEXT_MAX: Final = 4_096
"""Limit on the length of a text; longer ones are parsed in full each time."""
_LITERAL: Final = re.compile(r"('(?:[^']|'')*'|\b[0-9]+\b)", re.ASCII)
"""The lexer's strings and integers, for a text without any other quotes."""
_OTHER_QUOTES: Final = re.compile(r"--|/\*|[\"`]")
"""If one of these occurs outside of strings, a quote may belong to something other than a string."""
_BITS: Final[dict[SqlType, int]] = {types.INTEGER: 32, types.BIGINT: 64}

Shape = tuple[str, ...]
"""The parts of a text between its literals."""
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Lookup:
    """A compiled pull query over a table.

    ``lag_max`` limits how many records the table may lag behind its topic. ``places`` are the positions of
    the keys' literals among all literals of the text, and ``others`` the texts of the other literals.
    """

    pull: PullQuery
    query: PersistentQuery
    columns: tuple[ResultColumn, ...]
    limit: int | None
    lag_max: int
    places: tuple[int, ...] = ()
    others: tuple[str, ...] = ()

    def key(self, literals: list[str]) -> Key | None:
        """The key that these literals name; None if other literals differ or one doesn't fit its type."""
        if self.others != _others(literals, self.places):
            return None
        columns = self.pull.source.keys
        key = tuple(
            _value(literals[place], each.type) for place, each in zip(self.places, columns, strict=True)
        )
        return None if None in key else key


class KnownLookup(NamedTuple):
    """A lookup, and the key to look up."""

    lookup: Lookup
    key: Key


class Lookups:
    """The lookups known for one state at a time. Any thread may call it."""

    def __init__(self) -> None:
        self._learnt: tuple[State | None, dict[Shape, Lookup]] = (None, {})
        self._lock = threading.Lock()

    def find(self, text: str, state: State) -> KnownLookup | None:
        """The lookup of a text, if `learn` has seen one like it in this state."""
        of_state, known = self._learnt
        if state is not of_state or len(text) > _TEXT_MAX or "${" in text:
            return None
        shape, literals = _taken_apart(text)
        lookup = known.get(shape)
        key = None if lookup is None else lookup.key(literals)
        return None if lookup is None or key is None else KnownLookup(lookup, key)

    def learn(self, text: str, state: State, plan: Plan, lookup: Lookup) -> None:
        """Remember the lookup of a text if its form allows that."""
        if len(text) > _TEXT_MAX or "${" in text or not lookup.pull.has_lookups:
            return
        shape, literals = _taken_apart(text)
        if any(_OTHER_QUOTES.search(part) for part in shape):
            return
        starts = {match.start(): place for place, match in enumerate(_LITERAL.finditer(text))}
        found = _literals_of_keys(plan, lookup.pull.source, starts, literals)
        if found is None:
            return
        places, rest = found
        pull = PullQuery(rest, lookup.query, state.catalog, state.user_functions)
        made = replace(lookup, pull=pull, places=places, others=_others(literals, places))
        with self._lock:
            of_state, known = self._learnt
            if of_state is not state or len(known) >= SHAPES_MAX:
                known = {}
            self._learnt = state, {**known, shape: made}


def _taken_apart(text: str) -> tuple[Shape, list[str]]:
    parts = _LITERAL.split(text)
    return tuple(parts[::2]), parts[1::2]


def _others(literals: list[str], places: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(each for place, each in enumerate(literals) if place not in places)


def _value(literal: str, type_: SqlType) -> Any:
    """The key that a literal stands for; None if the literal doesn't fit the type."""
    if literal[0] == "'":
        return literal[1:-1].replace("''", "'") if type_ == types.STRING else None
    if type_ not in _BITS:
        return None
    value = int(literal)
    return value if value.bit_length() < _BITS[type_] else None


def _literals_of_keys(
    plan: Plan, source: DataSource, starts: dict[int, int], literals: list[str]
) -> tuple[tuple[int, ...], Plan] | None:
    """The positions of the keys' literals, and the plan without their conditions."""
    project = plan.root.input if isinstance(plan.root, Limit) else plan.root
    if not isinstance(project, Project) or not isinstance(project.input, Filter):
        return None
    left = list(conjuncts(project.input.condition))
    places: list[int] = []
    for column in source.keys:
        found = next(_equalities(left, column, starts, literals), None)
        if found is None or _value(literals[found[1]], column.type) is None:
            return None
        left.remove(found[0])
        places.append(found[1])
    inner = project.input.input
    step = Filter(inner, exp.and_(*left, copy=True)) if left else inner
    return tuple(places), Plan(plan.kind, replace(project, input=step))


def _equalities(
    conditions: list[exp.Expr], column: Column, starts: dict[int, int], literals: list[str]
) -> Iterator[tuple[exp.Expr, int]]:
    """Yield the conditions that a key equals a literal, with the literal's position.

    A number that is not an integer appears as two literals in the text, so it is left out.
    """
    for each in conditions:
        if not isinstance(each, exp.EQ):
            continue
        for one, other in ((each.this, each.expression), (each.expression, each.this)):
            place = starts.get(other.meta.get("start", -1)) if isinstance(other, exp.Literal) else None
            if place is None or not is_column(one, column.name):
                continue
            if other.is_string or other.this == literals[place]:
                yield each, place
