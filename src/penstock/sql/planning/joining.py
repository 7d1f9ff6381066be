"""Joins of streams and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from penstock.sql.analysis.plan import Join, JoinForm
from penstock.sql.catalog import Role
from penstock.sql.language.statements import JoinKind
from penstock.sql.planning.internal_serdes import row_serde
from penstock.sql.planning.row_operators import Nulls, RekeyRows, Row
from penstock.sql.planning.stages import Stage, Tools
from penstock.streams.construction.stream_joins import join_streams
from penstock.streams.construction.table_joins import join_foreign_key
from penstock.streams.dsl.stream import Stream
from penstock.streams.dsl.table import Table
from penstock.topology.serdes import Serde, Windowed
from penstock.topology.windows import JoinWindows

DAY_MS: Final = 86_400_000


def joined(join: Join, left: Stage, right: Stage, tools: Tools) -> Stage:
    rows = row_serde([each.type for each in join.schema])
    pair = Pair(join)
    if join.form is JoinForm.FOREIGN_KEY:
        made: Any = _foreign_key(join, left, right, pair, rows, tools)
        return Stage(made, join.schema)
    serde, key_format = _partitioning(join, left, right)
    kept = join.kind_of_join
    outer_left = kept in (JoinKind.LEFT, JoinKind.FULL)
    outer_right = kept in (JoinKind.RIGHT, JoinKind.FULL)
    one = _keyed(left, join.left_key, serde, key_format, tools, is_outer=outer_left)
    other = _keyed(right, join.right_key, serde, key_format, tools, is_outer=outer_right)
    if join.form is JoinForm.TABLE_TABLE:
        kinds = {
            JoinKind.INNER: one.join,
            JoinKind.LEFT: one.left_join,
            JoinKind.FULL: getattr(one, "outer_join", None),
        }
        if join.kind_of_join is JoinKind.RIGHT:
            assert isinstance(other, Table)
            both = other.left_join(one, pair.of_right, value=rows)
        else:
            both = kinds[join.kind_of_join](other, pair.of_values, value=rows)
        made = both.map_values(pair.with_key, with_key=True, value=rows)
    elif join.form is JoinForm.STREAM_TABLE:
        how = one.join if join.kind_of_join is JoinKind.INNER else one.left_join
        made = how(other, pair, with_key=True, value=rows)
    else:
        made = _streams(join, one, other, pair, rows)
    return Stage(made, join.schema, left.is_windowed, key_serde=serde, key_format=key_format)


def _streams(join: Join, one: Any, other: Any, pair: Pair, rows: Serde[Any]) -> Stream[Any, Any]:
    """Join two streams.

    With a grace period, a row without a match is emitted when its window has closed; without one, at once.
    """
    within = join.within
    assert within is not None, "the analysis asks for it"
    grace_ms = max(DAY_MS - 2 * within.before_ms, 0) if within.grace_ms is None else within.grace_ms
    is_swapped = join.kind_of_join is JoinKind.RIGHT
    before_ms, after_ms = within.before_ms, within.after_ms
    if is_swapped:
        one, other, before_ms, after_ms = other, one, after_ms, before_ms
    made = join_streams(
        one.handle,
        other.handle,
        pair.swapped if is_swapped else pair,
        JoinWindows(before_ms, after_ms, grace_ms),
        left_outer=join.kind_of_join is not JoinKind.INNER,
        right_outer=join.kind_of_join is JoinKind.FULL,
        value=rows,
        at_once=within.grace_ms is None,
    )
    return Stream(made)


def _foreign_key(
    join: Join, left: Stage, right: Stage, pair: Pair, rows: Serde[Any], tools: Tools
) -> Table[Any, Any]:
    assert isinstance(left.rows, Table)
    assert isinstance(right.rows, Table)
    reference = ForeignKey(tools.row([join.left_key], left.schema))
    made = join_foreign_key(
        left.rows.handle,
        right.rows.handle,
        reference,
        pair.of_values,
        outer=join.kind_of_join is not JoinKind.INNER,
        value=rows,
        tells_misses=False,
    )
    return Table(made)


class ForeignKey:
    """``(key, row) -> key of the other table``; None if that is null."""

    def __init__(self, reference: Callable[[Row], Row]) -> None:
        self._reference = reference

    def __call__(self, key: Any, row: Row) -> Row | None:
        found = self._reference(row)
        return None if found[0] is None else found


def _is_key(stage: Stage, key: exp.Expr) -> bool:
    keys = [each.name for each in stage.schema if each.role is Role.KEY]
    return isinstance(key, exp.Column) and keys == [key.name]


def _partitioning(join: Join, left: Stage, right: Stage) -> tuple[Serde[Any], tuple[str, ...]]:
    """The serde and the format of the key by which both sides are partitioned.

    If one side is partitioned by the join's key already, they are that side's, and its rows stay in place.
    """
    for stage, key in ((right, join.right_key), (left, join.left_key)):
        if _is_key(stage, key) and stage.key_serde is not None:
            return stage.key_serde, stage.key_format
    return row_serde([next(each.type for each in join.schema if each.name == join.key)]), ()


def _keyed(
    stage: Stage,
    key: exp.Expr,
    serde: Serde[Any],
    key_format: tuple[str, ...],
    tools: Tools,
    *,
    is_outer: bool,
) -> Any:
    """The rows under the key of the join. A row whose key is null has no match."""
    if isinstance(stage.rows, Table) or (_is_key(stage, key) and stage.key_format == key_format):
        return stage.rows
    nulls = Nulls.NO_KEY if is_outer else Nulls.DROP
    operator = RekeyRows(tools.row([key], stage.schema), nulls)
    return stage.rows.apply(operator, key=serde, rekeyed=True)


class Pair:
    """The function that combines a row of each side of a join.

    The columns of a missing side are null, except for the key. If the join has its own key, that comes first.
    """

    def __init__(self, join: Join) -> None:
        self._join = join
        left, right = join.left.schema, join.right.schema
        self._no_left, self._no_right = (None,) * len(left), (None,) * len(right)
        self._has_own_key = len(join.schema) > len(left) + len(right)
        places = {each.name: place for place, each in enumerate(join.schema)}
        self._key_place = -1 if self._has_own_key or join.key is None else places[join.key]

    def __reduce__(self) -> tuple[Any, ...]:
        return Pair, (self._join,)

    def of_values(self, left: Row | None, right: Row | None) -> Row:
        return (left or self._no_left) + (right or self._no_right)

    def of_right(self, right: Row | None, left: Row | None) -> Row:
        return self.of_values(left, right)

    def with_key(self, key: Any, row: Row) -> Row:
        place = self._key_place
        if not self._has_own_key and (place < 0 or row[place] is not None):
            return row
        if type(key) is Windowed:
            key = key.key
        value = None if key is None else key[0]
        return (value, *row) if self._has_own_key else (*row[:place], value, *row[place + 1 :])

    def __call__(self, key: Any, left: Row | None, right: Row | None) -> Row:
        return self.with_key(key, self.of_values(left, right))

    def swapped(self, key: Any, right: Row | None, left: Row | None) -> Row:
        return self(key, left, right)
