"""Aggregates of streams and of tables, with the cases of Kafka Streams' documentation."""

from __future__ import annotations

import pytest

from penstock.streams import (
    App,
    CoPartitioningError,
    Record,
    TopologyError,
    TopologyTest,
    double,
    integer,
    json,
    long,
    string,
)


@pytest.fixture
def app() -> App:
    return App("app", key=string, value=integer)


# The tables "KGroupedStream.aggregate" and "KGroupedTable.aggregate" in Kafka Streams' developer guide


def test_the_guides_table_of_a_grouped_stream(app: App) -> None:
    added = (
        app.stream("in")
        .group_by_key()
        .aggregate(lambda: 0, lambda key, value, total: total + value, value=integer, store="sums")
    )
    added.to_stream().to("out")
    test = TopologyTest(app)
    for key, value in [
        ("hello", 1), ("kafka", 1), ("hello", None), ("kafka", 2),
        ("streams", None), ("kafka", 1), ("kafka", 0),
    ]:  # fmt: skip
        test.input("in").pipe(key, value)
    assert test.output("out").read_values() == [
        ("hello", 1), ("kafka", 1), ("kafka", 3), ("kafka", 4), ("kafka", 4)
    ]  # fmt: skip
    assert dict(test.store("sums").all()) == {"hello": 1, "kafka": 4}


def test_the_guides_table_of_a_grouped_table() -> None:
    """The table userRegions, grouped by region; the aggregate sums the lengths of the users' names."""
    app = App("app", key=string, value=string)
    sums = (
        app.table("user-regions", store="user-regions")
        .group_by(lambda user, region: (region, len(user)), value=integer)
        .aggregate(
            lambda: 0,
            lambda region, length, total: total + length,
            lambda region, length, total: total - length,
            value=integer,
            store="lengths",
        )
    )
    sums.to_stream().to("out")
    test = TopologyTest(app)
    users = test.input("user-regions")
    out = test.output("out")
    steps = [
        ("alice", "E", [("E", 5)]),
        ("bob", "A", [("A", 3)]),
        ("charlie", "A", [("A", 10)]),
        ("alice", "A", [("E", 0), ("A", 15)]),
        ("bob", None, [("A", 12)]),
        (None, "E", []),
        ("dave", "E", [("E", 4)]),
    ]
    for user, region, expected in steps:
        users.pipe(user, region)
        assert out.read_values() == expected
    assert dict(test.store("lengths").all()) == {"A": 12, "E": 4}


def test_null_keys_and_values_of_a_stream_are_dropped(app: App) -> None:
    app.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    test = TopologyTest(app)
    for key, value in [(None, 1), ("a", None), ("a", 1)]:
        test.input("in").pipe(key, value)
    assert test.output("out").read_values() == [("a", 1)]


def test_a_null_group_is_dropped_before_the_repartition_topic(app: App) -> None:
    app.stream("in").group_by(lambda k, v: None if v == 1 else str(v)).count().to_stream().to("out")
    test = TopologyTest(app)
    test.input("in").pipe("a", 1)
    test.input("in").pipe("a", 2)
    assert test.output("out").read_values() == [("2", 1)]


def test_the_result_has_the_greatest_timestamp_so_far(app: App) -> None:
    app.stream("in").group_by_key().reduce(lambda a, b: a + b, store="s").to_stream().to("out")
    test = TopologyTest(app)
    for timestamp in (10, 30, 20):
        test.input("in").pipe("k", 1, timestamp=timestamp)
    assert test.output("out").read_all() == [Record("k", 1, 10), Record("k", 2, 30), Record("k", 3, 30)]
    assert test.store("s").get_with_timestamp("k") == (3, 30)


def test_an_aggregate_of_none_deletes_the_key(app: App) -> None:
    app.stream("in").group_by_key().aggregate(
        lambda: 0, lambda k, v, total: None if v < 0 else total + v, value=integer, store="s"
    ).to_stream().to("out")
    test = TopologyTest(app)
    for value in (5, -1, 2):
        test.input("in").pipe("k", value)
    assert test.output("out").read_values() == [("k", 5), ("k", None), ("k", 2)]


def test_a_reducer_is_not_called_for_the_first_value(app: App) -> None:
    calls: list[tuple[int, int]] = []

    def reducer(old: int, new: int) -> int:
        calls.append((old, new))
        return old - new

    app.stream("in").group_by_key().reduce(reducer).to_stream().to("out")
    test = TopologyTest(app)
    for value in (10, 1, 2):
        test.input("in").pipe("k", value)
    assert calls == [(10, 1), (9, 2)]
    assert test.output("out").read_values() == [("k", 10), ("k", 9), ("k", 7)]


def test_an_aggregator_may_change_the_aggregate_in_place(app: App) -> None:
    def append(key: str, value: int, seen: list[int]) -> list[int]:
        seen.append(value)
        return seen

    lists = app.stream("in").group_by_key().aggregate(list, append, value=json)
    # grouping the result needs old values, which the aggregator must not have changed
    lists.group_by(lambda k, seen: (str(len(seen)), 1), value=integer).count().to_stream().to("out")
    test = TopologyTest(app)
    test.input("in").pipe("a", 1)
    test.input("in").pipe("a", 2)
    assert test.output("out").read_values() == [("1", 1), ("1", 0), ("2", 1)]


def test_sum_min_max_avg_of_the_values(app: App) -> None:
    grouped = app.stream("in").group_by_key()
    grouped.sum().to_stream().to("sum")
    grouped.min().to_stream().to("min")
    grouped.max().to_stream().to("max")
    grouped.avg(value=double).to_stream().to("avg")
    test = TopologyTest(app)
    for value in (3, 1, 8):
        test.input("in").pipe("k", value)
    assert [value for _, value in test.output("sum").read_values()] == [3, 4, 12]
    assert [value for _, value in test.output("min").read_values()] == [3, 1, 1]
    assert [value for _, value in test.output("max").read_values()] == [3, 3, 8]
    assert [value for _, value in test.output("avg").read_values()] == [3.0, 2.0, 4.0]


def test_sum_min_max_avg_of_a_part_of_the_values() -> None:
    app = App("app", key=string, value=json)
    grouped = app.stream("in").group_by_key()
    grouped.sum(lambda v: v["n"], value=long).to_stream().to("sum")
    grouped.min(lambda v: v["n"], value=long).to_stream().to("min")
    grouped.max(lambda v: v["n"], value=long).to_stream().to("max")
    grouped.avg(lambda v: v["n"], value=double).to_stream().to("avg")
    test = TopologyTest(app)
    for number in (0, 5, 1):  # 0 must not count as missing
        test.input("in").pipe("k", {"n": number})
    found = {name: test.output(name).read_table()["k"] for name in ("sum", "min", "max", "avg")}
    assert found == {"sum": 6, "min": 0, "max": 5, "avg": 2.0}


def test_a_grouped_table_takes_back_what_a_row_gave(app: App) -> None:
    grouped = app.table("in").group_by(lambda k, v: ("odd" if v % 2 else "even", v))
    grouped.count().to_stream().to("count")
    grouped.sum().to_stream().to("sum")
    grouped.avg(value=double).to_stream().to("avg")
    grouped.reduce(lambda a, v: a + v, lambda a, v: a - v).to_stream().to("reduced")
    test = TopologyTest(app)
    for key, value in [("a", 1), ("b", 3), ("a", 5), ("a", 2), ("b", None)]:
        test.input("in").pipe(key, value)
    assert test.output("count").read_values() == [
        ("odd", 1), ("odd", 2), ("odd", 2), ("odd", 1), ("even", 1), ("odd", 0)
    ]  # fmt: skip
    assert test.output("sum").read_table() == {"odd": 0, "even": 2}
    assert test.output("avg").read_values() == [
        ("odd", 1.0), ("odd", 2.0), ("odd", 4.0), ("odd", 3.0), ("even", 2.0), ("odd", None)
    ]  # fmt: skip
    assert test.output("reduced").read_table() == {"odd": 0, "even": 2}


def test_a_group_or_value_of_none_takes_no_part(app: App) -> None:
    app.table("in").group_by(lambda k, v: (None if v < 0 else "g", v)).count().to_stream().to("out")
    test = TopologyTest(app)
    for value in (1, -1, 2):
        test.input("in").pipe("a", value)
    assert test.output("out").read_values() == [("g", 1), ("g", 0), ("g", 1)]


def test_keys_that_may_have_changed_are_repartitioned_and_others_not(app: App) -> None:
    app.stream("in").map_values(lambda v: v, value=integer).group_by_key().count()
    assert not app.topology().repartitions
    app.stream("in").map(lambda k, v: (k, v), key=string, value=integer).group_by_key().count(store="counts")
    assert list(app.topology().repartitions) == ["counts-repartition"]


def test_a_named_grouping_shares_its_repartition_topic(app: App) -> None:
    grouped = app.stream("in").group_by(lambda k, v: str(v), name="by-value")
    grouped.count(store="counts")
    grouped.sum(store="sums")
    assert list(app.topology().repartitions) == ["by-value-repartition"]
    assert [part.stateless for part in app.topology().sub_topologies] == [True, False]


def test_equal_keys_of_several_partitions_meet(app: App) -> None:
    app.stream("in").group_by(lambda k, v: "all").count(store="counts").to_stream().to("out")
    test = TopologyTest(app, partitions=3)
    for number in range(9):
        test.input("in").pipe(str(number), number, partition=number % 3)
    assert [value for _, value in test.output("out").read_values()] == list(range(1, 10))


def test_streams_that_are_grouped_together_share_an_aggregate() -> None:
    app = App("app", key=string, value=integer)
    put, taken = app.stream("put"), app.stream("taken")
    both = put.group_by_key().cogroup(lambda key, n, total: total + n)
    both = both.cogroup(taken.group_by(lambda key, n: key.lower()), lambda key, n, total: total - n)
    carts = both.aggregate(lambda: 0, store="carts")
    carts.to_stream().to("out")
    put.join(carts, lambda n, total: total).to("after-each")
    carts.group_by(lambda key, total: ("all", total)).sum(store="all")
    test = TopologyTest(app)
    for topic, key, value in [("put", "a", 5), ("taken", "A", 2), ("put", "b", 1), ("put", None, 9)]:
        test.input(topic).pipe(key, value)
    test.input("taken").pipe("a", None)
    assert test.output("out").read_values() == [("a", 5), ("a", 3), ("b", 1)]
    assert test.output("after-each").read_values() == [("a", 5), ("b", 1)]
    assert test.store("carts").get("a") == 3
    assert test.store("all").get("all") == 4


def test_a_stream_is_in_a_cogroup_once() -> None:
    grouped = App("app", key=string, value=integer).stream("in").group_by_key()
    with pytest.raises(TopologyError, match="is already in this group"):
        grouped.cogroup(lambda key, n, total: total).cogroup(grouped, lambda key, n, total: total)


def test_topics_that_are_cogrouped_have_as_many_partitions() -> None:
    app = App("app", key=string, value=integer)
    both = app.stream("one").group_by_key().cogroup(lambda key, n, total: total)
    both.cogroup(app.stream("two").group_by_key(), lambda key, n, total: total).aggregate(
        lambda: 0, store="both"
    )
    with pytest.raises(
        CoPartitioningError, match="the cogroup both needs topics with one number of partitions"
    ):
        TopologyTest(app, partitions={"one": 2, "two": 3})
