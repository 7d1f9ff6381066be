"""Sub-topologies, internal topics, co-partitioning, and names that stay when a topology changes."""

from __future__ import annotations

import pytest

from penstock.streams import App, CoPartitioningError, TopologyError, sessions, string, tumbling
from penstock.topology.graph import Repartition, Topology


@pytest.fixture
def app() -> App:
    return App("app", key=string, value=string)


def test_parts_are_split_at_repartition_topics(app: App) -> None:
    app.stream("in").group_by(lambda k, v: v).count(store="counts").to_stream().to("out")
    first, second = app.topology().sub_topologies
    assert (first.id, first.stateless, first.source_topics) == (0, True, ("in",))
    assert (second.id, second.stateless, second.source_topics) == (1, False, ("counts-repartition",))
    assert [spec.name for spec in second.stores] == ["counts"]
    assert set(app.topology().source_topics()) == {"in", "app-counts-repartition"}


def test_streams_that_never_meet_are_parts_of_their_own(app: App) -> None:
    app.stream("a").to("out")
    app.stream("b").to("out")
    app.stream(["c", "d"]).merge(app.stream("e")).to("out")
    assert [part.source_topics for part in app.topology().sub_topologies] == [("a",), ("b",), ("c", "d", "e")]


def test_internal_topics_are_those_of_kafka_streams(app: App) -> None:
    app.stream("in").group_by(lambda k, v: v).count(store="counts")
    topics = app.topology().internal_topics({"in": 3})
    assert {(topic.name, topic.partitions, topic.kind) for topic in topics.values()} == {
        ("app-counts-repartition", 3, "repartition"),
        ("app-counts-changelog", 3, "changelog"),
    }
    assert topics["app-counts-changelog"].config == {"cleanup.policy": "compact"}
    assert topics["app-counts-repartition"].config["retention.ms"] == "-1"


def test_windows_go_from_their_changelog_by_stream_time_alone(app: App) -> None:
    grouped = app.stream("in").group_by_key()
    grouped.windowed_by(tumbling("1 h")).count(store="hours")
    grouped.windowed_by(sessions("1 h")).count(store="visits")
    topics = app.topology().internal_topics({"in": 1})
    assert [topic.config for topic in topics.values()] == [{"cleanup.policy": "compact"}] * 2


def test_a_store_that_is_not_logged_has_no_changelog(app: App) -> None:
    app.stream("in").group_by_key().count(store="counts", logged=False)
    assert app.topology().internal_topics({"in": 3}) == {}


def test_a_repartition_topic_has_the_partitions_that_were_asked_for(app: App) -> None:
    again = app.stream("in").repartition(name="again", partitions=5)
    again.group_by(lambda k, v: v, name="by").count(store="counts")
    counts = app.topology().partition_counts({"in": 2})
    assert counts == {"in": 2, "app-again-repartition": 5, "app-by-repartition": 5}


def test_a_topic_without_a_number_of_partitions(app: App) -> None:
    app.stream("in").to("out")
    with pytest.raises(TopologyError, match="topic in is read, but its number of partitions is not known"):
        app.topology().internal_topics({})


def test_co_partitioning(app: App) -> None:
    app.stream("a").to("out")
    app.stream("b").to("out")
    app.topology().copartition(["a", "b"], "the join of a and b")
    assert app.topology().partition_counts({"a": 2, "b": 2}) == {"a": 2, "b": 2}
    with pytest.raises(CoPartitioningError, match=r"the join of a and b needs .*; a has 2, b has 3"):
        app.topology().partition_counts({"a": 2, "b": 3})


def test_a_repartition_topic_follows_what_it_is_joined_with(app: App) -> None:
    app.stream("a").repartition(name="again").to("out")
    app.stream("b").to("out")
    app.topology().copartition(["again-repartition", "b"], "a join")
    assert app.topology().partition_counts({"a": 7, "b": 3})["app-again-repartition"] == 3


def test_repartition_topics_that_feed_each_other() -> None:
    app = App("app", key=string, value=string)
    app.stream("in").repartition(name="x").to("out")
    topology: Topology = app.topology()
    topology.add_repartition(Repartition("y-repartition"))
    with pytest.raises(TopologyError, match=r"\['y-repartition'\]"):
        topology.partition_counts({"in": 1})


def _stores(app: App) -> set[str]:
    return set(app.topology().internal_topics({"in": 1}))


def test_named_stores_keep_their_topics_when_the_topology_changes_and_others_dont() -> None:
    def build(extra: bool, named: bool) -> App:
        app = App("app", key=string, value=string)
        stream = app.stream("in")
        if extra:
            stream = stream.filter(lambda k, v: True)
        stream.group_by(lambda k, v: v, name="by" if named else None).count(store="c" if named else None)
        return app

    assert _stores(build(False, named=True)) == _stores(build(True, named=True))
    assert _stores(build(False, named=False)) != _stores(build(True, named=False))


def test_a_named_operator_uses_up_a_number_all_the_same(app: App) -> None:
    app.stream("in").filter(lambda k, v: True, name="mine").to("out")
    assert list(app.topology().nodes) == ["KSTREAM-SOURCE-0000000000", "mine", "KSTREAM-SINK-0000000002"]


def test_names_of_applications() -> None:
    with pytest.raises(TopologyError, match="letters, digits"):
        App("my app")
