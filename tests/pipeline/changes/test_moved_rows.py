"""A change of a row's key moves the row, and keeps cells that the database did not log; without Spark."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from penstock.spark.changes.current import apply_to_current
from penstock.spark.changes.edits import current_edit
from penstock.spark.changes.envelope import parse_change
from penstock.spark.changes.events import Events, Kind

COLUMNS = pa.schema([("id", pa.int64()), ("small", pa.int64()), ("large", pa.string())])
LARGE = 2
"""The number of the column whose values may not be logged."""

Table = dict[int, tuple[int, str | None]]


class Source:
    """A table with random changes: kind, key, small cell, large cell (None if not logged), key before."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.rows: Table = {}
        self.next = 0

    def changes(self, count: int) -> list[tuple[Kind, int, int, str | None, int | None]]:
        return [self._change() for _ in range(count)]

    def _change(self) -> tuple[Kind, int, int, str | None, int | None]:
        rng = self.rng
        self.next += 1
        key = rng.choice(list(self.rows)) if self.rows else None
        choice = rng.random()
        if key is None or choice < 0.3:
            new = rng.randrange(20)
            self.rows[new] = (self.next, f"large {self.next}")
            return Kind.PUT, new, *self.rows[new], None
        if choice < 0.45:
            del self.rows[key]
            return Kind.DELETE, key, 0, None, None
        if choice < 0.7:
            self.rows[key] = (self.next, self.rows[key][1])
            return Kind.PUT, key, self.next, None, None
        if choice < 0.72:
            self.rows.clear()
            return Kind.TRUNCATE, 0, 0, None, None
        free = rng.choice([each for each in range(40) if each not in self.rows])
        self.rows[free] = (self.next, self.rows.pop(key)[1])
        return Kind.PUT, free, self.next, None, key


def applied(table: Table, changes: list[tuple[Kind, int, int, str | None, int | None]]) -> Table:
    """Apply changes as one batch does."""
    existing = [{"id": key, "small": small, "large": large} for key, (small, large) in table.items()]
    rows = [{"id": key, "small": small, "large": large} for _, key, small, large, _ in changes]
    events = Events(
        kinds=[kind for kind, *_ in changes],
        keys=[None if kind == Kind.TRUNCATE else (key,) for kind, key, *_ in changes],
        sequences=[],
        cells=pa.Table.from_pylist(existing + rows, COLUMNS),
        first=len(existing),
        kept={
            number: frozenset([LARGE])
            for number, (kind, _, _, large, _) in enumerate(changes)
            if kind == Kind.PUT and large is None
        },
        old_keys={number: (old,) for number, (*_, old) in enumerate(changes) if old is not None},
    )
    current = apply_to_current(events, {(key,): at for at, key in enumerate(table)}, None)
    edit = current_edit(events, current, None, ("id",))
    result = {} if edit.everything else dict(table)
    for row in edit.removed.to_pylist():
        result.pop(row["id"], None)
    for row in edit.put.to_pylist():
        result[row["id"]] = (row["small"], row["large"])
    return result


@pytest.mark.parametrize("seed", range(5))
def test_random_moves_keep_what_was_not_logged(seed: int) -> None:
    """Batches are cut anywhere."""
    rng = random.Random(seed)
    source = Source(rng)
    table: Table = {}
    for _ in range(60):
        table = applied(table, source.changes(rng.choice([1, 2, 5, 20])))
        assert table == source.rows


def parsed(value: dict[str, object], *keys: bytes | None) -> tuple[object, ...]:
    found = parse_change(json.dumps(value).encode(), keys, ("t", 0, 7), {})
    assert found is not None
    return found


def test_keys_are_converted_as_rows_are() -> None:
    """The key's date is a number of days in Debezium's records."""
    row = {
        "type": "struct",
        "field": "after",
        "fields": [
            {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
            {"field": "n", "type": "int64"},
        ],
    }
    payload = {"op": "c", "before": None, "after": {"day": 1, "n": 2}, "source": {}, "ts_ms": 1}
    value = {"schema": {"type": "struct", "fields": [row]}, "payload": payload}
    found = parsed(value, b'{"day":1,"n":2}', b'{"day":0,"n":2}', None)
    assert found[6:9] == ('{"day":"1970-01-02","n":2}', '{"day":"1970-01-01","n":2}', None)
    assert found[2] == found[6]


def test_records_without_keys() -> None:
    found = parsed({"op": "t", "source": {}}, None, None, None)
    assert found[6:9] == (None, None, None)
    assert found[9:] == ("t", 0, 7)
