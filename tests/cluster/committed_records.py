"""Topics, created and read by a client that is not ours."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from to_the_end import TO_THE_END


def make_topics(servers: str, partitions: int, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(name, partitions, 1) for name in names])
    for name in names:
        made[name].result(30)


def committed_records(servers: str, topic: str) -> list[tuple[str, str]]:
    """The keys and values that a `read_committed` reader sees, by partition."""
    settings = {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer(settings | TO_THE_END)
    found = []
    for partition in consumer.list_topics(topic).topics[topic].partitions:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while (message := consumer.poll(30)) is not None and not message.error():
            found.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
    consumer.close()
    return found
