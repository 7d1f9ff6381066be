"""The topics of an application, read by clients that are not ours."""

from __future__ import annotations

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from streams_cases import Row

from to_the_end import TO_THE_END


class Node:
    """A node for one test, because the names of the topologies' topics are fixed."""

    def __init__(self, servers: str) -> None:
        self.servers = servers

    @property
    def admin(self) -> AdminClient:
        """A new client, because one that outlives its node keeps trying to reach it."""
        return AdminClient({"bootstrap.servers": self.servers})

    def create(self, partitions: int, *topics: str) -> None:
        config = {"retention.ms": "-1"}
        admin = self.admin
        made = admin.create_topics([NewTopic(topic, partitions, 1, config=config) for topic in topics])
        for topic in topics:
            made[topic].result(30)

    def write(self, rows: list[Row]) -> None:
        """Write all records of one topic before the next, so that global tables are complete first."""
        for topic in sorted({row[0] for row in rows}, reverse=True):
            producer = Producer({"bootstrap.servers": self.servers, "partitioner": "murmur2_random"})
            for name, key, value, timestamp_ms in rows:
                if name == topic:
                    producer.produce(topic, value, key, timestamp=timestamp_ms)
            assert producer.flush(30) == 0

    def read(self, topic: str) -> list[tuple[bytes | None, bytes | None, int]]:
        """The committed records by partition: key, value, timestamp."""
        return [(m.key(), m.value(), m.timestamp()[1]) for m in self.messages(topic)]

    def messages(self, topic: str) -> list[Message]:
        """The committed records by partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
            | TO_THE_END
        )
        partitions = consumer.list_topics(topic).topics[topic].partitions
        found = []
        for partition in sorted(partitions):
            consumer.assign([TopicPartition(topic, partition, 0)])
            while (message := consumer.poll(30)) is not None and not message.error():
                found.append(message)
        consumer.close()
        return found

    def lag(self, group: str, topic: str) -> int:
        """The number of records that the group has not committed, as any lag tool counts it."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        partitions = [TopicPartition(topic, p) for p in consumer.list_topics(topic).topics[topic].partitions]
        committed = consumer.committed(partitions, 30)
        lag = sum(consumer.get_watermark_offsets(tp, 30)[1] - max(tp.offset, 0) for tp in committed)
        consumer.close()
        return lag
