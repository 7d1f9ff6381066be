"""Applications with views of their stores, and writers of their changelogs that act as a runner does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.protocol.murmur2 import partition_for_key
from penstock.streams import App, long, sessions, string, tumbling
from penstock.topology.graph import SubTopology, Topology
from penstock.topology.records import NO_HEADERS
from penstock.topology.tasks.task import Task

Written = tuple[bytes, "str | bytes", int]
"""``(key, value, timestamp_ms)``."""


def counting_app(name: str, topic: str) -> App:
    """An application with one store of each kind over one topic."""
    app = App(name, key=string, value=string)
    grouped = app.stream(topic).group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(tumbling("10 ms", grace="1 hour")).count(store="windows")
    grouped.windowed_by(sessions("5 ms", grace="1 hour")).count(store="sessions")
    return app


def rekeyed_app(name: str, topic: str) -> App:
    """An application whose second store is behind a durable repartition topic, grouped by another key."""
    app = App(name, key=string, value=string)
    counts = app.stream(topic).group_by_key().count(store="counts")
    by_letter = counts.group_by(lambda word, n: (word[0], n), key=string, value=long)
    by_letter.sum(store="sums")
    return app


class Runner:
    """An application's tasks, whose results are published as its query does it.

    Each batch is one transaction of changelogs, repartition topics and group offsets.
    """

    def __init__(self, servers: str, app: App, counts: Mapping[str, int]) -> None:
        self.servers = servers
        self.topology: Topology = app.topology()
        self.counts = self.topology.partition_counts(counts)
        self.admin = AdminClient({"bootstrap.servers": servers})
        self._tasks: dict[tuple[int, int], Task] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self.producer = self._new_producer()
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": self.topology.application})

    def _new_producer(self) -> Producer:
        producer = Producer(
            {"bootstrap.servers": self.servers, "transactional.id": f"{self.topology.application}-runner"}
        )
        producer.init_transactions(30)
        return producer

    def create_topics(self) -> None:
        internal = self.topology.internal_topics(self.counts).values()
        wanted = {name: (count, {}) for name, count in self.counts.items()}
        wanted |= {topic.name: (topic.partitions, dict(topic.config)) for topic in internal}
        made = self.admin.create_topics(
            [NewTopic(name, count, 1, config=config) for name, (count, config) in wanted.items()]
        )
        for future in made.values():
            future.result(30)

    def create_topic(self, name: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)

    def write(self, topic: str, rows: Iterable[Written]) -> dict[int, int]:
        """Write rows with another client by Kafka's own partitioner; return the end offset by partition."""
        ends: dict[int, int] = {}
        producer = Producer({"bootstrap.servers": self.servers, "partitioner": "murmur2_random"})

        def done(error: object, message: object) -> None:
            assert error is None, error
            ends[message.partition()] = message.offset() + 1  # type: ignore[attr-defined]

        for key, value, timestamp_ms in rows:
            producer.produce(topic, value, key, timestamp=timestamp_ms, on_delivery=done)
        assert producer.flush(30) == 0
        return ends

    def process(
        self,
        topic: str,
        rows: Iterable[Written],
        *,
        partition: int | None = None,
        read_until: Mapping[tuple[str, int], int] | None = None,
        end: str = "commit",
        producer: Producer | None = None,
    ) -> list[tuple[str, bytes, bytes, int]]:
        """Run one batch of these rows of the topic; ``end`` is ``commit``, ``abort`` or ``open``.

        Return the records for repartition topics.
        """
        producer = producer or self.producer
        producer.begin_transaction()
        part = self.topology.source_topics()[topic]
        touched: set[tuple[int, int]] = set()
        for key, value, timestamp_ms in rows:
            number = partition_for_key(key, self.counts[topic]) if partition is None else partition
            task = self._task(part, number)
            at = self._ends[topic, number] = self._ends.get((topic, number), 0) + 1
            data = value.encode() if isinstance(value, str) else value
            task.process((topic, number, at - 1, timestamp_ms, key, data, NO_HEADERS))
            touched.add((part.id, number))
        outputs = []
        for at_task in sorted(touched):
            task = self._tasks[at_task]
            for out, chosen, key_bytes, value_bytes, timestamp_ms, _ in task.take_outputs():
                number = partition_for_key(key_bytes or b"", self.counts[out]) if chosen is None else chosen
                producer.produce(out, value_bytes, key_bytes, number, timestamp=timestamp_ms)
                outputs.append((out, key_bytes or b"", value_bytes or b"", timestamp_ms))
            self._publish(producer, part, at_task[1], task)
        if read_until:
            offsets = [TopicPartition(name, number, at) for (name, number), at in read_until.items()]
            metadata = self._consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, metadata, 30)
        if end == "commit":
            producer.commit_transaction(30)
        elif end == "abort":
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            assert producer.flush(30) == 0
        return outputs

    def _publish(self, producer: Producer, part: SubTopology, partition: int, task: Task) -> None:
        specs = {spec.name: spec for spec in part.stores}
        for name, delta in task.take_deltas().items():
            if name not in specs or not specs[name].logged:
                continue
            for key, value in delta.items():
                record = specs[name].to_changelog(key, value)
                if record is not None:
                    producer.produce(
                        self.topology.changelog_topic(name),
                        record.value,
                        record.key,
                        partition,
                        timestamp=record.timestamp_ms or 1,
                    )

    def _task(self, part: SubTopology, partition: int) -> Task:
        at = (part.id, partition)
        if at not in self._tasks:
            self._tasks[at] = Task(self.topology, part, partition, partition_counts=self.counts)
        return self._tasks[at]

    def forget(self) -> None:
        """Start new tasks, so that the state of an uncommitted batch is discarded."""
        self._tasks.clear()
