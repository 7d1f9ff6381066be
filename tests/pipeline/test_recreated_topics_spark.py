"""Random rounds in which topics are deleted and created again under one Spark session, whose workers stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from streams_node import Node

from long_run import repetitions
from penstock.protocol.murmur2 import partition_for_key
from penstock.streams import App, string
from penstock.testing import Cluster
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

ROUNDS = repetitions("RECREATED_ROUNDS", 2, 20)
COUNTS = (1, 2, 3, 7, 30)
INPUT = "input"
OUTPUTS = ("at-least-once", "exactly-once", "application")
KEYS = [b"k%d" % number for number in range(40)]


@pytest.fixture
def node() -> Iterator[Node]:
    with Cluster() as cluster:
        yield Node(cluster.bootstrap_servers)


def test_queries_and_applications_write_to_the_partitions_of_now(
    node: Node, spark: Any, tmp_path: Path
) -> None:
    """One query runs through all rounds. The others begin and end in each round."""
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    random = Random(seed)
    node.create(2, INPUT)
    node.create(random.choice(COUNTS), OUTPUTS[0])
    running = started(spark, node, OUTPUTS[0], "at-least-once", tmp_path / "running")
    try:
        for number in range(ROUNDS):
            counts = {topic: random.choice(COUNTS) for topic in OUTPUTS}
            recreate(node, counts)
            node.write([(INPUT, key, b"round %d" % number, 1000) for key in KEYS])
            once = started(spark, node, OUTPUTS[1], "exactly-once", tmp_path / f"once-{number}", ends=True)
            application(node, OUTPUTS[2], spark, tmp_path / f"application-{number}", number)
            assert once.awaitTermination(60)
            wait_until(lambda: len(node.read(OUTPUTS[0])) == len(KEYS))
            written = {OUTPUTS[0]: 1, OUTPUTS[1]: number + 1, OUTPUTS[2]: number + 1}
            for topic, times in written.items():
                assert partitions_of(node, topic) == sorted(times * in_partitions(counts[topic])), topic
    finally:
        running.stop()


def recreate(node: Node, counts: Mapping[str, int]) -> None:
    admin = node.admin
    there = [topic for topic in counts if topic in admin.list_topics(timeout=30).topics]
    for deleted in admin.delete_topics(there).values() if there else ():
        deleted.result(30)
    wait_until(lambda: not counts.keys() & admin.list_topics(timeout=30).topics.keys())
    for topic, partitions in counts.items():
        node.create(partitions, topic)


def started(spark: Any, node: Node, topic: str, delivery: str, checkpoint: Path, ends: bool = False) -> Any:
    rows = (
        spark.readStream.format("penstock").option("subscribe", INPUT).option("startingOffsets", "earliest")
    )
    rows = rows.option("bootstrap.servers", node.servers).load().select("key", "value")
    writer = rows.writeStream.format("penstock").option("bootstrap.servers", node.servers)
    writer = writer.option("topic", topic).option("delivery", delivery)
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if ends else writer).start()


def application(node: Node, topic: str, spark: Any, checkpoint: Path, number: int) -> None:
    """Run an application with a shuffle until it has read all of the input."""
    app = App(f"round-{number}", key=string, value=string)
    app.stream(INPUT).select_key(lambda key, value: key).repartition().to(topic)
    running = app.start(
        bootstrap_servers=node.servers,
        checkpoint=checkpoint,
        spark=spark,
        until="drained",
        shuffle_partitions=1,
    )
    assert running.wait(60)


def partitions_of(node: Node, topic: str) -> list[tuple[bytes | None, int | None]]:
    return sorted((message.key(), message.partition()) for message in node.messages(topic))


def in_partitions(count: int) -> list[tuple[bytes, int]]:
    return sorted((key, partition_for_key(key, count)) for key in KEYS)
