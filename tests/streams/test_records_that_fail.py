"""A record that fails stops the application or goes to the dead-letter topic; it never becomes a null."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.streams import (
    App,
    InvalidRecord,
    Processor,
    Record,
    RecordFailed,
    SerdeError,
    Stream,
    TopologyTest,
    json,
    long,
    string,
)


def _fails(*arguments: object) -> None:
    raise KeyError("amount")


class FailingProcessor(Processor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        _fails()


class FailingTimer(Processor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        self.context.set_timer(record.key, record.timestamp_ms)

    def on_timer(self, key: str, time_ms: int, kind: str) -> None:
        _fails()


USES: dict[str, Callable[[Stream], object]] = {
    "filter": lambda s: s.filter(_fails).to("out"),
    "map": lambda s: s.map(_fails, key=string, value=long).to("out"),
    "map_values": lambda s: s.map_values(_fails, value=long).to("out"),
    "map_values_with_key": lambda s: s.map_values(_fails, with_key=True, value=long).to("out"),
    "flat_map": lambda s: s.flat_map(_fails, key=string, value=long).to("out"),
    "flat_map_values": lambda s: s.flat_map_values(_fails, value=long).to("out"),
    "select_key": lambda s: s.select_key(_fails, key=string).to("out"),
    "peek": lambda s: s.peek(_fails).to("out"),
    "foreach": lambda s: s.foreach(_fails),
    "split": lambda s: s.split({"a": _fails})["a"].to("out"),
    "aggregate": lambda s: s.group_by_key().aggregate(lambda: 0, _fails, value=long).to_stream().to("out"),
    "aggregate's start": lambda s: s.group_by_key().aggregate(_fails, max, value=long).to_stream().to("out"),
    "table's map": lambda s: s.to_table().map_values(_fails, value=long).to_stream().to("out"),
    "table's filter": lambda s: s.to_table().filter(_fails).to_stream().to("out"),
    "table's group": lambda s: s.to_table().group_by(_fails).count().to_stream().to("out"),
    "process": lambda s: s.process(FailingProcessor).to("out", key=string, value=long),
    "timer": lambda s: s.process(FailingTimer, timers=True).to("out", key=string, value=long),
    "topic": lambda s: s.to(_fails),
    "partitioner": lambda s: s.to("out", partitioner=_fails),
}


@pytest.mark.parametrize("use", USES)
def test_user_code_that_fails_stops_with_node_and_record(use: str) -> None:
    app = App("app", key=string, value=long)
    USES[use](app.stream("in"))
    test = TopologyTest(app)
    with pytest.raises(RecordFailed, match="amount") as caught:
        test.input("in").pipe("k", 1)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.node in app.topology().nodes
    assert caught.value.node in str(caught.value)
    if use != "timer":
        assert "record of in-0 at offset 0" in str(caught.value)
    assert len(test.output("out")) == 0


@pytest.mark.parametrize("use", USES)
def test_user_code_that_fails_sends_the_record_to_the_dead_letter_topic(use: str) -> None:
    app = App("app", key=string, value=long, dead_letter="dead")
    USES[use](app.stream("in"))
    test = TopologyTest(app)
    test.input("in").pipe("k", 1, headers=(("h", b"kept"),))
    assert len(test.output("out")) == 0
    (dead,) = test.output("dead").read_all()
    assert dead.key == b"k"
    assert dead.header("__streams.errors.exception") == b"KeyError"
    if use != "timer":
        assert dead.value == (1).to_bytes(8, "big")
        assert dead.header("h") == b"kept"
        assert dead.header("__streams.errors.topic") == b"in"


def test_all_headers_of_a_dead_letter() -> None:
    app = App("app", key=string, value=json, dead_letter="dead")
    app.stream("in").map_values(lambda v: v["amount"], name="amounts").to("out")
    test = TopologyTest(app, partitions=2)
    test.input("in").pipe("k", {"amount": 1}, partition=1)
    test.input("in").pipe("k", {}, timestamp=77, partition=1)
    test.input("in").pipe("k", {"amount": 3}, partition=1)
    assert test.output("out").read_values() == [("k", 1), ("k", 3)]
    (dead,) = test.output("dead", key=string, value=json).read_all()
    assert (dead.key, dead.value, dead.timestamp_ms) == ("k", {}, 77)
    headers = dict(dead.headers)
    stack = headers.pop("__streams.errors.stacktrace")
    assert b"KeyError: 'amount'" in stack
    assert headers == {
        "__streams.errors.exception": b"KeyError",
        "__streams.errors.message": b"amounts: 'amount'",
        "__streams.errors.topic": b"in",
        "__streams.errors.partition": b"1",
        "__streams.errors.offset": b"1",
    }


def test_other_branches_of_a_record_that_fails_go_on() -> None:
    app = App("app", key=string, value=long, dead_letter="dead")
    stream = app.stream("in")
    stream.map_values(_fails).to("out")
    stream.to("copy")
    test = TopologyTest(app)
    test.input("in").pipe("k", 1)
    assert test.output("copy").read_values() == [("k", 1)]
    assert len(test.output("dead")) == 1


def test_bytes_that_no_serde_reads() -> None:
    for dead_letter in (None, "dead"):
        app = App("app", key=string, value=long, dead_letter=dead_letter)
        app.stream("in").to("out")
        test = TopologyTest(app)
        if dead_letter is None:
            with pytest.raises(RecordFailed, match=r"SOURCE-0000000000 failed .* reads 8 bytes, found 3"):
                test.input("in").pipe_bytes(b"k", b"abc")
        else:
            test.input("in").pipe_bytes(b"k", b"abc")
            (dead,) = test.output("dead").read_all()
            assert (dead.key, dead.value) == (b"k", b"abc")
            assert dead.header("__streams.errors.exception") == b"penstock.topology.errors.SerdeError"
        assert len(test.output("out")) == 0


def test_a_value_that_the_sinks_serde_does_not_take() -> None:
    app = App("app", key=string, value=long)
    app.stream("in").map_values(str, value=long).to("out", name="sink")
    with pytest.raises(RecordFailed, match=r"sink failed .* the serde long takes int, not str '1'") as caught:
        TopologyTest(app).input("in").pipe("k", 1)
    assert isinstance(caught.value.__cause__, SerdeError)


def test_an_aggregate_that_its_serde_does_not_take_changes_nothing() -> None:
    app = App("app", key=string, value=long, dead_letter="dead")
    app.stream("in").group_by_key().aggregate(
        lambda: 0, lambda k, v, a: "x" if v < 0 else a + v, value=long, store="s"
    )
    test = TopologyTest(app)
    for value in (1, -1, 2):
        test.input("in").pipe("k", value)
    assert test.store("s").get("k") == 3
    assert len(test.output("dead")) == 1


def test_an_error_below_a_processor_is_the_error_of_the_node_below() -> None:
    class Passes(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record)

    app = App("app", key=string, value=long)
    app.stream("in").process(Passes).map_values(_fails, name="below").to("out")
    with pytest.raises(RecordFailed, match=r"^below failed"):
        TopologyTest(app).input("in").pipe("k", 1)


def test_an_invalid_timestamp_fails_and_an_extractor_may_drop_it() -> None:
    app = App("app", key=string, value=long)
    app.stream("in").to("out")
    with pytest.raises(RecordFailed, match="the record's timestamp is -1") as caught:
        TopologyTest(app).input("in").pipe("k", 1, timestamp=-1)
    assert isinstance(caught.value.__cause__, InvalidRecord)
    app = App("app", key=string, value=long)
    app.stream("in", timestamp=lambda record, stream_time_ms: record.timestamp_ms).to("out")
    test = TopologyTest(app)
    test.input("in").pipe("k", 1, timestamp=-1)
    assert len(test.output("out")) == 0


def test_a_timestamp_from_the_value() -> None:
    seen: list[int] = []

    def at(record: Record, stream_time_ms: int) -> int:
        seen.append(stream_time_ms)
        return record.value["at"]

    app = App("app", key=string, value=json)
    app.stream("in", timestamp=at).to("out")
    test = TopologyTest(app)
    for time in (50, 20, 60):
        test.input("in").pipe("k", {"at": time}, timestamp=1)
    assert [record.timestamp_ms for record in test.output("out").read_all()] == [50, 20, 60]
    assert seen == [-1, 50, 50]


@pytest.mark.parametrize(
    ("choice", "message"),
    [("", "chose '', not the name of a topic"), (3, "chose 3, not the name of a topic")],
)
def test_a_topic_that_is_none(choice: object, message: str) -> None:
    app = App("app", key=string, value=long)
    app.stream("in").to(lambda key, value, record: choice)
    with pytest.raises(RecordFailed, match=message):
        TopologyTest(app).input("in").pipe("k", 1)


def test_a_partition_that_the_topic_does_not_have() -> None:
    app = App("app", key=string, value=long)
    app.stream("in").to("out", partitioner=lambda topic, key, value, partitions: partitions)
    with pytest.raises(RecordFailed, match="the partitioner chose 1 for out, which has 0 to 0"):
        TopologyTest(app).input("in").pipe("k", 1)
