"""Tables: duality, tombstones, old values, stored tables, versions."""

from __future__ import annotations

import pytest

from penstock.streams import App, Record, TopologyError, TopologyTest, integer, long, string


@pytest.fixture
def app() -> App:
    return App("app", key=string, value=integer)


def _piped(test: TopologyTest, *records: tuple) -> list[tuple]:
    for key, value in records:
        test.input("in").pipe(key, value)
    return test.output("out").read_values()


def test_a_table_is_its_changes_and_its_changes_are_the_table(app: App) -> None:
    app.table("in", store="rows").to_stream().to("out")
    test = TopologyTest(app)
    changes = _piped(test, ("a", 1), ("b", 2), ("a", 3), ("b", None), (None, 4), ("c", None))
    assert changes == [("a", 1), ("b", 2), ("a", 3), ("b", None), ("c", None)]
    assert dict(test.store("rows").all()) == {"a": 3}


def test_an_update_out_of_order_counts_as_the_latest(app: App) -> None:
    app.table("in", store="rows")
    test = TopologyTest(app)
    test.input("in").pipe("a", 1, timestamp=20)
    test.input("in").pipe("a", 2, timestamp=10)
    assert test.store("rows").get_with_timestamp("a") == (2, 10)


def test_a_table_that_nobody_reads_is_not_stored(app: App) -> None:
    app.table("in").filter(lambda k, v: v > 1).map_values(lambda v: v * 2, value=integer).to_stream().to(
        "out"
    )
    assert not app.topology().stores
    test = TopologyTest(app)
    # without old values a filter can't know whether the row existed, and sends a tombstone, as Kafka
    # Streams does
    assert _piped(test, ("a", 1), ("a", 2), ("a", 1)) == [("a", None), ("a", 4), ("a", None)]


def test_a_filter_with_old_values_sends_no_needless_tombstones(app: App) -> None:
    large = app.table("in").filter(lambda k, v: v > 1)
    large.group_by(lambda k, v: ("all", v)).sum().to_stream().to("out")
    assert list(app.topology().stores) == [
        "in-STATE-STORE-0000000000",
        "KTABLE-AGGREGATE-STATE-STORE-0000000005",
    ]
    test = TopologyTest(app)
    assert _piped(test, ("a", 1), ("a", 2), ("b", 3), ("a", 1), ("a", 0), ("b", None)) == [
        ("all", 2), ("all", 5), ("all", 3), ("all", 0)
    ]  # fmt: skip


def test_filter_not(app: App) -> None:
    app.table("in").filter_not(lambda k, v: v > 1).to_stream().to("out")
    assert _piped(TopologyTest(app), ("a", 1), ("a", 2)) == [("a", 1), ("a", None)]


def test_stored_filter_and_map(app: App) -> None:
    table = app.table("in")
    table.filter(lambda k, v: v > 1, store="large")
    table.map_values(lambda k, v: f"{k}{v}", with_key=True, value=string, store="text").to_stream().to("out")
    test = TopologyTest(app)
    assert _piped(test, ("a", 1), ("b", 2), ("b", 3), ("a", None)) == [
        ("a", "a1"), ("b", "b2"), ("b", "b3"), ("a", None)
    ]  # fmt: skip
    assert dict(test.store("large").all()) == {"b": 3}
    assert dict(test.store("text").all()) == {"b": "b3"}


def test_a_stored_map_knows_its_old_values_itself(app: App) -> None:
    doubled = app.table("in").map_values(lambda v: v * 2, value=integer, store="doubled")
    doubled.group_by(lambda k, v: ("all", v)).sum().to_stream().to("out")
    assert "in-STATE-STORE-0000000000" not in app.topology().stores
    assert _piped(TopologyTest(app), ("a", 1), ("a", 5), ("a", None)) == [("all", 2), ("all", 10), ("all", 0)]


def test_tombstones_are_not_given_to_functions(app: App) -> None:
    app.table("in").map_values(lambda v: v + 1, value=integer).to_stream().to("out")
    assert _piped(TopologyTest(app), ("a", None)) == [("a", None)]


def test_to_stream_with_another_key(app: App) -> None:
    app.table("in").to_stream(lambda k, v: k + k).to("out")
    assert _piped(TopologyTest(app), ("a", 1)) == [("aa", 1)]


def test_a_stream_as_a_table_behind_a_new_key(app: App) -> None:
    app.stream("in").select_key(lambda k, v: None if v == 0 else str(v % 2)).to_table(store="rows")
    test = TopologyTest(app, partitions=2)
    _piped(test, ("a", 1), ("b", 2), ("c", 3), ("d", 0))
    rows = {key: value for partition in (0, 1) for key, value in test.store("rows", partition).all()}
    assert rows == {"0": 2, "1": 3}
    assert list(app.topology().repartitions) == ["KSTREAM-TOTABLE-0000000002-repartition"]


def test_a_changed_table_keeps_timestamps_and_headers(app: App) -> None:
    app.table("in", store="rows").map_values(lambda v: v, value=integer).to_stream().to("out")
    test = TopologyTest(app)
    test.input("in").pipe("a", 1, timestamp=7, headers=(("h", b"x"),))
    assert test.output("out").read() == Record("a", 1, 7, (("h", b"x"),))


def test_the_topic_of_a_table_is_read_once(app: App) -> None:
    app.table("in")
    with pytest.raises(TopologyError, match="topic in is already read by KSTREAM-SOURCE-0000000001"):
        app.table("in")


def test_two_stores_of_one_name(app: App) -> None:
    app.table("in", store="rows")
    with pytest.raises(TopologyError, match="two stores are named rows"):
        app.table("other", store="rows")


def test_a_versioned_table_puts_late_updates_into_history(app: App) -> None:
    table = app.table("in", store="rows", history="100 ms")
    table.to_stream().to("out")
    table.group_by(lambda k, v: ("all", v)).sum(value=long).to_stream().to("sums")
    test = TopologyTest(app)
    for value, timestamp in [(1, 100), (2, 300), (3, 250), (4, 150), (5, 320)]:
        test.input("in").pipe("a", value, timestamp=timestamp)
    rows = test.store("rows")
    assert [rows.get("a", time) for time in (249, 250, 299, 300, 320)] == [1, 3, 3, 2, 5]
    # 4 was older than the history; 3 was not the latest, so no group saw it
    assert [value for _, value in test.output("out").read_values()] == [1, 2, 3, 5]
    assert [value for _, value in test.output("sums").read_values()] == [1, 2, 5]
