"""Topics that are deleted and created again between tasks and batches. No Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql.types import StringType, StructField, StructType

from penstock.arrow.batches import DeadLetter
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import FetchConfig, Fetcher, PartitionRange
from penstock.client.reading.offsets import LATEST, list_offsets
from penstock.protocol.murmur2 import partition_for_key
from penstock.protocol.records import decode_batches
from penstock.spark.sink.columns import find_columns
from penstock.spark.sink.exactly_once import ExactlyOnceBatchWriter, stage_rows
from penstock.spark.sink.options import SinkOptions, parse_sink
from penstock.spark.sink.publisher import TopicReplaced
from penstock.spark.sink.staged import Stage, TaskStaged
from penstock.spark.sink.writer import WriteTask
from penstock.spark.source.dead_letters import DeadLetterTopic
from waiting import wait_until

SCHEMA = StructType([StructField(name, StringType()) for name in ("topic", "key", "value")])
COLUMNS = find_columns(SCHEMA, False)
KEYS = [b"%d" % number for number in range(50)]
COUNTS = [7, 1, 3]
"""The numbers of partitions of a topic, one incarnation after another."""


class Topic:
    """A topic that the test deletes and creates again."""

    def __init__(self, name: str, servers: str, make_topic: Callable[..., str], cluster: Cluster) -> None:
        self.name = name
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._make = make_topic
        self._cluster = cluster

    def recreate(self, partitions: int) -> None:
        if self.name in self._admin.list_topics(timeout=30).topics:
            self._admin.delete_topics([self.name])[self.name].result(30)
            wait_until(lambda: self.name not in self._admin.list_topics(timeout=30).topics)
        self._make(partitions, self.name)

    def keys(self) -> dict[int, list[bytes | None]]:
        """The committed records' keys, by partition."""
        topic = self._cluster.refresh([self.name]).topics[self.name]
        listed = list_offsets(self._cluster, {TopicPartition(self.name, n): LATEST for n in topic.partitions})
        found: dict[int, list[bytes | None]] = {tp.partition: [] for tp in listed}
        fetcher = Fetcher(self._cluster, FetchConfig(isolation_level="read_committed"))
        for fetched in fetcher.read(PartitionRange(*tp, 0, each.offset) for tp, each in listed.items()):
            found[fetched.range.partition] += [record.key for record in decode_batches(fetched.batches)]
        fetcher.close()
        return found


@pytest.fixture
def topic(servers: str, make_topic: Callable[..., str]) -> Iterator[Topic]:
    with Cluster(ClientConfig.from_properties({"bootstrap.servers": servers})) as cluster:
        yield Topic(make_topic(), servers, make_topic, cluster)


def rows(topic: Topic) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"topic": [topic.name] * len(KEYS), "key": KEYS, "value": KEYS})


def expected(partitions: int) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    for key in KEYS:
        found[partition_for_key(key, partitions)].append(key)
    return found


def options(servers: str, delivery: str) -> SinkOptions:
    return parse_sink({"kafka.bootstrap.servers": servers, "delivery": delivery})


def test_a_task_at_least_once_uses_the_partitions_of_now(topic: Topic, servers: str) -> None:
    task = WriteTask(options(servers, "at-least-once"), COLUMNS)
    for partitions in COUNTS:
        topic.recreate(partitions)
        task.run(rows(topic))
        assert topic.keys() == expected(partitions)


def staged(topic: Topic, given: SinkOptions) -> TaskStaged:
    return stage_rows(rows(topic), given, COLUMNS, Stage(None, "0-1", 1 << 20), None)


def test_a_transaction_uses_the_partitions_of_now(topic: Topic, servers: str) -> None:
    given = options(servers, "exactly-once")
    for partitions in COUNTS:
        topic.recreate(partitions)
        ExactlyOnceBatchWriter(given, SCHEMA).commit([staged(topic, given)])
        assert topic.keys() == expected(partitions)


def test_rows_for_partitions_of_a_former_topic_are_not_published(topic: Topic, servers: str) -> None:
    given = options(servers, "exactly-once")
    report = staged(topic, given)
    topic.recreate(3)
    with pytest.raises(TopicReplaced, match=f"topic '{topic.name}' was deleted .*: found the id"):
        ExactlyOnceBatchWriter(given, SCHEMA).commit([report])
    assert topic.keys() == {0: [], 1: [], 2: []}


def test_dead_letters_use_the_partitions_of_now(topic: Topic, servers: str) -> None:
    client = ClientConfig.from_properties({"bootstrap.servers": servers})
    for partitions in COUNTS:
        topic.recreate(partitions)
        letters = DeadLetterTopic(client, topic.name)
        why = (("value", "json", "not an object"),)
        letters.keep([DeadLetter("input", n, 0, 1, b"%d" % n, None, (), why) for n in range(6)])
        letters.flush()
        assert topic.keys() == {at: [b"%d" % n for n in range(at, 6, partitions)] for at in range(partitions)}
