"""Functions over columns equal functions of one record, however the records are cut into batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams import (
    App,
    Processor,
    Record,
    RecordFailed,
    TopologyError,
    TopologyTest,
    double,
    hopping,
    key_value_store,
    long,
    string,
    tumbling,
    until_time_limit,
    vectorised,
)
from penstock.topology.records import Input, Output
from penstock.topology.tasks.task import Task

calls: list[int] = []
"""The number of values in each call."""


@vectorised(pa.int64())
def doubled(values: pa.Array) -> pa.Array:
    calls.append(len(values))
    if len(values) and 13 in values.to_pylist():
        raise ValueError("thirteen")
    return pc.multiply(values, 2)


@vectorised("Int64")
def is_even(values: pd.Series) -> pd.Series:
    calls.append(len(values))
    return values % 2 == 0


@vectorised(pa.string(), pa.int64())
def labelled(keys: pa.Array, values: pa.Array) -> pa.Array:
    calls.append(len(values))
    return pc.binary_join_element_wise(keys, pc.cast(values, pa.string()), "")


@vectorised(pa.int64())
def total(key: str, values: pa.Array, aggregate: int) -> int:
    calls.append(len(values))
    return aggregate + pc.sum(values).as_py()


def plain_doubled(value: int | None) -> int | None:
    if value == 13:
        raise ValueError("thirteen")
    return None if value is None else value * 2


def plain_is_even(key: str, value: int | None) -> bool:
    return value is not None and value % 2 == 0


def plain_labelled(key: str | None, value: int | None) -> str | None:
    return None if key is None or value is None else f"{key}{value}"


def plain_total(key: str, value: int, aggregate: int) -> int:
    return aggregate + value


Functions = tuple[Any, Any, Any, Any]
VECTORISED: Functions = doubled, is_even, labelled, total
PLAIN: Functions = plain_doubled, plain_is_even, plain_labelled, plain_total


class Latest(Processor[Any, Any, Any, Any]):
    """A processor that reports stream time and the key's previous value."""

    def process(self, record: Record[Any, Any]) -> None:
        store = self.context.store("latest")
        before = store.get(record.key or "none")
        store.put(record.key or "none", str(record.value), record.timestamp_ms)
        text = f"{before} {self.context.stream_time_ms} {self.context.origin}"
        self.context.forward(Record(record.key, text, record.timestamp_ms))


def one_after_the_other(app: App, f: Functions) -> None:
    app.stream("in").map_values(f[0]).filter(f[1]).map_values(f[0]).to("out")


def beside_others(app: App, f: Functions) -> None:
    """Records that pass the vectorised node and records that bypass it meet in one topic and one store."""
    stream = app.stream("in")
    mapped = stream.map_values(f[0])
    merged = stream.filter(lambda k, v: v != 3).merge(mapped, stream)
    merged.process(Latest, stores=[key_value_store("latest", value=string)]).to("out", value=string)
    stream.to("out")
    mapped.filter_not(f[1]).to("out")


def below_branches(app: App, f: Functions) -> None:
    branches = app.stream("in").split({"odd": lambda k, v: (v or 0) % 2}, default="even")
    branches["odd"].map_values(f[0]).merge(branches["even"]).to("out")
    branches["even"].select_key(f[2]).to("out")


def below_state(app: App, f: Functions) -> None:
    counts = app.stream("in").group_by_key().count(store="counts")
    counts.to_stream().map_values(f[0]).to("out")
    counts.suppress(until_time_limit("5 ms")).to_stream().filter(f[1]).to("late")


def in_a_join(app: App, f: Functions) -> None:
    rows = app.table("rows")
    joined = app.stream("in").map_values(f[0]).left_join(rows, lambda v, row: (v or 0) + (row or 0))
    joined.map_values(f[0]).to("out")
    rows.filter(lambda k, v: v > 2).to_stream().to("out")


def between_the_users_of_a_store(app: App, f: Functions) -> None:
    """The second user must see the first one's changes for the records so far, and no later ones."""
    latest = key_value_store("latest", value=string)
    first = app.stream("in").process(Latest, stores=[latest])
    first.to("out", value=string)
    app.stream("in").map_values(f[0]).process(Latest, stores=[latest]).to("out", value=string)


def rekeyed(app: App, f: Functions) -> None:
    by_label = app.stream("in").filter(lambda k, v: v is not None).select_key(f[2])
    by_label.group_by_key().count().to_stream().to("out")


def in_windows(app: App, f: Functions) -> None:
    windows = app.stream("in").group_by_key().windowed_by(tumbling("10 ms"))
    totals = windows.aggregate(lambda: 0, f[3], value=long)
    totals.to_stream(lambda at, n: f"{at.key}@{at.window.start_ms}").map_values(f[0]).to("out")


def past_several(app: App, f: Functions) -> None:
    """Records that bypass two such nodes follow those through both, and precede those of the next record."""
    stream = app.stream("in")
    once = stream.map_values(f[0])
    once.map_values(f[0]).merge(once, stream).process(
        Latest, stores=[key_value_store("latest", value=string)]
    ).to("out", value=string)


class Reminder(Processor[Any, Any, Any, Any]):
    """A processor that sends each record again 2 ms of stream time later, between others."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.set_timer(record.key, record.timestamp_ms + 2)
        self.context.forward(record)

    def on_timer(self, key: str, time_ms: int, kind: str) -> None:
        self.context.forward(Record(key, time_ms, time_ms))


def with_timers(app: App, f: Functions) -> None:
    before = app.stream("in").process(Reminder, timers=True, name="before")
    before.map_values(f[0]).process(Reminder, timers=True, name="behind", key=string, value=long).to("out")


SAME: list[Callable[[App, Functions], None]] = [
    one_after_the_other,
    beside_others,
    below_branches,
    below_state,
    in_a_join,
    between_the_users_of_a_store,
    rekeyed,
    in_windows,
    past_several,
    with_timers,
]

rows_of = st.lists(
    st.tuples(
        st.sampled_from(["in", "in", "rows"]),
        st.sampled_from("abc"),
        st.one_of(st.none(), st.integers(0, 14)),
        st.integers(0, 5),
    ),
    max_size=25,
)


def made(build: Callable[[App, Functions], None], functions: Functions) -> App:
    app = App("vectors", key=string, value=long, dead_letter="dead")
    build(app, functions)
    return app


def run(app: App, batches: list[list[Input]]) -> list[list[Output]]:
    """The records of each part's task; those to topics of the application arrive with the next batch."""
    topology = app.topology()
    parts = topology.source_topics()
    tasks = {part.id: Task(topology, part, 0, partition_counts={"out": 1}) for part in parts.values()}
    sent: list[list[Output]] = [[] for _ in tasks]
    inner: list[Input] = []
    for batch in [*batches, []]:
        rows, inner = [*inner, *batch], []
        for at, (number, task) in enumerate(tasks.items()):
            mine = [row for row in rows if row[0] in parts and parts[row[0]].id == number]
            task.process_all(mine)
            for output in task.take_outputs():
                if output[0] in parts:
                    topic, _, key, value, timestamp_ms, headers = output
                    inner.append((topic, 0, len(inner), timestamp_ms, key, value, headers))
                else:
                    sent[at].append(output)
    return sent


def inputs(rows: list[tuple[str, str, int | None, int]]) -> list[Input]:
    now_ms, found = 0, []
    for offset, (topic, key, value, step) in enumerate(rows):
        now_ms += step
        data = None if value is None else long.serialize(value)
        found.append((topic, 0, offset, now_ms, key.encode(), data, ()))
    return found


def cut(rows: list[Input], seed: int) -> list[list[Input]]:
    rng, batches = random.Random(seed), list[list[Input]]()
    while rows:
        size = rng.choice([1, 2, 5, 25])
        batches.append(rows[:size])
        rows = rows[size:]
    return batches


def without_traces(sent: list[list[Output]]) -> list[list[Output]]:
    """Remove the tracebacks of dead letters, and their place among the other topics' records.

    A traceback depends on the way to the function, and dead letters may be sent earlier or later.
    """
    kept = []
    for outputs in sent:
        kept.append([output for output in outputs if output[0] != "dead"])
        kept.append([(*output[:5], ()) for output in outputs if output[0] == "dead"])
    return kept


@pytest.mark.parametrize("build", SAME, ids=lambda build: build.__name__)
@settings(max_examples=60)
@given(rows=rows_of, seed=st.integers(0, 2**20))
def test_columns_and_records_give_the_same(
    build: Callable[[App, Functions], None], rows: list[tuple[str, str, int | None, int]], seed: int
) -> None:
    records = inputs(rows)
    expected = run(made(build, PLAIN), [[row] for row in records])
    assert without_traces(run(made(build, VECTORISED), cut(records, seed))) == without_traces(expected)


def test_a_batch_is_one_call() -> None:
    calls.clear()
    run(made(one_after_the_other, VECTORISED), [inputs([("in", "a", n, 1) for n in range(10)])])
    assert calls == [10, 10, 10]
    calls.clear()
    run(made(in_a_join, VECTORISED), [inputs([("in", "a", n, 1) for n in range(10)])])
    assert calls == [10, 10]


def cached_totals(app: App, f: Functions) -> None:
    totals = app.stream("in").group_by_key().aggregate(lambda: 0, f[3], value=long, store="totals")
    totals.to_stream().to("out")


WINDOWS = {
    "tumbling": tumbling("4 ms", grace="3 ms"),
    "hopping": hopping("6 ms", advance="2 ms", grace="2 ms"),
}


def cached(name: str) -> Callable[[App, bool], None]:
    def build(app: App, is_cached: bool) -> None:
        grouped = app.stream("in").group_by_key()
        if name in WINDOWS:
            windowed = grouped.windowed_by(WINDOWS[name], cached=is_cached)
            counted = windowed.aggregate(lambda: 0, lambda k, v, n: None if v == 7 else n + v, value=long)
            table: Any = counted
            table.to_stream(lambda at, n: f"{at.key}@{at.window.start_ms}").to("out", key=string)
            table.group_by(lambda at, v: ("all", 1), key=string, value=long).sum().to_stream().to("out")
            return
        if name == "reduce":
            table = grouped.reduce(lambda kept, new: max(kept, new), cached=is_cached)
        elif name == "aggregate":
            table = grouped.aggregate(
                lambda: 0, lambda k, v, n: None if v == 7 else n + v, value=long, cached=is_cached
            )
        elif name == "avg":
            table = grouped.avg(cached=is_cached, value=double)
        else:
            table = getattr(grouped, name)(cached=is_cached)
        table.to_stream().to("out")
        table.group_by(lambda k, v: ("all", 1), value=long).sum().to_stream().to("out")

    return build


def is_subsequence(few: list[Any], all_of_them: list[Any]) -> bool:
    rest = iter(all_of_them)
    return all(one in rest for one in few)


@pytest.mark.parametrize("name", ["count", "sum", "min", "max", "avg", "reduce", "aggregate", *WINDOWS])
@settings(max_examples=40)
@given(rows=rows_of, seed=st.integers(0, 2**20))
def test_a_cached_aggregate_sends_some_of_the_updates_and_the_last_ones(
    name: str, rows: list[tuple[str, str, int | None, int]], seed: int
) -> None:
    records = inputs(rows)
    sent = []
    for is_cached, batches in ((False, [[row] for row in records]), (True, cut(records, seed))):
        app = App("cached", key=string, value=long)
        cached(name)(app, is_cached)
        sent.append(run(app, batches))
    each, last = sent
    assert is_subsequence(last[0], each[0])
    for found, expected in zip(last, each, strict=True):
        assert final_rows(found) == final_rows(expected)


def final_rows(sent: list[Output]) -> dict[bytes, tuple[object, ...]]:
    """The last row of each key; of the number of keys the value alone, and none if it is 0.

    A key that is added and removed within a batch changes nothing for a function that is called by batch, but
    counts as two changes otherwise.
    """
    rows: dict[bytes, tuple[object, ...]] = {row[2]: row[3:] for row in sent}
    number = rows.pop(b"all", (long.serialize(0),))[0]
    return rows if number == long.serialize(0) else {**rows, b"all": (number,)}


@settings(max_examples=40)
@given(rows=rows_of, seed=st.integers(0, 2**20))
def test_a_vectorised_aggregator_gives_the_totals(
    rows: list[tuple[str, str, int | None, int]], seed: int
) -> None:
    records = inputs(rows)
    [each] = run(made(cached_totals, PLAIN), [[row] for row in records])
    [some] = run(made(cached_totals, VECTORISED), cut(records, seed))
    assert is_subsequence(some, each)
    assert {row[2]: row for row in some} == {row[2]: row for row in each}


def test_a_key_of_a_batch_is_one_call_of_the_aggregator() -> None:
    calls.clear()
    [sent] = run(made(cached_totals, VECTORISED), [inputs([("in", "ab"[n % 2], n, 1) for n in range(10)])])
    assert calls == [5, 5]
    assert [(row[2], row[3], row[4]) for row in sent] == [
        (b"a", long.serialize(20), 9),
        (b"b", long.serialize(25), 10),
    ]


def test_others_that_read_an_aggregate_see_every_update() -> None:
    app = App("read", key=string, value=long)
    stream = app.stream("in")
    counts = stream.group_by_key().count(cached=True)
    stream.join(counts, lambda value, count: count).to("out")
    [sent] = run(app, [inputs([("in", "a", 0, 1)] * 3)])
    assert [long.deserialize(row[3] or b"") for row in sent] == [1, 2, 3]


def test_the_record_to_blame_is_found() -> None:
    app = App("failing", key=string, value=long)
    app.stream("in").map_values(doubled).to("out")
    with pytest.raises(RecordFailed, match=r"MAPVALUES-\d+ failed on .*in-0 at offset 3"):
        run(app, [inputs([("in", "a", n, 1) for n in (10, 11, 12, 13, 14)])])


def test_too_few_results_are_an_error() -> None:
    @vectorised(pa.int64())
    def first(values: pa.Array) -> list[Any]:
        return values.to_pylist()[:0]

    app = App("failing", key=string, value=long)
    app.stream("in").map_values(first).to("out")
    with pytest.raises(RecordFailed, match="first> gave 0 results for 1 records"):
        run(app, [inputs([("in", "a", 1, 1), ("in", "a", 2, 1)])])


def test_results_may_be_arrays_series_numpy_arrays_and_lists() -> None:
    def of(function: Callable[[Any], Any], kind: Any) -> Any:
        return vectorised(kind)(function).many([1, None, 3])

    def given(results: pa.Array) -> Any:
        return of(lambda values: results, pa.int64())

    assert of(lambda values: values, pa.int64()) == [1, None, 3]
    assert of(lambda values: pa.chunked_array([values]), pa.int64()) == [1, None, 3]
    assert of(lambda values: values, "Int64") == [1, None, 3]
    assert of(lambda values: values.to_numpy(float), "float64")[::2] == [1.0, 3.0]
    assert of(lambda values: np.array([1, 2, 3]), "Int64") == [1, 2, 3]
    assert of(lambda values: ["a", "b", None], pa.int64()) == ["a", "b", None]
    for kind, column in (
        (pa.bool_(), [True, None, False]),
        (pa.string(), ["a", None, "ä"]),
        (pa.binary(), [b"a", None, b""]),
        (pa.float64(), [0.5, None, -1.0]),
        (pa.list_(pa.int8()), [[1], None, []]),
    ):
        assert given(pa.array(column, kind)) == column
    assert of(lambda values: values, "object") == [1, None, 3]
    assert all(type(value) is int for value in of(lambda values: np.array([1, 2, 3]), "Int64"))


def test_what_is_no_type_is_refused() -> None:
    with pytest.raises(TopologyError, match="takes the types of the columns"):
        vectorised(lambda values: values)
    with pytest.raises(TopologyError, match="takes the types of the columns"):
        vectorised()
    with pytest.raises(TopologyError, match="Arrow arrays or pandas Series, not both"):
        vectorised(pa.int64(), "Int64")(lambda keys, values: values)
    with pytest.raises(TopologyError, match="is an aggregator: expected one type"):
        App("app", key=string, value=long).stream("in").group_by_key().aggregate(lambda: 0, labelled)


def test_the_test_driver_takes_them() -> None:
    app = App("doubling", key=string, value=long)
    app.stream("in").map_values(doubled).filter(is_even).to("out")
    test = TopologyTest(app)
    for n in (1, 2):
        test.input("in").pipe("a", n)
    assert test.output("out").read_values() == [("a", 2), ("a", 4)]
