"""Global tables: every task reads the whole of them."""

from __future__ import annotations

import pytest

from penstock.streams import App, Processor, Record, TopologyError, TopologyTest, string


class Lookup(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        city = self.context.store("cities").get(record.value)
        self.context.forward(Record(record.key, str(city), record.timestamp_ms))


@pytest.fixture
def app() -> App:
    return App("app", key=string, value=string)


def test_every_task_reads_every_key(app: App) -> None:
    cities = app.global_table("cities", store="cities")
    app.stream("in").process(Lookup, stores=[cities.store_name]).to("out")
    test = TopologyTest(app, partitions={"in": 3, "cities": 2})
    for code, city in [("MUC", "Munich"), ("OSL", "Oslo"), ("ROM", "Rome"), ("ROM", None)]:
        test.input("cities").pipe(code, city)
    test.input("cities").pipe(None, "nowhere")
    for partition, code in enumerate(["MUC", "OSL", "ROM"]):
        test.input("in").pipe("k", code, partition=partition)
    assert [value for _, value in test.output("out").read_values()] == ["Munich", "Oslo", "None"]
    assert dict(test.store("cities").all()) == {"MUC": "Munich", "OSL": "Oslo"}


def test_a_global_table_joins_no_sub_topologies_and_has_no_changelog(app: App) -> None:
    app.global_table("cities", store="cities")
    app.stream("in").process(Lookup, stores=["cities"]).to("out")
    app.stream("in2").process(Lookup, stores=["cities"]).to("out")
    parts = app.topology().sub_topologies
    assert [part.stateless for part in parts] == [True, True]
    assert app.topology().internal_topics({"in": 1, "in2": 1}) == {}


def test_a_topic_is_read_in_one_way(app: App) -> None:
    app.global_table("cities", store="cities")
    with pytest.raises(TopologyError, match="topic cities is a global table"):
        app.stream("cities")
    with pytest.raises(TopologyError, match="topic cities is already a global table"):
        app.global_table("cities")
    with pytest.raises(TopologyError, match="two stores are named cities"):
        app.table("other", store="cities")
    app.stream("in")
    with pytest.raises(TopologyError, match="topic in is already read"):
        app.global_table("in")
