"""Queries of the stores of an application that runs on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from streams_node import Node

from penstock.streams import App, long, string
from penstock.testing import Cluster
from penstock.topology.errors import TopologyError
from penstock.views import Position, UnknownStore, ViewsClosed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


def test_a_writer_asks_for_the_results_of_his_records(spark: Any, tmp_path: Path) -> None:
    """Query a store that records reach at once, and one behind a repartition topic, two batches later."""
    app = App("asked", key=string, value=string)
    counts = app.stream("words").group_by_key().count(store="counts")
    counts.group_by(lambda word, n: (word[0], n), key=string, value=long).sum(store="sums")
    with pytest.raises(TopologyError, match="asked was not started by this process"):
        app.store("counts")
    with Cluster() as cluster:
        node = Node(cluster.bootstrap_servers)
        node.create(2, "words")
        producer = Producer({"bootstrap.servers": node.servers, "partitioner": "murmur2_random"})

        def write(*words: str) -> Position:
            positions = []
            for word in words:
                producer.produce(
                    "words",
                    b"x",
                    word.encode(),
                    on_delivery=lambda error, at: positions.append(
                        Position.of_record(at.topic(), at.partition(), at.offset())
                    ),
                )
            assert producer.flush(30) == 0
            position = Position()
            for other in positions:
                position |= other
            return position

        written = write("ann", "art", "bob", "ann")
        running = app.start(bootstrap_servers=node.servers, checkpoint=tmp_path / "checkpoint", spark=spark)
        with running:
            store = running.store("counts")
            assert store.get("ann", at_least=written, timeout_s=60) == 2
            assert app.store("sums").get("a", at_least=written, timeout_s=60) == 3
            again = write("ann", "bob")
            sums = running.store("sums")
            assert (sums.get("a", at_least=again, timeout_s=60), sums.get("b", at_least=again)) == (4, 2)
            assert [(entry.key, entry.value) for entry in store.all()] == [("ann", 3), ("art", 1), ("bob", 2)]
            with pytest.raises(UnknownStore):
                running.store("nothing")
        with pytest.raises(ViewsClosed):
            store.get("nobody")
        with app.views(bootstrap_servers=node.servers) as views:
            views.wait_until_ready(30)
            assert views.store("counts").get("ann") == 3
