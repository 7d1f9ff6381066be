"""The process operator: stores, timers, punctuation, TTL, fixed keys."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.streams import (
    App,
    Processor,
    Record,
    RecordFailed,
    TopologyError,
    TopologyTest,
    key_value_store,
    long,
    session_store,
    string,
    versioned_store,
    window_store,
)


class RunningTotal(Processor[str, int, str, int]):
    """A processor that sums by key, in a store."""

    def process(self, record: Record[str, int]) -> None:
        store = self.context.store("totals")
        total = (store.get(record.key) or 0) + record.value
        store.put(record.key, total, record.timestamp_ms)
        self.context.forward(Record(record.key, total, record.timestamp_ms, record.headers))


@pytest.fixture
def app() -> App:
    return App("app", key=string, value=long)


def test_a_processor_with_a_store(app: App) -> None:
    totals = key_value_store("totals")
    app.stream("in").process(RunningTotal, stores=[totals]).to("out")
    test = TopologyTest(app)
    for key, value in [("a", 1), ("b", 5), ("a", 2)]:
        test.input("in").pipe(key, value, timestamp=9, headers=(("h", b""),))
    assert test.output("out").read_all() == [
        Record("a", 1, 9, (("h", b""),)),
        Record("b", 5, 9, (("h", b""),)),
        Record("a", 3, 9, (("h", b""),)),
    ]
    assert test.store("totals").get("a") == 3


def test_two_processors_share_a_store(app: App) -> None:
    totals = key_value_store("totals")
    app.stream("in").process(RunningTotal, stores=[totals]).to("out")
    app.stream("other").process(RunningTotal, stores=["totals"]).to("out")
    assert len(app.topology().sub_topologies) == 1
    test = TopologyTest(app)
    test.input("in").pipe("a", 1)
    test.input("other").pipe("a", 10)
    assert test.output("out").read_values() == [("a", 1), ("a", 11)]


def test_stores_that_are_not_there(app: App) -> None:
    with pytest.raises(TopologyError, match="uses store totals, which is not defined yet"):
        app.stream("in").process(RunningTotal, stores=["totals"])
    app.stream("in").process(RunningTotal).to("out")
    test = TopologyTest(app)
    with pytest.raises(TopologyError, match="store totals is not connected"):
        test.input("in").pipe("a", 1)


def test_grouping_after_a_processor_repartitions_and_after_fixed_keys_not(app: App) -> None:
    totals = key_value_store("totals")
    app.stream("in").process_values(RunningTotal, stores=[totals], value=long).group_by_key().count()
    assert not app.topology().repartitions
    app.stream("in").process(RunningTotal, stores=["totals"], key=string, value=long).group_by_key().count()
    assert len(app.topology().repartitions) == 1


def test_a_processor_of_values_keeps_the_key(app: App) -> None:
    class Rekey(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(Record("other", record.value, record.timestamp_ms))

    app.stream("in").process_values(Rekey).to("out")
    with pytest.raises(RecordFailed, match="keeps the key 'a'; KSTREAM-PROCESSVALUES-0000000001"):
        TopologyTest(app).input("in").pipe("a", 1)


class Alarm(Processor[str, int, str, int]):
    """A processor that sets a timer ``value`` ms after each record, and cancels the previous one."""

    kind: Any = "stream"

    def process(self, record: Record[str, int]) -> None:
        store = self.context.store("due")
        before = store.get(record.key)
        if before is not None:
            self.context.delete_timer(record.key, before, self.kind)
        now_ms = self.context.wall_clock_ms if self.kind == "wall" else record.timestamp_ms
        self.context.set_timer(record.key, now_ms + record.value, self.kind)
        store.put(record.key, now_ms + record.value, record.timestamp_ms)

    def on_timer(self, key: str, time_ms: int, kind: str) -> None:
        self.context.forward(Record(key, self.context.stream_time_ms, time_ms))


class WallAlarm(Alarm):
    kind = "wall"


def test_timers_on_stream_time_fire_in_order_when_their_time_has_come(app: App) -> None:
    app.stream("in").process(Alarm, stores=[key_value_store("due")], timers=True).to("out")
    test = TopologyTest(app)
    test.input("in").pipe("a", 50, timestamp=100)
    test.input("in").pipe("b", 20, timestamp=100)
    test.input("in").pipe("c", 500, timestamp=149)
    assert test.output("out").read_all() == [Record("b", 149, 120)]
    test.input("in").pipe("d", 0, timestamp=150)
    assert test.output("out").read_all() == [Record("a", 150, 150), Record("d", 150, 150)]
    test.advance_stream_time(649)
    assert test.output("out").read_all() == [Record("c", 649, 649)]


def test_a_timer_can_be_taken_back(app: App) -> None:
    app.stream("in").process(Alarm, stores=[key_value_store("due")], timers=True).to("out")
    test = TopologyTest(app)
    test.input("in").pipe("a", 50, timestamp=100)
    test.input("in").pipe("a", 50, timestamp=120)
    test.advance_stream_time(160)
    assert len(test.output("out")) == 0
    test.advance_stream_time(170)
    assert [record.timestamp_ms for record in test.output("out").read_all()] == [170]


def test_timers_on_the_time_of_day(app: App) -> None:
    app.stream("in").process(WallAlarm, stores=[key_value_store("due")], timers=True).to("out")
    test = TopologyTest(app, start=1_000_000)
    test.input("in").pipe("a", 5_000, timestamp=0)
    test.advance_time("4 seconds 999 ms")
    assert len(test.output("out")) == 0
    test.advance_time("1 ms")
    assert test.output("out").read_all() == [Record("a", 0, 1_005_000)]


def test_timers_are_state(app: App) -> None:
    app.stream("in").process(Alarm, stores=[key_value_store("due")], timers=True, name="alarm").to("out")
    assert set(app.topology().stores) == {"due", "alarm-timers"}
    assert app.topology().sub_topologies[0].has_timers
    assert "app-alarm-timers-changelog" in app.topology().internal_topics({"in": 1})


def test_timers_need_to_be_announced(app: App) -> None:
    app.stream("in").process(Alarm, stores=[key_value_store("due")]).to("out")
    with pytest.raises(TopologyError, match=r"uses timers: expected process\(…, timers=True\)"):
        TopologyTest(app).input("in").pipe("a", 1)


def test_an_action_every_interval_of_stream_time(app: App) -> None:
    calls: list[int] = []

    class Periodic(Processor[str, int, str, int]):
        def init(self) -> None:
            self.context.every(10, calls.append)

        def process(self, record: Record[str, int]) -> None:
            pass

    app.stream("in").process(Periodic, timers=True).to("out")
    test = TopologyTest(app)
    assert calls == []
    for timestamp in (5, 9, 10, 12, 47, 49, 50):
        test.input("in").pipe("a", 1, timestamp=timestamp)
    assert calls == [5, 10, 47, 50]


def test_an_action_every_interval_of_the_day(app: App) -> None:
    calls: list[int] = []

    class Periodic(Processor[str, int, str, int]):
        def init(self) -> None:
            self.context.every(10, calls.append, "wall")

        def process(self, record: Record[str, int]) -> None:
            pass

    app.stream("in").process(Periodic, timers=True).to("out")
    test = TopologyTest(app, start=1000)
    test.advance_time("0 ms")
    for _ in range(5):
        test.advance_time("4 ms")
    assert calls == [1012, 1020]


def test_values_with_a_time_to_live(app: App) -> None:
    totals = key_value_store("totals", ttl="10 seconds")
    app.stream("in").process(RunningTotal, stores=[totals]).to("out")
    test = TopologyTest(app)
    for key, timestamp in [
        ("a", 0),
        ("a", 9_999),
        ("b", 10_000),
        ("a", 19_998),
        ("b", 20_000),
        ("c", 60_000),
    ]:
        test.input("in").pipe(key, 1, timestamp=timestamp)
    assert test.output("out").read_values() == [
        ("a", 1), ("a", 2), ("b", 1), ("a", 3), ("b", 1), ("c", 1)
    ]  # fmt: skip
    store = test.store("totals")
    assert list(store.all()) == [("c", 1)]
    assert "a" not in store
    assert len(store) == 1  # expired entries take no memory


def test_every_kind_of_store_takes_the_serdes_of_the_application(app: App) -> None:
    stores = [
        window_store("w", size="1 s", retention="1 min"),
        session_store("s", retention="1 min"),
        versioned_store("v", history="1 min"),
    ]

    class Puts(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.store("w").put(record.key, record.value, 1000, record.timestamp_ms)
            self.context.store("v").put(record.key, record.value, record.timestamp_ms)

    app.stream("in").process(Puts, stores=stores).to("out")
    test = TopologyTest(app)
    test.input("in").pipe("a", 7, timestamp=1)
    assert test.store("w").get("a", 1000) == 7
    assert test.store("v").get("a", 1) == 7


def test_a_child_can_be_chosen(app: App) -> None:
    class Chooses(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record, "even" if record.value % 2 == 0 else "odd")

    processed = app.stream("in").process(Chooses)
    processed.to("even-numbers", name="even")
    processed.to("odd-numbers", name="odd")
    test = TopologyTest(app)
    for value in range(4):
        test.input("in").pipe("k", value)
    assert test.output("even-numbers").read_values() == [("k", 0), ("k", 2)]
    assert test.output("odd-numbers").read_values() == [("k", 1), ("k", 3)]


def test_a_processor_knows_where_its_record_was_read(app: App) -> None:
    seen: list[object] = []

    class Looks(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            seen.append((*self.context.origin, self.context.partition))

    app.stream("in").process(Looks)
    test = TopologyTest(app, partitions=3)
    test.input("in").pipe("a", 1, partition=2)
    test.input("in").pipe("a", 1, partition=2)
    assert seen == [("in", 2, 0, 2), ("in", 2, 1, 2)]
