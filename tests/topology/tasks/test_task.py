"""Tasks as a runner drives them: batches, deltas, restoring, time."""

from __future__ import annotations

import random

from penstock.streams import App, Processor, Record, key_value_store, long, string
from penstock.topology.records import NO_HEADERS, Input
from penstock.topology.stores.ordered_bytes import OrderedBytes
from penstock.topology.tasks.task import CLOCKS, Task


def _counts() -> App:
    app = App("app", key=string, value=string)
    app.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    return app


def _rows(count: int, seed: int = 0) -> list[Input]:
    generator = random.Random(seed)
    return [
        ("in", 0, offset, generator.randrange(1000), b"%d" % generator.randrange(20), b"x", NO_HEADERS)
        for offset in range(count)
    ]


def test_batches_and_restores_change_nothing() -> None:
    """Compare one task over all rows with one that is restored from its deltas before each batch."""
    app, rows = _counts(), _rows(500)
    (part,) = app.topology().sub_topologies
    whole = Task(app.topology(), part, 0)
    whole.process_all(rows)
    maps = {"counts": OrderedBytes(), CLOCKS: OrderedBytes()}
    outputs = []
    for start in range(0, 500, 70):
        task = Task(app.topology(), part, 0, stores=maps)
        task.process_all(rows[start : start + 70])
        outputs += task.take_outputs()
        maps = {name: OrderedBytes(data.data.items()) for name, data in maps.items()}
        for name, delta in task.take_deltas().items():
            maps[name].apply(delta.items())
    assert outputs == whole.take_outputs()
    whole.take_deltas()
    assert {name: data.data for name, data in maps.items()} == {
        name: data.data for name, data in whole.maps.items()
    }
    assert Task(app.topology(), part, 0, stores=maps).stream_time_ms == max(row[3] for row in rows)


def test_deltas_are_what_changed_since_the_last_time() -> None:
    app = _counts()
    task = Task(app.topology(), app.topology().sub_topologies[0], 0)
    task.process(("in", 0, 0, 5, b"a", b"x", NO_HEADERS))
    deltas = task.take_deltas()
    assert deltas.pop(CLOCKS) == {b"": b"5"}
    assert deltas == {"counts": {b"a": (5).to_bytes(8, "big") + (1).to_bytes(8, "big")}}
    assert task.take_deltas() == {}
    task.process(("in", 0, 1, 4, b"b", b"x", NO_HEADERS))
    assert list(task.take_deltas()) == ["counts"]  # stream time didn't move


def test_outputs_go_to_topics_by_their_names_on_the_cluster() -> None:
    app = App("app", key=string, value=string)
    app.stream("in").group_by(lambda k, v: v).count(store="counts").to_stream().to("out")
    first, second = app.topology().sub_topologies
    task = Task(app.topology(), first, 0)
    task.process(("in", 0, 0, 5, None, b"x", NO_HEADERS))
    assert task.take_outputs() == [("app-counts-repartition", None, b"x", b"x", 5, NO_HEADERS)]
    assert task.take_outputs() == []
    task = Task(app.topology(), second, 1)
    task.process(("app-counts-repartition", 1, 0, 5, b"x", b"x", NO_HEADERS))
    assert task.take_outputs() == [("out", None, b"x", (1).to_bytes(8, "big"), 5, NO_HEADERS)]


def test_time_passes_by_ticks_and_never_goes_back() -> None:
    app = _counts()
    task = Task(app.topology(), app.topology().sub_topologies[0], 0)
    task.tick(stream_time_ms=10)
    task.tick(stream_time_ms=5)
    assert task.stream_time_ms == 10
    assert task.take_deltas() == {CLOCKS: {b"": b"10"}}


class Late(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.set_timer(record.key, record.timestamp_ms + 100)

    def on_timer(self, key: str, time_ms: int, kind: str) -> None:
        self.context.forward(Record(key, str(time_ms), time_ms))


def test_timers_outlive_the_task() -> None:
    app = App("app", key=string, value=string)
    app.stream("in").process(Late, stores=[key_value_store("s", value=long)], timers=True).to("out")
    (part,) = app.topology().sub_topologies
    task = Task(app.topology(), part, 0)
    task.process(("in", 0, 0, 5, b"a", b"x", NO_HEADERS))
    restored = {spec.name: spec.new_map() for spec in part.stores} | {CLOCKS: OrderedBytes()}
    for name, delta in task.take_deltas().items():
        restored[name].apply(delta.items())
    again = Task(app.topology(), part, 0, stores=restored)
    again.tick(stream_time_ms=104)
    assert again.take_outputs() == []
    again.tick(stream_time_ms=105)
    assert again.take_outputs() == [("out", None, b"a", b"105", 105, NO_HEADERS)]
    (delta,) = (delta for name, delta in again.take_deltas().items() if name.endswith("-timers"))
    assert list(delta.values()) == [None]
