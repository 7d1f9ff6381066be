"""All parts of an application's query, without Spark, agree with TopologyTest.

They do so wherever batches are cut, whichever worker runs them, and wherever state is restored from.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams_cases import OPERATORS, answers_of, app_of, comparable, rows_of
from streams_without_spark import Simulation

from penstock.protocol.murmur2 import partition_for_key
from penstock.spark.streams.planning.grouping import group_of, partition_of, spark_hash
from penstock.spark.streams.planning.plan import TopologyChanged
from penstock.spark.streams.state.log import Changes
from penstock.spark.streams.tasks.runner import changelog_block
from penstock.streams import App, TopologyTest, json, long, raw, sessions, sliding, string, tumbling
from penstock.streams.windows import AnyWindows
from penstock.topology.errors import RecordFailed
from penstock.topology.stores.state_stores import KeyValueSpec


def counts_app() -> App:
    app = App("counts", key=string, value=string)
    app.stream("words").group_by_key().count(store="counts").to_stream().to("totals")
    return app


def rekeyed_app() -> App:
    """An application with a map side, a shuffle, state, and a repartition topic on the cluster."""
    app = App("rekeyed", key=string, value=string)
    by_letter = app.stream("words").flat_map_values(lambda text: text.split(",")).group_by(lambda k, v: v)
    table = by_letter.count(store="letters")
    table.to_stream().to("letters")
    table.group_by(lambda letter, n: ("odd" if n % 2 else "even", n), value=long).sum(
        store="sums"
    ).to_stream().to("sums")
    return app


def joined_app() -> App:
    app = App("joined", key=string, value=string)
    users = app.table("users", store="users")
    app.stream("words").join(users, lambda word, user: f"{word}@{user}").to("joined")
    return app


def windowed_app(topic: str | None = None) -> App:
    """Windows over a key that tasks with state choose, through a repartition topic or ``topic``."""
    app = App("windowed", key=string, value=string)
    words = app.stream("words")
    words.group_by_key().count(store="counts")  # gives the part of the topology state
    if topic is None:
        by_value = words.group_by(lambda key, value: value)
    else:
        words.map(lambda key, value: (value, value)).to(topic)
        by_value = app.stream(topic).group_by_key()
    counts = by_value.windowed_by(tumbling("100 ms", grace="20 ms")).count(store="windows")
    counts.to_stream().map(lambda w, n: (f"{w.key}@{w.window.start_ms}", str(n))).to("windows")
    return app


def mapped_app() -> App:
    app = App("mapped", key=string, value=string)
    app.stream("words").map_values(str.upper).filter(lambda k, v: len(v) > 1).to("loud")
    return app


APPS: dict[str, tuple[Callable[[], App], dict[str, int], list[str]]] = {
    "counts": (counts_app, {"words": 3}, ["totals"]),
    "rekeyed": (rekeyed_app, {"words": 2}, ["letters", "sums"]),
    "joined": (joined_app, {"words": 2, "users": 2}, ["joined"]),
    "mapped": (mapped_app, {"words": 2}, ["loud"]),
}


def test_counts_come_out_with_their_changelog() -> None:
    simulation = Simulation(counts_app(), {"words": 1})
    for n, word in enumerate(["a", "b", "a"]):
        simulation.write("words", word.encode(), b"x", 100 + n)
    simulation.run()
    one, two = (n.to_bytes(8, "big") for n in (1, 2))
    assert simulation.written("totals") == [(b"a", one, 100), (b"b", one, 101), (b"a", two, 102)]
    assert simulation.written("counts-counts-changelog") == [(b"a", two, 102), (b"b", one, 101)]


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["words", "words", "users"]),
        st.sampled_from("abcde"),
        st.sampled_from(["x", "y", "x,y", "zz,x"]),
        st.integers(0, 40),
    ),
    max_size=25,
)


@pytest.mark.parametrize("name", APPS)
@settings(max_examples=40)
@given(records=RECORDS, max_rows=st.integers(1, 10), seed=st.integers(0, 2**20))
def test_the_query_agrees_with_the_test_driver(name: str, records: list, max_rows: int, seed: int) -> None:
    """Final tables are equal for records of one partition at a time in order.

    The driver takes them one by one in the order of the tasks: by batch and time.
    """
    make, partitions, outputs = APPS[name]
    simulation = Simulation(make(), partitions, random.Random(seed), workers=3)
    # In order of time, so that the order of records doesn't depend on where batches are cut.
    for number, (topic, key, value, _) in enumerate(records):
        if topic in partitions:
            simulation.write(topic, key.encode(), value.encode(), number)
    test = TopologyTest(make(), partitions=simulation.plan.partition_counts)
    if name != "joined":
        for number, (topic, key, value, _) in enumerate(records):
            if topic in partitions:
                test.input(topic).pipe(key, value, timestamp=number)
        simulation.run(max_rows)
        for topic in outputs:
            expected = test.output(topic).read_table()
            assert as_table(make(), simulation, topic) == expected
            if name != "rekeyed":
                assert len(simulation.written(topic)) == len(_all(make, partitions, records, topic))
    else:  # a join depends on which side is read first: all in one batch
        for number, (topic, key, value, _) in enumerate(records):
            if topic in partitions:
                test.input(topic).pipe(key, value, timestamp=number)
        simulation.run()
        found = sorted(simulation.written("joined"))
        assert found == sorted(
            (r.key.encode(), r.value.encode(), r.timestamp_ms) for r in test.output("joined").read_all()
        )


def _all(make: Callable[[], App], partitions: dict[str, int], records: list, topic: str) -> list[Any]:
    test = TopologyTest(make(), partitions=partitions)
    for number, (name, key, value, _) in enumerate(records):
        if name in partitions:
            test.input(name).pipe(key, value, timestamp=number)
    return test.output(topic).read_all()


def as_table(app: App, simulation: Simulation, topic: str) -> dict[Any, Any]:
    """The topic as a table, read by the serdes of the test driver's output."""
    output = TopologyTest(app).output(topic)
    for key, value, timestamp_ms in simulation.written(topic):
        output._records.append((topic, None, key, value, timestamp_ms, ()))
    return output.read_table()


@pytest.mark.parametrize("topic", [None, "by-value"])
def test_a_batch_of_many_windows_makes_no_record_late(topic: str | None) -> None:
    """The tasks of one batch each send all windows; the topic's reader sees them as time advanced."""
    simulation = Simulation(windowed_app(topic), {"words": 6} | ({} if topic is None else {topic: 2}))
    for n in range(1000):
        simulation.write("words", b"key %d" % (n % 97), b"x", n)
    simulation.run()
    last = {key: value for key, value, _ in simulation.written("windows")}
    assert last == {b"x@%d" % start_ms: b"100" for start_ms in range(0, 1000, 100)}


def test_records_that_a_node_drops_are_counted_on_both_sides_of_the_shuffle() -> None:
    app = windowed_app()
    untimed = app.stream("untimed", timestamp=lambda record, at: -1 if record.value == "none" else 5)
    untimed.filter(lambda key, value: True).to("untimed-out")
    simulation = Simulation(app, {"words": 1, "untimed": 1, "untimed-out": 1})
    for ms in (1000, 2000, 0, 1001, 2001):  # two are late
        simulation.write("words", b"a", b"x", ms)
    simulation.run()
    windows = [name for name in simulation.dropped if "AGGREGATE" in name]
    assert dict(simulation.dropped) == dict.fromkeys(windows, 2)
    for value in (b"none", b"some", b"none"):
        simulation.write("untimed", b"a", value, 5)
    simulation.run()
    assert sorted(simulation.dropped.values()) == [2, 2]
    assert [value for _, value, _ in simulation.written("untimed-out")] == [b"some"]


def test_records_of_several_tasks_are_merged_by_the_time_of_each() -> None:
    """A task's own order stays, also of late records; equal times are in the order of the tasks."""
    simulation = Simulation(windowed_app("by-value"), {"words": 3, "by-value": 1})
    at = simulation.plan.partition_counts["words"]
    keys = {partition_for_key(key, at): key for key in (b"%d" % n for n in range(50))}
    for partition, times_ms in enumerate([(10, 30, 5, 40), (20, 30, 50), (1, 60, 2)]):
        for ms in times_ms:
            simulation.write("words", keys[partition], b"%d" % partition, ms)
    simulation.run()
    assert [(key, ms) for key, _, ms in simulation.written("by-value")] == [
        (b"2", 1),
        (b"0", 10),
        (b"1", 20),
        (b"0", 30),
        (b"0", 5),
        (b"1", 30),
        (b"0", 40),
        (b"1", 50),
        (b"2", 60),
        (b"2", 2),
    ]


@settings(max_examples=60)
@given(
    records=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), max_size=30),
    max_rows=st.integers(1, 10),
    seed=st.integers(0, 2**20),
)
def test_cuts_change_nothing_where_records_are_out_of_order(records: list, max_rows: int, seed: int) -> None:
    """The order of the log decides which record is too late for its window, and a row's last update."""

    def make() -> App:
        app = App("late", key=string, value=string)
        rows = app.stream("words")
        minutes = rows.group_by_key().windowed_by(tumbling("10 ms", grace="5 ms")).count(store="windows")
        minutes.to_stream(lambda at, count: f"{at.key}@{at.window.start_ms}").map_values(str).to("windows")
        by_length = rows.to_table(store="rows").group_by(lambda key, value: (value[-1], value))
        by_length.reduce(max, lambda kept, gone: kept, store="last").to_stream().to("last")
        return app

    simulation = Simulation(make(), {"words": 1}, random.Random(seed), workers=2)
    test = TopologyTest(make())
    for number, (key, timestamp_ms) in enumerate(records):
        simulation.write("words", key.encode(), b"%d" % number, timestamp_ms)
        test.input("words").pipe(key, f"{number}", timestamp=timestamp_ms)
    simulation.run(max_rows)
    for topic in ("windows", "last"):
        expected = [(r.key.encode(), r.value.encode(), r.timestamp_ms) for r in test.output(topic).read_all()]
        assert simulation.written(topic) == expected


@pytest.mark.parametrize("case", [case for case in OPERATORS if not app_of(case).topology().globals])
def test_each_operator_sends_what_the_test_driver_sends(case: str) -> None:
    app, rows = app_of(case), rows_of(case)
    topology = app.topology()
    simulation = Simulation(
        app, dict.fromkeys(topology.source_topics().keys() - owned_topics(app), 1), workers=2
    )
    for topic, key, value, timestamp_ms in rows:
        simulation.write(topic, key, value, timestamp_ms)
    simulation.run()
    expected = answers_of(case, rows)
    assert expected
    found = {topic: simulation.written(topic) for topic in expected}
    assert comparable(case, found) == comparable(case, expected)


def owned_topics(app: App) -> set[str]:
    return {app.topology().topic(name) for name in app.topology().repartitions}


def test_a_new_checkpoint_goes_on_from_the_changelogs() -> None:
    first = Simulation(rekeyed_app(), {"words": 2})
    test = TopologyTest(rekeyed_app(), partitions=first.plan.partition_counts)
    words = [("a", "x"), ("b", "x,y"), ("c", "zz,x,y")]
    for number, (key, value) in enumerate(words):
        first.write("words", key.encode(), value.encode(), number)
        test.input("words").pipe(key, value, timestamp=number)
    first.run()
    second = first.restored()
    for number, (key, value) in enumerate(words, 10):
        second.write("words", key.encode(), value.encode(), number)
        test.input("words").pipe(key, value, timestamp=number)
    second.run()
    for topic in ("letters", "sums"):
        assert as_table(rekeyed_app(), second, topic) == test.output(topic).read_table()


@pytest.mark.parametrize("case", [case for case in OPERATORS if not app_of(case).topology().globals])
def test_a_new_checkpoint_in_the_middle_changes_nothing(case: str) -> None:
    app, rows = app_of(case), rows_of(case)
    inputs = app.topology().source_topics().keys() - owned_topics(app)
    simulation = Simulation(app, dict.fromkeys(inputs, 1))
    for number, (topic, key, value, timestamp_ms) in enumerate(rows):
        if number % 3 == 0:
            simulation.run()
            simulation = simulation.restored()
        simulation.write(topic, key, value, timestamp_ms)
    simulation.run()
    expected = answers_of(case, rows)
    found = {topic: simulation.written(topic) for topic in expected}
    assert comparable(case, found) == comparable(case, expected)


@pytest.mark.parametrize("emit", ["on_close", "on_update"])
@pytest.mark.parametrize("windows", [tumbling("1 s"), sliding("1 s"), sessions("1 s")])
def test_with_a_new_checkpoint_what_was_late_is_late_and_what_was_sent_is_sent(
    windows: AnyWindows, emit: Literal["on_close", "on_update"]
) -> None:
    app = App("windows", key=string, value=string)
    windowed = app.stream("words").group_by_key().windowed_by(windows, emit=emit)
    counts = windowed.count(store="counts", retention="60 s").to_stream(
        lambda at, _: f"{at.key} {at.window.start_ms}"
    )
    counts.to("counted", key=string, value=long)
    simulation, test = Simulation(app, {"words": 1}), TopologyTest(app)
    for timestamp_ms in (0, 5000, 100, 5100, 300, 9000):
        simulation.write("words", b"a", b"x", timestamp_ms)
        simulation.run()
        simulation = simulation.restored()
        test.input("words").pipe("a", "x", timestamp=timestamp_ms)
    expected = test.output("counted", value=raw).read_all()
    assert [(key, value) for key, value, _ in simulation.written("counted")] == [
        (record.key.encode(), record.value) for record in expected
    ]


def test_named_stores_outlive_a_changed_topology() -> None:
    first = Simulation(counts_app(), {"words": 2})
    first.write("words", b"a", b"x", 1)
    first.run()

    def with_more_before_it() -> App:
        app = App("counts", key=string, value=string)
        app.stream("another").group_by_key().count(store="others").to_stream().to("others")
        app.stream("words").filter(lambda k, v: True).group_by_key().count(store="counts").to_stream().to(
            "totals"
        )
        return app

    second = Simulation(with_more_before_it(), {"words": 2, "another": 2})
    second.pages = first.pages
    second.write("words", b"a", b"x", 2)
    second.write("another", b"a", b"x", 2)
    second.run()
    assert [int.from_bytes(value or b"") for _, value, _ in second.written("totals")] == [2]
    assert [int.from_bytes(value or b"") for _, value, _ in second.written("others")] == [1]


def test_a_failed_record_stops_the_task_or_goes_to_the_dead_letters() -> None:
    def app(dead_letter: str | None) -> App:
        app = App("failing", key=string, value=json, dead_letter=dead_letter)
        app.stream("words").map_values(lambda v: v["n"]).to("out")
        return app

    simulation = Simulation(app(None), {"words": 1})
    simulation.write("words", b"a", b"{", 1)
    with pytest.raises(RecordFailed, match="words-0 at offset 0"):
        simulation.run()
    simulation = Simulation(app("dead"), {"words": 1})
    simulation.write("words", b"a", b"{", 1, (("h", b"1"),))
    simulation.write("words", b"b", b'{"n": 5}', 2)
    simulation.run()
    [letter] = simulation.logs["dead", 0]
    assert letter[:3] == (b"a", b"{", 1)
    assert dict(letter[3])["__streams.errors.offset"] == b"0"
    assert simulation.written("out") == [(b"b", b"5", 2)]


def test_an_unknown_partition_is_an_error() -> None:
    simulation = Simulation(counts_app(), {"words": 1})
    simulation.logs["words", 1] = [(b"a", b"x", 1, ())]
    with pytest.raises(TopologyChanged, match=r"words now has a partition 1, but had 1"):
        simulation.run()


def test_what_the_map_side_rekeys_needs_no_topic() -> None:
    simulation = Simulation(rekeyed_app(), {"words": 2})
    names = simulation.plan.topology.repartitions
    through_the_shuffle = simulation.plan.shuffled_topics
    assert len(names) == 2
    assert len(through_the_shuffle) == 1
    simulation.write("words", b"a", b"x,y", 1)
    simulation.run()
    assert not any(topic in through_the_shuffle for topic, _ in simulation.logs)
    assert any(topic.endswith("-repartition") for topic, _ in simulation.logs)


def test_groups_are_spread_over_the_shuffle_partitions() -> None:
    for shuffle_partitions in (1, 2, 3, 8):
        for partition in range(40):
            group = group_of(partition, shuffle_partitions)
            assert partition_of(group) == partition
            assert spark_hash(group) % shuffle_partitions == partition % shuffle_partitions


def test_spark_s_hash() -> None:
    """The hashes are those of ``SELECT hash(0), hash(1), hash(-1), hash(1048577)``."""
    assert [spark_hash(value) for value in (0, 1)] == [933211791, -559580957]


def test_the_changelog_of_the_usual_store_is_what_its_spec_makes_of_each_change() -> None:
    spec = KeyValueSpec(name="rows", key=raw, value=raw)
    entry = (123_456_789_000).to_bytes(8, "big")
    deltas: list[dict[bytes, bytes | None]] = [
        {b"a": entry + b"long value", b"": entry, b"gone": None, b"b": (-1).to_bytes(8, "big", signed=True)},
        {b"gone": None},
        {b"a": entry + b"1", b"b": entry + b"2"},
    ]
    for delta in deltas:
        block = changelog_block(spec, "rows-changelog", 3, delta, Changes.of(delta), 77)
        assert block is not None
        assert set(block.partitions.tolist()) == {3}
        expected = [spec.to_changelog(key, value) for key, value in delta.items()]
        assert [(key, value, time_ms) for _, _, _, time_ms, key, value, _ in block.inputs()] == [
            (record.key, record.value, 77 if record.timestamp_ms is None else record.timestamp_ms)
            for record in expected
        ]
