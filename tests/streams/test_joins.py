"""Joins: refusals, repartitioning, prefixes of keys, hashes, time without records."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.streams import App, CoPartitioningError, SerdeError, TopologyError, TopologyTest, string
from penstock.topology.joins.foreign_key import (
    Instruction,
    Response,
    Subscription,
    response_serde,
    subscription_serde,
)


@pytest.fixture
def app() -> App:
    return App("app", key=string, value=string)


def pair(one: str | None, other: str | None) -> str:
    return f"{one}+{other}"


def test_streams_that_differ_in_partitions_are_refused(app: App) -> None:
    app.stream("a").join(app.stream("b"), pair, within="1 second").to("out")
    with pytest.raises(CoPartitioningError, match="a has 2, b has 3"):
        TopologyTest(app, partitions={"a": 2, "b": 3})


def test_a_stream_with_new_keys_meets_its_partners_behind_a_repartition_topic(app: App) -> None:
    by_value = app.stream("a").select_key(lambda key, value: value)
    by_value.left_join(app.table("b"), pair, name="look-up").to("out")
    test = TopologyTest(app, partitions=4)
    for number in range(8):
        test.input("b").pipe(str(number), "row")
        test.input("a").pipe(f"key {number}", str(number))
    assert test.output("app-look-up-repartition").read() is not None
    assert sorted(test.output("out").read_values()) == [(str(n), f"{n}+row") for n in range(8)]


def test_joins_get_their_arguments_checked(app: App) -> None:
    stream, table, everywhere = app.stream("a"), app.table("b"), app.global_table("c")
    with pytest.raises(TopologyError, match="within"):
        stream.join(app.stream("d"), pair)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="joins of two streams"):
        stream.join(table, pair, within="1 s")  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="needs on="):
        stream.join(everywhere, pair)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="must be versioned"):
        stream.join(table, pair, grace="1 s")
    with pytest.raises(TopologyError, match="between two streams"):
        stream.outer_join(table, pair, within="1 s")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="one application"):
        stream.join(App("other", key=string, value=string).table("b"), pair)


def test_a_key_that_begins_another_does_not_meet_its_records(app: App) -> None:
    app.stream("a").outer_join(app.stream("b"), pair, within="10 ms").to("out")
    test = TopologyTest(app)
    test.input("a").pipe("k", "1", timestamp=0)
    test.input("b").pipe("kk", "2", timestamp=0)
    test.input("a").pipe("k\x00", "3", timestamp=0)
    test.input("b").pipe("k", "4", timestamp=1)
    test.advance_stream_time(100)
    assert test.output("out").read_values() == [
        ("k", "1+4"), ("kk", "None+2"), ("k\x00", "3+None")
    ]  # fmt: skip


def test_unmatched_records_wait_for_the_grace_even_if_they_come_late(app: App) -> None:
    """Kafka Streams sends ``late+None`` at once, and then the pair."""
    app.stream("a").left_join(app.stream("b"), pair, within="10 ms", grace="20 ms").to("out")
    test = TopologyTest(app)
    test.input("b").pipe("other", "clock", timestamp=30)
    test.input("a").pipe("k", "late", timestamp=15)
    test.input("b").pipe("k", "later", timestamp=16)
    test.advance_stream_time(100)
    assert test.output("out").read_values() == [("k", "late+later")]


def test_the_joiner_can_have_the_key_and_a_stream_join_itself(app: App) -> None:
    stream = app.stream("a")
    stream.join(stream, lambda key, one, other: f"{key}:{one}{other}", within="5 ms", with_key=True).to("out")
    test = TopologyTest(app)
    test.input("a").pipe("k", "1", timestamp=0)
    test.input("a").pipe("k", "2", timestamp=3)
    values = [value for _, value in test.output("out").read_values()]
    assert sorted(values) == ["k:11", "k:12", "k:21", "k:22"]


def test_a_failing_joiner_fails_the_record_that_met(app: App) -> None:
    failing = App("app", key=string, value=string, dead_letter="dead")

    def refuse(one: Any, other: Any) -> Any:
        raise ValueError("no")

    failing.stream("a").join(failing.table("b"), refuse, name="look-up").to("out")
    test = TopologyTest(failing)
    test.input("b").pipe("k", "row")
    test.input("a").pipe("k", "1")
    (dead,) = test.output("dead").read_all()
    assert dead.header("__streams.errors.message") == b"look-up: no"
    assert len(test.output("out")) == 0


def test_a_joined_table_can_be_stored_and_read_by_others(app: App) -> None:
    both = app.table("a").left_join(app.table("b"), pair, store="both")
    both.join(app.table("c"), pair).to_stream().to("out")
    app.stream("d").join(both, pair).to("looked-up")
    test = TopologyTest(app)
    test.input("a").pipe("k", "1")
    test.input("c").pipe("k", "3")
    test.input("d").pipe("k", "4")
    assert test.store("both").get("k") == "1+None"
    assert test.output("out").read_values() == [("k", "1+None+3")]
    assert test.output("looked-up").read_values() == [("k", "4+1+None")]


def test_a_joined_table_without_a_store_is_computed_when_read(app: App) -> None:
    both = app.table("a").outer_join(app.table("b"), pair, value=string)
    app.stream("d").join(both, pair).to("out")
    test = TopologyTest(app)
    test.input("b").pipe("k", "2")
    test.input("d").pipe("k", "4")
    test.input("b").pipe("k", None)
    test.input("d").pipe("k", "5")
    assert test.output("out").read_values() == [("k", "4+None+2")]


def test_a_joined_table_joins_another_by_foreign_key(app: App) -> None:
    both = app.table("a").join(app.table("b"), pair)
    both.join(app.table("names"), pair, on=lambda key, value: value[0], value=string).to_stream().to("out")
    test = TopologyTest(app)
    test.input("names").pipe("1", "one")
    test.input("a").pipe("k", "1")
    test.input("b").pipe("k", "2")
    assert test.output("out").read_table() == {"k": "1+2+one"}


def test_subscriptions_and_responses_keep_their_bytes() -> None:
    subscriptions, responses = subscription_serde(string), response_serde(string)
    for hashed in (None, bytes(range(16))):
        asked = Subscription(hashed, Instruction.ANSWER, "key", 7)
        assert subscriptions.deserialize(subscriptions.serialize(asked)) == asked
        for row in (None, "", "row"):
            assert responses.deserialize(responses.serialize(Response(hashed, row, 3))) == Response(
                hashed, row
            )
    with pytest.raises(SerdeError, match="version 1, found 2"):
        subscriptions.deserialize(b"\x02\x00")
    with pytest.raises(SerdeError, match="version 1, found nothing"):
        responses.deserialize(b"")
