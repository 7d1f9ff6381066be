"""Build aggregations: groups, windows and aggregate functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from sqlglot import exp

from penstock.sql.analysis.plan import Aggregate, Computed
from penstock.sql.catalog import Column, Role
from penstock.sql.evaluation import RowFunction, builtin
from penstock.sql.language.statements import Window, WindowKind
from penstock.sql.planning.internal_serdes import row_serde, state_serde
from penstock.sql.planning.row_operators import Nulls, RekeyRows, Row, picker
from penstock.sql.planning.stages import Stage, Tools
from penstock.streams.dsl.grouped import GroupedStream
from penstock.streams.dsl.stream import Stream
from penstock.streams.dsl.table import Table
from penstock.streams.windows import AnyWindows
from penstock.topology.serdes import Windowed
from penstock.topology.windows import SessionWindows, TimeWindows

DAY_MS: Final = 86_400_000
STORE: Final = "Aggregate-Aggregate-Materialize"
GROUPING: Final = "Aggregate-GroupBy"


def aggregated(step: Aggregate, source: Stage, tools: Tools, *, is_final: bool = False) -> Stage:
    """Build the table of a step's groups. Its rows have the keys, the results, and the window if any."""
    calls = Calls(step.calls, source.schema, tools)
    if isinstance(source.rows, Table):
        states = _of_table(step, source.rows, source.schema, calls, tools)
    else:
        states = _of_stream(step, source.rows, source, calls, tools, is_final)
    results = Results(calls, len(step.keys), [each.name for each in step.schema])
    rows = states.map_values(
        results,
        with_key=True,
        value=row_serde([each.type for each in step.schema]),
    )
    return Stage(rows, step.schema, store=STORE, row_of=results)


class Calls:
    """The aggregate functions of a step. Their states are kept together in a list."""

    def __init__(self, computed: Sequence[Computed], schema: Sequence[Column], tools: Tools) -> None:
        arguments: list[exp.Expr] = []
        self._spans: list[tuple[int, int]] = []
        self.functions: list[Any] = []
        for each in computed:
            call = each.expression
            given = [each for each in call.expressions if not isinstance(each, exp.Star)]
            constants = [tools.constant(argument) for argument in given]
            types = [tools.type_of(argument, schema) for argument in given]
            self._spans.append((len(arguments), len(arguments) + len(given)))
            arguments += given
            function = builtin.AGGREGATES[call.name]
            self.functions.append(function.bind(tuple(types), tuple(constants), tools.settings))
        self._arguments: RowFunction = tools.row(arguments, schema)
        self._made_of = (tuple(computed), tuple(schema), tools)

    def __reduce__(self) -> tuple[Any, ...]:
        return Calls, self._made_of

    def initial(self) -> list[Any]:
        return [function.initial() for function in self.functions]

    def add(self, key: Any, row: Row, states: list[Any]) -> list[Any]:
        values = self._arguments(row)
        return [
            function.add(state, *values[begin:end])
            for function, state, (begin, end) in zip(self.functions, states, self._spans, strict=True)
        ]

    def undo(self, key: Any, row: Row, states: list[Any]) -> list[Any]:
        values = self._arguments(row)
        return [
            function.undo(state, *values[begin:end])
            for function, state, (begin, end) in zip(self.functions, states, self._spans, strict=True)
        ]

    def merge(self, key: Any, one: list[Any], other: list[Any]) -> list[Any]:
        return [
            function.merge(left, right)
            for function, left, right in zip(self.functions, one, other, strict=True)
        ]

    def results(self, states: list[Any]) -> Row:
        return tuple([function.result(state) for function, state in zip(self.functions, states, strict=True)])


class Results:
    """``(key, states) -> row``. A group's row has no time of its own, so ROWTIME is null."""

    def __init__(self, calls: Calls, keys: int, names: Sequence[str]) -> None:
        self._made_of = (calls, keys, tuple(names))
        self._calls = calls
        computed = keys + len(calls.functions)
        self._pick = picker(
            [*range(computed), *(computed + _SYSTEM.index(name) for name in names[computed:])]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Results, self._made_of

    def __call__(self, key: Any, states: list[Any]) -> Row:
        if type(key) is Windowed:
            bounds: Row = (key.window.start_ms, key.window.end_ms)
            key = key.key
        else:
            bounds = (None, None)
        return self._pick((*key, *self._calls.results(states), None, *bounds))


_SYSTEM: Final = ("ROWTIME", "WINDOWSTART", "WINDOWEND")


def _is_grouped_already(step: Aggregate, schema: Sequence[Column]) -> bool:
    """Whether the rows' key is the group already."""
    keys = [each.name for each in schema if each.role is Role.KEY]
    return keys == [
        key.expression.name if isinstance(key.expression, exp.Column) else None for key in step.keys
    ]


def _of_stream(
    step: Aggregate, stream: Stream[Any, Any], source: Stage, calls: Calls, tools: Tools, is_final: bool
) -> Table[Any, Any]:
    key_of = tools.row([key.expression for key in step.keys], source.schema)
    serde = row_serde([key.type for key in step.keys])
    regroup = not _is_grouped_already(step, source.schema) or source.is_windowed
    keyed = stream.apply(RekeyRows(key_of, Nulls.DROP), key=serde, rekeyed=regroup)
    grouped: GroupedStream[Any, Any] = keyed.group_by_key(
        key=serde, value=row_serde([each.type for each in source.schema]), name=GROUPING
    )
    if step.window is None:
        return grouped.aggregate(
            calls.initial, calls.add, value=state_serde(), store=STORE, cached=tools.cached
        )
    windows = windows_of(step.window, is_final=is_final)
    cached = tools.cached and isinstance(windows, TimeWindows)
    windowed = grouped.windowed_by(windows, emit="on_close" if is_final else "on_update", cached=cached)
    retention = None
    if step.window.retention_ms is not None:
        retention = timedelta(milliseconds=max(step.window.retention_ms, windows.retention_ms))
    if isinstance(windows, SessionWindows):
        return windowed.aggregate(
            calls.initial, calls.add, calls.merge, value=state_serde(), store=STORE, retention=retention
        )
    return windowed.aggregate(calls.initial, calls.add, value=state_serde(), store=STORE, retention=retention)


def windows_of(window: Window, *, is_final: bool) -> AnyWindows:
    """Build windows, with ksqlDB's default grace period.

    By default, windows accept records for a day, but with EMIT FINAL only until they end.
    """
    size_ms = window.size_ms
    usual_ms = 0 if is_final else max(DAY_MS - size_ms, 0)
    grace_ms = usual_ms if window.grace_ms is None else window.grace_ms
    if window.kind is WindowKind.SESSION:
        return SessionWindows(size_ms, grace_ms)
    return TimeWindows(size_ms, window.advance_ms or size_ms, grace_ms)


def _of_table(
    step: Aggregate, table: Table[Any, Any], schema: Sequence[Column], calls: Calls, tools: Tools
) -> Table[Any, Any]:
    key_of = tools.row([key.expression for key in step.keys], schema)
    rows = row_serde([each.type for each in schema])
    serde = row_serde([key.type for key in step.keys])
    whole = table.filter(HasWholeKey(key_of))
    grouped = whole.group_by(Regrouping(key_of), key=serde, value=rows, name=GROUPING)
    return grouped.aggregate(calls.initial, calls.add, calls.undo, value=state_serde(), store=STORE)


class HasWholeKey:
    """A filter for rows without nulls in their group's key."""

    def __init__(self, key: Callable[[Row], Row]) -> None:
        self._key = key

    def __call__(self, key: Any, row: Row) -> bool:
        return None not in self._key(row)


class Regrouping:
    """``(key, row) -> (group, row)``: the grouping of a table."""

    def __init__(self, key: Callable[[Row], Row]) -> None:
        self._key = key

    def __call__(self, key: Any, row: Row) -> tuple[Row, Row]:
        return self._key(row), row
