"""Versions and current rows after random changes in random batches, against a model. No Spark session."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from long_run import repetitions
from penstock.spark.changes.current import apply_to_current
from penstock.spark.changes.edits import END, SEQUENCE, START, current_edit, history_edit, versions_of
from penstock.spark.changes.events import Events, Kind
from penstock.spark.changes.history import apply_to_history
from penstock.spark.changes.sameness import Sameness, never_same
from penstock.spark.changes.targets.table import Edit

COLUMNS = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.string())])
STORED = pa.schema([*COLUMNS, (START, pa.int64()), (END, pa.int64())])
KEYS = ("id",)


@dataclass(frozen=True)
class Change:
    kind: Kind
    at: int
    row: tuple[int, int | None, str | None]
    kept: frozenset[int] = frozenset()


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


def changes_of(chance: random.Random, count: int, kinds: Sequence[Kind], ties: bool) -> list[Change]:
    at = 0
    made = []
    for _ in range(count):
        at += chance.choice((0, 1, 2)) if ties else chance.choice((1, 2))
        row = (chance.randrange(3), chance.choice((None, 1, 2)), chance.choice((None, "x", "y")))
        kept = frozenset(at for at in (1, 2) if chance.random() < 0.2)
        kind = chance.choices(kinds, [10, 3, 1][: len(kinds)])[0]
        made.append(Change(kind, at, row, kept if kind == Kind.PUT else frozenset()))
    return made


def batches(chance: random.Random, changes: list[Change]) -> Iterable[list[Change]]:
    while changes:
        size = chance.randint(1, 6)
        yield changes[:size]
        changes = changes[size:]


def events_of(batch: list[Change], existing: pa.Table) -> Events:
    rows = pa.table(
        [pa.array(each) for each in zip(*(c.row for c in batch), strict=True)], names=COLUMNS.names
    )
    return Events(
        kinds=[change.kind for change in batch],
        keys=[(change.row[0],) for change in batch],
        sequences=[change.at for change in batch],
        cells=pa.concat_tables([existing.select(COLUMNS.names), rows.cast(COLUMNS)]),
        first=existing.num_rows,
        kept={number: change.kept for number, change in enumerate(batch) if change.kept},
    )


def written(table: pa.Table, edit: Edit) -> pa.Table:
    """Apply an edit as a table does."""
    rows = {} if edit.everything else {identity(row, edit): row for row in table.to_pylist()}
    for row in edit.removed.to_pylist():
        rows.pop(identity(row, edit), None)
    rows |= {identity(row, edit): row for row in edit.put.to_pylist()}
    return pa.Table.from_pylist(list(rows.values()), schema=table.schema)


def identity(row: dict[str, Any], edit: Edit) -> tuple[Any, ...]:
    return tuple(row[name] for name in edit.identity)


def with_history(
    table: pa.Table, batch: list[Change], tracked: Sequence[int] | None, *, in_order: bool
) -> pa.Table:
    events = events_of(batch, table)
    before = versions_of(events, {START: table[START], END: table[END]}, KEYS)
    same = never_same if tracked is None else Sameness(events.cells, tracked)
    after = apply_to_history(events, before, same, in_order=in_order)
    return written(table, history_edit(events, before, after, pa.int64(), KEYS))


def by_key_and_start(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["id"], row.get(START, 0)))


class Model:
    """The state of each row at each moment at which it changed."""

    def __init__(self) -> None:
        self.states: dict[int, dict[int, tuple[Any, ...] | None]] = {}

    def apply(self, change: Change) -> None:
        if change.kind == Kind.TRUNCATE:
            for states in self.states.values():
                states[change.at] = None
            return
        states = self.states.setdefault(change.row[0], {})
        if change.kind == Kind.DELETE:
            states[change.at] = None
            return
        past = [at for at in states if at <= change.at]
        before = states[max(past)] if past else None
        states[change.at] = tuple(
            (None if before is None else before[at]) if at in change.kept else cell
            for at, cell in enumerate(change.row)
        )

    def current(self) -> list[dict[str, Any]]:
        rows = [states[max(states)] for _, states in sorted(self.states.items())]
        return [dict(zip(COLUMNS.names, row, strict=True)) for row in rows if row is not None]

    def versions(self, tracked: Sequence[int] | None) -> list[dict[str, Any]]:
        return [version for _, states in sorted(self.states.items()) for version in self._of(states, tracked)]

    @staticmethod
    def _is_same(one: tuple[Any, ...], other: tuple[Any, ...], tracked: Sequence[int] | None) -> bool:
        return tracked is not None and all(one[at] == other[at] for at in tracked)

    @staticmethod
    def _of(states: dict[int, tuple[Any, ...] | None], tracked: Sequence[int] | None) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        last: tuple[Any, ...] | None = None
        for at, row in sorted(states.items()):
            cells = None if row is None else dict(zip(COLUMNS.names, row, strict=True))
            if last is not None and row is not None and Model._is_same(last, row, tracked):
                made[-1] |= cells or {}
            else:
                if last is not None:
                    made[-1][END] = at
                if cells is not None:
                    made.append(cells | {START: at, END: None})
            last = row
        return made


@pytest.mark.longer
@pytest.mark.parametrize(("tracked", "ties"), [((1, 2), True), ((1, 2), False), ((1,), False)])
def test_versions_of_changes_in_order(chance: random.Random, tracked: Sequence[int], ties: bool) -> None:
    for _ in range(repetitions("PENSTOCK_CHANGE_HISTORIES", gate=8, long=3000)):
        table, model = STORED.empty_table(), Model()
        for batch in batches(chance, changes_of(chance, 30, list(Kind), ties)):
            table = with_history(table, batch, tracked, in_order=True)
            for change in batch:
                model.apply(change)
            assert by_key_and_start(table.to_pylist()) == model.versions(tracked)


@pytest.mark.longer
def test_versions_of_changes_that_arrive_late_and_twice(chance: random.Random) -> None:
    """Changes of one key have different sequences; a change that is repeated is the same change."""
    for _ in range(repetitions("PENSTOCK_CHANGE_HISTORIES", gate=8, long=3000)):
        changes = changes_of(chance, 25, [Kind.PUT], ties=False)
        changes = [Change(each.kind, each.at, each.row) for each in changes]
        model = Model()
        for change in changes:
            model.apply(change)
        arriving = changes + chance.sample(changes, 5)
        chance.shuffle(arriving)
        table = STORED.empty_table()
        for batch in batches(chance, arriving):
            batch = sorted(batch, key=lambda change: change.at)
            table = with_history(table, batch, None, in_order=False)
        assert by_key_and_start(table.to_pylist()) == model.versions(None)


@pytest.mark.longer
def test_current_rows_of_changes_that_arrive_late_and_twice(chance: random.Random) -> None:
    for _ in range(repetitions("PENSTOCK_CHANGE_HISTORIES", gate=8, long=3000)):
        changes = changes_of(chance, 25, [Kind.PUT], ties=False)
        changes = [Change(each.kind, each.at, each.row) for each in changes]
        model = Model()
        for change in changes:
            model.apply(change)
        arriving = changes + chance.sample(changes, 5)
        chance.shuffle(arriving)
        table = pa.schema([*COLUMNS, (SEQUENCE, pa.int64())]).empty_table()
        for batch in batches(chance, arriving):
            events = events_of(sorted(batch, key=lambda change: change.at), table)
            keys = events.existing_keys(KEYS)
            late = dict(zip(keys, table[SEQUENCE].to_pylist(), strict=True))
            current = apply_to_current(events, dict(zip(keys, range(len(keys)), strict=True)), late)
            table = written(table, current_edit(events, current, pa.int64(), KEYS))
        assert by_key_and_start(table.drop_columns([SEQUENCE]).to_pylist()) == model.current()


def test_a_late_truncate_keeps_newer_rows() -> None:
    stored = [{"id": 0, "a": 5, SEQUENCE: 9}, {"id": 1, "a": 6, SEQUENCE: 4}, {"id": 2, "a": 7}]
    table = pa.Table.from_pylist(stored, schema=pa.schema([*COLUMNS, (SEQUENCE, pa.int64())]))
    none = (0, None, None)
    batch = [
        Change(Kind.PUT, 6, (3, 1, None)),
        Change(Kind.TRUNCATE, 7, none),
        Change(Kind.PUT, 8, (1, 2, None), frozenset([2])),
    ]
    events = events_of(batch, table)
    current = apply_to_current(events, {(0,): 0, (1,): 1, (2,): 2}, {(0,): 9, (1,): 4})
    left = written(table, current_edit(events, current, pa.int64(), KEYS))
    assert [(row["id"], row["a"], row[SEQUENCE]) for row in by_id(left)] == [(0, 5, 9), (1, 2, 8)]


def by_id(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


@pytest.mark.longer
def test_current_rows_of_changes_in_order(chance: random.Random) -> None:
    for _ in range(repetitions("PENSTOCK_CHANGE_HISTORIES", gate=8, long=3000)):
        table, model = COLUMNS.empty_table(), Model()
        for batch in batches(chance, changes_of(chance, 30, list(Kind), ties=True)):
            events = events_of(batch, table)
            keys = events.existing_keys(KEYS)
            current = apply_to_current(events, dict(zip(keys, range(len(keys)), strict=True)), None)
            table = written(table, current_edit(events, current, None, KEYS))
            for change in batch:
                model.apply(change)
            assert by_key_and_start(table.to_pylist()) == model.current()
