"""Operations on single records, as the documentation of Kafka Streams' DSL describes them."""

from __future__ import annotations

import pytest

from penstock.protocol.murmur2 import partition_for_key
from penstock.streams import App, Record, TopologyError, TopologyTest, long, string


def _run(app: App, *records: tuple, out: str = "out") -> list[tuple]:
    test = TopologyTest(app)
    for key, value in records:
        test.input("in").pipe(key, value)
    return test.output(out).read_values()


@pytest.fixture
def app() -> App:
    return App("app", key=string, value=string)


def test_filter_and_its_opposite(app: App) -> None:
    stream = app.stream("in")
    stream.filter(lambda key, value: value == "a").to("out")
    stream.filter_not(lambda key, value: value == "a").to("rest")
    test = TopologyTest(app)
    for value in ("a", "b", None):
        test.input("in").pipe("k", value)
    assert test.output("out").read_values() == [("k", "a")]
    assert test.output("rest").read_values() == [("k", "b"), ("k", None)]


def test_map_takes_and_gives_key_and_value(app: App) -> None:
    app.stream("in").map(lambda key, value: (value, key)).to("out")
    assert _run(app, ("k", "v"), (None, "v")) == [("v", "k"), ("v", None)]


def test_map_values_with_and_without_the_key(app: App) -> None:
    app.stream("in").map_values(str.upper).map_values(lambda k, v: k + v, with_key=True).to("out")
    assert _run(app, ("k", "v")) == [("k", "kV")]


def test_flat_maps_give_any_number(app: App) -> None:
    app.stream("in").flat_map(lambda k, v: [(c, k) for c in v]).flat_map_values(lambda v: [v] * 2).to("out")
    assert _run(app, ("k", "ab"), ("k", "")) == [("a", "k"), ("a", "k"), ("b", "k"), ("b", "k")]


def test_flat_map_values_with_the_key(app: App) -> None:
    app.stream("in").flat_map_values(lambda k, v: (k, v), with_key=True).to("out")
    assert _run(app, ("k", "v")) == [("k", "k"), ("k", "v")]


def test_select_key(app: App) -> None:
    app.stream("in").select_key(lambda key, value: value[0]).to("out")
    assert _run(app, ("k", "value")) == [("v", "value")]


def test_peek_passes_on_and_foreach_ends(app: App) -> None:
    seen: list[object] = []
    app.stream("in").peek(lambda k, v: seen.append(("peek", k, v))).foreach(lambda k, v: seen.append((k, v)))
    assert _run(app, ("k", "v")) == []
    assert seen == [("peek", "k", "v"), ("k", "v")]


def test_merge_takes_records_as_they_come(app: App) -> None:
    app.stream("in").merge(app.stream("other"), app.stream("third")).to("out")
    test = TopologyTest(app)
    for topic in ("other", "in", "third"):
        test.input(topic).pipe("k", topic)
    assert [value for _, value in test.output("out").read_values()] == ["other", "in", "third"]


def test_a_record_takes_the_first_branch_that_it_fits(app: App) -> None:
    branches = app.stream("in").split(
        {"a": lambda k, v: v.startswith("a"), "ab": lambda k, v: v.startswith("ab")}, default="rest"
    )
    for name, stream in branches.items():
        stream.map_values(lambda v, name=name: f"{name}:{v}").to("out")
    assert [v for _, v in _run(app, ("k", "ab"), ("k", "b"), ("k", "a"))] == ["a:ab", "rest:b", "a:a"]


def test_without_a_default_branch_the_rest_goes_nowhere(app: App) -> None:
    app.stream("in").split({"a": lambda k, v: v == "a"})["a"].to("out")
    assert _run(app, ("k", "a"), ("k", "b")) == [("k", "a")]


def test_two_branches_of_one_stream_each_get_every_record(app: App) -> None:
    stream = app.stream("in")
    for number in range(3):
        stream.map_values(lambda v, n=number: f"{v}{n}").to("out")
    assert [v for _, v in _run(app, ("k", "v"))] == ["v0", "v1", "v2"]


def test_timestamp_and_headers_stay_with_the_record(app: App) -> None:
    app.stream("in").map(lambda k, v: (v, k)).flat_map_values(lambda v: [v]).to("out")
    test = TopologyTest(app)
    test.input("in").pipe("k", "v", timestamp=1234, headers=(("h", b"1"), ("h", None)))
    assert test.output("out").read() == Record("v", "k", 1234, (("h", b"1"), ("h", None)))


def test_a_topic_chosen_for_each_record(app: App) -> None:
    app.stream("in").to(lambda key, value, record: f"out-{value}")
    test = TopologyTest(app)
    test.input("in").pipe("k", "a")
    test.input("in").pipe("k", "b")
    read = test.output("out-b", key=string, value=string)
    assert read.read_values() == [("k", "b")]


def test_a_partitioner_of_ones_own(app: App) -> None:
    app.stream("in").to("out", partitioner=lambda topic, key, value, partitions: partitions - 1)
    app.stream("out2").foreach(print)
    test = TopologyTest(app, partitions=3)
    test.input("in").pipe("k", "a")
    assert [output[1] for output in test._written["out"]] == [2]


def test_repartition_sends_records_to_the_partition_of_their_key(app: App) -> None:
    by_value = app.stream("in").select_key(lambda k, v: v).repartition(name="by-value", partitions=4)
    by_value.to_table(store="partitions")
    test = TopologyTest(app)
    keys = [str(number) for number in range(20)]
    for key in keys:
        test.input("in").pipe(None, key)
    found = [{key for key, _ in test.store("partitions", number).all()} for number in range(4)]
    assert found == [{key for key in keys if partition_for_key(key.encode(), 4) == n} for n in range(4)]


def test_repartition_drops_records_without_a_key(app: App) -> None:
    app.stream("in").through(name="again").to("out")
    assert _run(app, (None, "v"), ("k", "w")) == [("k", "w")]


def test_a_missing_serde_names_the_operation() -> None:
    with pytest.raises(TopologyError, match=r"stream\(in\) needs a serde for its key"):
        App("app").stream("in", value=string)
    app = App("app")
    mapped = app.stream("in", key=string, value=string).map_values(len)
    with pytest.raises(TopologyError, match=r"to\('out'\) needs a serde for its value"):
        mapped.to("out")
    mapped.to("out", value=long)
    assert _run(app, ("k", "four")) == [("k", 4)]


def test_the_same_topic_again_is_the_same_stream_or_an_error(app: App) -> None:
    app.stream("in").to("out")
    app.stream("in").map_values(str.upper).to("out")
    assert _run(app, ("k", "v")) == [("k", "v"), ("k", "V")]
    with pytest.raises(TopologyError, match="topic in is already read by KSTREAM-SOURCE-0000000000"):
        app.stream("in", value=long)


def test_two_nodes_of_one_name(app: App) -> None:
    stream = app.stream("in")
    stream.filter(lambda k, v: True, name="f")
    with pytest.raises(TopologyError, match="two nodes are named f"):
        stream.filter(lambda k, v: True, name="f")
