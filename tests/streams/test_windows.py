"""Windows and suppress: their edges, time that passes without records, retention, restarts, and errors."""

from __future__ import annotations

import pytest

from penstock.streams import (
    App,
    TopologyError,
    TopologyTest,
    Window,
    Windowed,
    hopping,
    json,
    long,
    sessions,
    sliding,
    string,
    tumbling,
    until_time_limit,
    until_window_closes,
)
from penstock.topology.operators.suppress import BufferFull
from penstock.topology.stores.ordered_bytes import OrderedBytes
from penstock.topology.tasks.task import Task


@pytest.fixture
def app() -> App:
    return App("app", key=string, value=string)


def pipe(test: TopologyTest, *rows: tuple[str, str, int]) -> None:
    for key, value, timestamp_ms in rows:
        test.input("in").pipe(key, value, timestamp=timestamp_ms)


def test_a_timestamp_lies_in_size_by_advance_windows() -> None:
    assert list(hopping("10 ms", advance="4 ms").starts(21)) == [12, 16, 20]
    assert list(hopping("10 ms", advance="4 ms").starts(3)) == [0]
    assert list(tumbling("10 ms").starts(10)) == [10]


def test_the_guides_sliding_windows(app: App) -> None:
    """Kafka Streams' developer guide: records at 8000, 9200 and 12400 with a difference of 5000 ms."""
    counts = app.stream("in").group_by_key().windowed_by(sliding("5000 ms", grace="1 day")).count(store="c")
    counts.to_stream().to("out")
    test = TopologyTest(app)
    pipe(test, ("k", "A", 8000), ("k", "B", 9200), ("k", "C", 12400))
    assert list(test.store("c").fetch("k")) == [(3000, 1), (4200, 2), (7400, 3), (8001, 2), (9201, 1)]


def test_late_records_are_dropped_window_by_window_and_counted(app: App) -> None:
    windows = hopping("10 ms", advance="5 ms", grace="0 ms")
    app.stream("in").group_by_key().windowed_by(windows).count(store="c", name="count").to_stream().to("out")
    test = TopologyTest(app)
    pipe(test, ("k", "v", 21), ("k", "v", 14), ("k", "v", 9))
    assert list(test.store("c").all()) == [
        (Windowed("k", Window(15, 25)), 1),
        (Windowed("k", Window(20, 30)), 1),
    ]
    (task,) = test._tasks.values()
    assert task.context.dropped == {"count": 4}  # [5, 15) and [10, 20) of 14; [0, 10) and [5, 15) of 9


def test_sums_and_means_and_extremes_of_sessions() -> None:
    app = App("app", key=string, value=long)
    group = app.stream("in").group_by_key().windowed_by(sessions("5 ms", grace="1 second"))
    group.sum().to_stream(lambda w, v: w.key, key=string).to("sums")
    group.min().to_stream(lambda w, v: w.key, key=string).to("least")
    group.avg(value=json).to_stream(lambda w, v: w.key, key=string).to("means")
    test = TopologyTest(app)
    for value, timestamp_ms in ((1, 0), (3, 10), (8, 5)):  # the last one joins the two sessions
        test.input("in").pipe("k", value, timestamp=timestamp_ms)
    assert test.output("sums").read_all()[-1].value == 12
    assert test.output("least").read_all()[-1].value == 1
    assert test.output("means").read_all()[-1].value == 4.0


@pytest.mark.parametrize(
    ("windows", "last_open_ms"),
    [
        (tumbling("10 ms", grace="5 ms"), 14),
        (sliding("10 ms", grace="5 ms"), 5),
        (sessions("10 ms", grace="5 ms"), 15),
    ],
    ids=["tumbling", "sliding", "sessions"],
)
@pytest.mark.parametrize("suppressed", [False, True], ids=["on_close", "suppress"])
def test_final_results_come_when_time_passes_without_records(
    app: App, windows: object, last_open_ms: int, suppressed: bool
) -> None:
    group = app.stream("in").group_by_key()
    if suppressed:
        final = group.windowed_by(windows).count().suppress(until_window_closes())  # type: ignore[arg-type]
    else:
        final = group.windowed_by(windows, emit="on_close").count()  # type: ignore[arg-type]
    final.to_stream(lambda windowed, count: windowed.key, key=string).to("out")
    test = TopologyTest(app)
    pipe(test, ("k", "v", 0))
    test.advance_stream_time(last_open_ms if not isinstance(windows, type(sliding("1 ms"))) else 15)
    assert len(test.output("out")) == 0
    test.advance_stream_time(16)
    assert test.output("out").read_values() == [("k", 1)]
    test.advance_stream_time(1000)
    assert len(test.output("out")) == 0


def test_a_window_that_closed_in_a_batch_before_is_not_sent_again(app: App) -> None:
    final = app.stream("in").group_by_key().windowed_by(tumbling("10 ms"), emit="on_close")
    final.count(retention="1 hour").to_stream(lambda w, v: w.key, key=string).to("out")
    topology = app.topology()
    (part,) = topology.sub_topologies
    saved: dict[str, dict[bytes, bytes | None]] = {}
    sent = []
    for timestamp_ms in (1, 12, 25, 26):
        maps = {"$clocks": OrderedBytes(), **{spec.name: spec.new_map() for spec in part.stores}}
        for name, entries in saved.items():
            maps[name].apply(entries.items())
        task = Task(topology, part, 0, stores=maps, partition_counts={"in": 1, "out": 1})
        task.process(("in", 0, timestamp_ms, timestamp_ms, b"k", b"v", ()))
        sent.append(len(task.take_outputs()))
        for name, delta in task.take_deltas().items():
            saved.setdefault(name, {}).update(delta)
    assert sent == [0, 1, 1, 0]


def test_a_suppressed_table_is_grouped_by_what_was_sent(app: App) -> None:
    """The value that the group subtracts is the one it added, not one that was never sent."""
    held = app.table("in").suppress(until_time_limit("10 ms"))
    held.group_by(lambda key, value: ("all", value)).aggregate(
        lambda: "", lambda key, new, text: text + "+" + new, lambda key, old, text: text + "-" + old
    ).to_stream().to("out")
    test = TopologyTest(app)
    pipe(test, ("k", "a", 0), ("x", "x", 10), ("k", "b", 11), ("k", "c", 12), ("y", "y", 30))
    assert test.output("out").read_values() == [("all", "+a"), ("all", "+a+x"), ("all", "+a+x-a+c")]


def test_a_full_buffer_of_final_results_stops_the_application(app: App) -> None:
    counts = app.stream("in").group_by_key().windowed_by(tumbling("10 ms")).count()
    counts.suppress(until_window_closes(max_rows=2)).to_stream(lambda w, v: w.key, key=string).to("out")
    test = TopologyTest(app)
    pipe(test, ("a", "v", 0), ("b", "v", 0))
    with pytest.raises(BufferFull, match="3 rows"):
        pipe(test, ("c", "v", 0))


def test_bounds_in_bytes_let_the_oldest_go(app: App) -> None:
    app.table("in").suppress(until_time_limit("1 hour", max_bytes=100)).to_stream().to("out")
    test = TopologyTest(app)
    pipe(test, ("a", "x" * 40, 0), ("b", "y" * 40, 1))
    assert test.output("out").read_values() == [("a", "x" * 40)]


def test_what_waits_is_restored_from_its_changelog(app: App) -> None:
    app.table("in").suppress(until_time_limit("10 ms"), name="held").to_stream().to("out")
    topology = app.topology()
    (part,) = topology.sub_topologies
    first = Task(topology, part, 0, partition_counts={"in": 1, "out": 1})
    first.process(("in", 0, 0, 5, b"k", b"a", (("h", b"1"),)))
    deltas = first.take_deltas()
    maps = {"$clocks": OrderedBytes()}
    for spec in part.stores:
        maps[spec.name] = spec.new_map()
        for key, value in deltas.get(spec.name, {}).items():
            record = spec.to_changelog(key, value)
            assert record is not None
            maps[spec.name].apply([spec.from_changelog(record.key, record.value, record.timestamp_ms or 0)])
    second = Task(topology, part, 0, stores=maps, partition_counts={"in": 1, "out": 1})
    second.process(("in", 0, 1, 15, b"x", b"b", ()))
    assert second.take_outputs() == [("out", None, b"k", b"a", 5, (("h", b"1"),))]


def test_what_makes_no_windows_is_refused(app: App) -> None:
    group = app.stream("in").group_by_key()
    with pytest.raises(TopologyError, match=r"above 0 ms, not 0"):
        tumbling("0 ms")
    with pytest.raises(TopologyError, match=r"at most their size, 10 ms; found 11"):
        hopping("10 ms", advance="11 ms")
    with pytest.raises(TopologyError, match="merger"):
        group.windowed_by(sessions("1 ms")).aggregate(lambda: 0, lambda key, value, total: total)
    with pytest.raises(TopologyError, match="retention is at least that, not 5 ms"):
        group.windowed_by(tumbling("10 ms")).count(retention="5 ms")
    with pytest.raises(TopologyError, match="on_update or on_close"):
        group.windowed_by(tumbling("10 ms"), emit="never")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="needs a table of windows"):
        app.table("rows").suppress(until_window_closes())
    with pytest.raises(TopologyError, match="versioned"):
        app.table("history", history="1 hour").suppress(until_time_limit("1 second"))
