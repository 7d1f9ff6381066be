"""Pull queries over tables: rows of a view, looked up by key if WHERE names keys, else found by a scan.

The conditions on keys and windows only narrow the search: each row that is found is checked against all of
WHERE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, Final

from sqlglot import exp

from penstock.sql.analysis.plan import Filter, Limit, Plan, Project, Sink, Source
from penstock.sql.catalog import Catalog, DataSource
from penstock.sql.engine.ground.persistent_queries import PersistentQuery
from penstock.sql.engine.reading.results import Row
from penstock.sql.evaluation import UserFunctions, compile_condition, compile_row, compile_value
from penstock.sql.language import types
from penstock.sql.language.errors import SqlError
from penstock.sql.language.types import SqlType
from penstock.sql.planning.sources import NoTime, SourceTime
from penstock.topology.records import Record
from penstock.topology.serdes import Window, Windowed
from penstock.views import Entry, KeyValueView, Views

KEYS_MAX: Final = 100_000
"""Limit on keys looked up one by one. If lists for several columns combine to more, the table is scanned."""
_WITH_ORDER: Final = (types.STRING, types.INTEGER, types.BIGINT)
_BOUNDS: Final[dict[type, tuple[int | None, int | None]]] = {
    exp.EQ: (0, 0),
    exp.GT: (1, None),
    exp.GTE: (0, None),
    exp.LT: (None, -1),
    exp.LTE: (None, 0),
}
"""For a comparison with a time, what to add to it for the first and the last match; None: unbounded."""
_FLIPPED: Final[dict[type, type]] = {
    exp.EQ: exp.EQ,
    exp.GT: exp.LT,
    exp.LT: exp.GT,
    exp.GTE: exp.LTE,
    exp.LTE: exp.GTE,
}


@dataclass(frozen=True)
class Narrowed:
    """The part of a table that rows may be in.

    Either only ``keys``, or the keys from ``first`` to ``last`` where these are not None; and only windows
    that start from ``from_ms`` to ``to_ms``. All bounds are inclusive.
    """

    keys: tuple[tuple[Any, ...], ...] | None = None
    first: Any = None
    last: Any = None
    from_ms: int = 0
    to_ms: int | None = None


class PullQuery:
    """A compiled pull query over a table. Raises SqlError or EngineError if it can't be compiled."""

    def __init__(
        self, plan: Plan, query: PersistentQuery, catalog: Catalog, user_functions: UserFunctions
    ) -> None:
        root = plan.root.input if isinstance(plan.root, Limit) else plan.root
        assert isinstance(root, Project), "the analysis gives a pull query nothing else"
        step = root.input
        condition: exp.Expr | None = None
        if isinstance(step, Filter):
            condition, step = step.condition, step.input
        assert isinstance(step, Source), "the analysis gives a pull query nothing else"
        self.source, schema, functions = step.source, step.schema, catalog.functions
        self._holds: Callable[[Row], bool] | None = None
        self.narrowed = Narrowed()
        if condition is not None:
            self._holds = compile_condition(condition, schema, functions, user_functions)
            self.narrowed = _Narrowing(self.source, catalog, user_functions).of(condition)
        expressions = [each.expression for each in root.columns]
        self._row = compile_row(expressions, schema, functions, user_functions)
        self._computes_nothing = condition is None and all(map(_is_given, expressions))
        planned = query.planned
        assert planned.store is not None
        assert planned.row_of is not None
        self._store, self._row_of = planned.store, planned.row_of
        self._order = _order(query)
        self._is_windowed = self.source.window is not None
        has_column = query.plan is None and self.source.timestamp is not None
        self._time = SourceTime(self.source) if has_column else None
        # In a source table, the windows are part of the keys.
        self.has_lookups = query.plan is not None or not self._is_windowed
        if not self.has_lookups:
            self.narrowed = Narrowed()

    def at(self, key: tuple[Any, ...]) -> PullQuery:
        """The same query for a single key."""
        made = copy(self)
        made.narrowed = replace(self.narrowed, keys=(key,))
        return made

    @property
    def is_scan(self) -> bool:
        return self.narrowed.keys is None

    def is_range(self, views: Views) -> bool:
        """Whether it reads only the keys between two bounds, or beyond one."""
        view = views.store(self._store)
        return self.is_scan and isinstance(view, KeyValueView) and self._range(view) != (None, None)

    def rows(self, views: Views) -> Iterator[Row]:
        """Look up or scan the rows. Raises ViewError."""
        return self._rows(self._entries(views.store(self._store)))

    def rows_now(self, views: Views, key: tuple[Any, ...]) -> list[Row] | None:
        """The row of a key, found without waiting or computing; None if that is impossible.

        Raises ViewError.
        """
        view = views.store(self._store)
        if not self._computes_nothing or not isinstance(view, KeyValueView):
            return None
        answer = view.lookup_now(key)
        if answer is None:
            return None
        return [] if answer.value is None else list(self._rows([answer.value]))

    def _rows(self, entries: Iterable[Entry[Any, Any]]) -> Iterator[Row]:
        holds, row_of = self._holds, self._row
        for entry in entries:
            row = self._stored_row(entry)
            if row is not None and (holds is None or holds(row)):
                yield row_of(row)

    def _entries(self, view: Any) -> Iterator[Entry[Any, Any]]:
        narrowed = self.narrowed
        if isinstance(view, KeyValueView):
            if narrowed.keys is None:
                yield from view.range(*self._range(view))
                return
            for key in narrowed.keys:
                found = view.lookup(key).value
                if found is not None:
                    yield found
            return
        if narrowed.keys is None:
            # This view finds sessions by their ends, which say nothing about their starts.
            yield from view.all() if self._has_sessions else view.all(narrowed.from_ms, narrowed.to_ms)
            return
        for key in narrowed.keys:
            yield from view.fetch(key, narrowed.from_ms, narrowed.to_ms)

    def _range(self, view: KeyValueView[Any, Any]) -> tuple[Any, Any]:
        """The first and the last key in the order of the keys' bytes; None leaves a side open.

        Integers in stores and in KAFKA keys sort by value from 0 on, with all negative ones behind. Texts
        sort by value only in KAFKA keys.
        """
        first, last = self.narrowed.first, self.narrowed.last
        key = view.store.spec.key
        is_kafka = key is not None and key.name.startswith("KAFKA ")
        is_row = key is not None and key.name == "row"
        if isinstance(first, str) or isinstance(last, str):
            is_ordered = is_kafka
        else:
            is_ordered = (is_kafka or is_row) and first is not None and first >= 0
        if not is_ordered:
            return None, None
        return None if first is None else (first,), None if last is None else (last,)

    @property
    def _has_sessions(self) -> bool:
        return self.source.window is not None and self.source.window.size_ms is None

    def _stored_row(self, entry: Entry[Any, Any]) -> Row | None:
        """The row of an entry with its pseudo columns, as plans read it."""
        key, window = entry.key, entry.window
        if window is not None:
            key = Windowed(key, window)
        elif type(key) is Windowed:
            window = key.window
        made = self._row_of(key, entry.value)
        if made is None:
            return None
        if self._order is not None:
            made = tuple([made[place] for place in self._order])
        time_ms = entry.timestamp_ms
        if self._time is not None and time_ms is not None:
            try:
                time_ms = self._time(Record(key, entry.value, time_ms), -1)
            except NoTime:
                time_ms = -1
        if time_ms is None and window is not None:
            time_ms = window.end_ms
        bounds = _bounds(window) if self._is_windowed else ()
        return (*made, time_ms, None, None, *bounds)


def _bounds(window: Window | None) -> Row:
    return (None, None) if window is None else (window.start_ms, window.end_ms)


def _order(query: PersistentQuery) -> list[int] | None:
    """The positions of the table's columns in a store's rows; None if the order is the same."""
    if query.plan is None:
        return None
    assert isinstance(query.plan.root, Sink)
    given = [each.name for each in query.plan.root.input.schema]
    wanted = [each.name for each in query.sink.columns]
    return None if given == wanted else [given.index(name) for name in wanted]


class _Narrowing:
    """The analysis of a condition: which keys and windows it can hold for."""

    def __init__(self, source: DataSource, catalog: Catalog, user_functions: UserFunctions) -> None:
        self._keys = {each.name: each for each in source.keys}
        self._functions = catalog.functions
        self._user_functions = user_functions
        self._size_ms = None if source.window is None else source.window.size_ms
        self._is_windowed = source.window is not None

    def of(self, condition: exp.Expr) -> Narrowed:
        values: dict[str, list[Any]] = {}
        from_ms, to_ms = 0, None
        for each in conjuncts(condition):
            for name in self._keys:
                found = self._values(each, name)
                if found is not None:
                    values.setdefault(name, found)
            if self._is_windowed:
                low, high = self._window_bounds(each)
                from_ms = max(from_ms, low)
                to_ms = high if to_ms is None else to_ms if high is None else min(to_ms, high)
        keys = None
        if len(values) == len(self._keys) and prod(map(len, values.values())) <= KEYS_MAX:
            ordered = [values[name] for name in self._keys]
            # Compare by text, because arrays and structs have no hash.
            different = {repr(key): key for key in product(*ordered) if None not in key}
            keys = tuple(different.values())
        first, last = (None, None) if keys is not None else self._key_bounds(condition)
        if isinstance(first, int) and isinstance(last, int) and first > last:
            keys = ()
        return Narrowed(keys, first, last, from_ms, to_ms)

    def _key_bounds(self, condition: exp.Expr) -> tuple[Any, Any]:
        """The bounds of a key with a single column of text or integers; None leaves a side open."""
        [key, *others] = self._keys.values()
        first: Any = None
        last: Any = None
        if others or key.type not in _WITH_ORDER:
            return first, last
        for each in conjuncts(condition):
            for kind, one, other in _comparisons(each):
                value = self._constant(other, key.type) if is_column(one, key.name) else _UNKNOWN
                if value is _UNKNOWN or value is None or not _has_order_of_bytes(value):
                    continue
                if kind in (exp.GT, exp.GTE):
                    first = value if first is None else max(first, value)
                elif kind in (exp.LT, exp.LTE):
                    last = value if last is None else min(last, value)
        return first, last

    def _values(self, node: exp.Expr, key: str) -> list[Any] | None:
        """The only values of a key for which a condition can hold; None if it doesn't limit them."""
        node = node.unnest()
        if isinstance(node, exp.Or):
            left, right = self._values(node.this, key), self._values(node.expression, key)
            return None if left is None or right is None else left + right
        if isinstance(node, exp.In) and is_column(node.this, key):
            found = [self._constant(each, self._keys[key].type) for each in node.expressions]
            return None if _UNKNOWN in found or not found else found
        if isinstance(node, exp.EQ):
            for one, other in ((node.this, node.expression), (node.expression, node.this)):
                if is_column(one, key):
                    value = self._constant(other, self._keys[key].type)
                    return None if value is _UNKNOWN else [value]
        return None

    def _window_bounds(self, node: exp.Expr) -> tuple[int, int | None]:
        low_ms: int = 0
        high_ms: int | None = None
        for kind, one, other in _comparisons(node):
            shift_ms = self._shift_ms(one)
            value = _UNKNOWN if shift_ms is None else self._constant(other, types.BIGINT)
            if shift_ms is None or not isinstance(value, int):
                continue
            low, high = _BOUNDS[kind]
            if low is not None:
                low_ms = max(low_ms, value - shift_ms + low)
            if high is not None:
                at_ms = value - shift_ms + high
                high_ms = at_ms if high_ms is None else min(high_ms, at_ms)
        return low_ms, high_ms

    def _shift_ms(self, node: exp.Expr) -> int | None:
        """How many milliseconds a window bound is after the window's start; None for any other column."""
        if is_column(node, "WINDOWSTART"):
            return 0
        return self._size_ms if is_column(node, "WINDOWEND") else None

    def _constant(self, node: exp.Expr, type_: SqlType) -> Any:
        """The value of an expression without columns, converted to a key's type; else `_UNKNOWN`."""
        if node.find(exp.Column) is not None:
            return _UNKNOWN
        failures: list[Exception] = []
        try:
            value = compile_value(node, (), self._functions, self._user_functions, type_)
            value.report = lambda text, error: failures.append(error)
            made = value(())
        except SqlError:
            return _UNKNOWN
        return _UNKNOWN if failures else made


_UNKNOWN: Final = object()


def _is_given(node: exp.Expr) -> bool:
    """Whether a value is taken from the row or the text, without computation."""
    return isinstance(node.unnest(), (exp.Column, exp.Literal))


def is_column(node: exp.Expr, name: str) -> bool:
    """Whether an expression is a column, in parentheses or not."""
    found = node.unnest()
    return isinstance(found, exp.Column) and found.name == name


def _has_order_of_bytes(value: Any) -> bool:
    """Whether a text sorts like its bytes.

    Texts are compared as UTF-16, as in Java, whose order differs from that of the bytes from the surrogates
    on.
    """
    return not isinstance(value, str) or all(each < "\ud800" for each in value)


def _comparisons(node: exp.Expr) -> Iterator[tuple[type, exp.Expr, exp.Expr]]:
    """Yield the comparisons that a condition makes, each also with its sides swapped."""
    node = node.unnest()
    if isinstance(node, exp.Between):
        yield exp.GTE, node.this, node.args["low"]
        yield exp.LTE, node.this, node.args["high"]
    elif type(node) in _FLIPPED:
        yield type(node), node.this, node.expression
        yield _FLIPPED[type(node)], node.expression, node.this


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conditions that AND combines in a condition, or the condition itself."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node
