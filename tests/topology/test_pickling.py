"""A topology that cloudpickle has sent to a worker computes the same results there."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest

from kafka_streams_cases import CASES, build
from operator_topologies import TOPOLOGIES, application
from penstock.streams import App, Serde, TopologyTest, long, string, time_windowed
from penstock.topology.operators.tables import change_serde

cloudpickle = pytest.importorskip("pyspark.cloudpickle")


def _again(thing: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(thing))


@pytest.mark.parametrize("name", CASES)
def test_a_topology_that_was_sent_gives_the_same_results(name: str) -> None:
    results = []
    for sent in (False, True):
        app = build(name)
        if sent:
            app._builder.topology = _again(app.topology())
        test = TopologyTest(app)
        for number in range(50):
            for topic in sorted({"in", "other"} & set(test._parts)):
                test.input(topic).pipe(f"k{number % 3}", str(number % 5), timestamp=number)
        results.append({topic: list(records) for topic, records in test._written.items()})
    assert results[0] == results[1]
    assert any(results[0].values())


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_windows_and_joins_that_were_sent_give_the_same_results(name: str) -> None:
    results = []
    for sent in (False, True):
        app = application(name)
        if sent:
            app._builder.topology = _again(app.topology())
        test = TopologyTest(app)
        for number in range(60):
            for topic in sorted({"left", "right"} & (set(test._parts) | set(app.topology().globals))):
                test.input(topic).pipe(
                    "abc"[number % 3], f"{'abc'[number % 2]}:{number}", timestamp=number + number // 20 * 50
                )
        results.append(list(test._written["out"]))
    assert results[0] == results[1]
    assert results[0]


def test_serdes_that_were_sent_do_the_same() -> None:
    point = Serde(lambda pair: b"%d,%d" % pair, lambda data: tuple(map(int, data.split(b","))), name="point")
    assert _again(point).deserialize(point.serialize((1, 2))) == (1, 2)
    assert _again(string) is string
    assert _again(change_serde(long)).serialize((1, 2, True)) == change_serde(long).serialize((1, 2, True))
    windowed = _again(time_windowed(string, 10))
    assert windowed.inner is string
    assert windowed.deserialize(b"k" + bytes(8)).key == "k"


def test_averages_can_be_sent() -> None:
    app = App("app", key=string, value=long)
    app.stream("in").group_by_key().avg(store="means")
    app._builder.topology = _again(app.topology())
    test = TopologyTest(app)
    test.input("in").pipe("k", 3)
    assert test.store("means").get("k") == (3.0, 1)


@pytest.mark.parametrize("name", CASES)
def test_a_topology_that_was_sent_names_one_thing_of_the_streams_api(name: str) -> None:
    """Checkpoints of hosts keep topologies, so whatever they name must stay in its module."""
    named: set[tuple[str, str]] = set()

    class Reading(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            named.add((module, name))
            return super().find_class(module, name)

    Reading(io.BytesIO(cloudpickle.dumps(build(name).topology()))).load()
    of_the_api = {found for found in named if found[0].startswith("penstock.streams")}
    assert of_the_api <= {("penstock.streams.builder", "_has_key")}
