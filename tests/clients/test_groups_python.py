"""Consumer groups with the Python clients kafka-python and aiokafka and their default settings."""

import asyncio
import contextlib
import threading
import time
import uuid
from collections.abc import Iterator

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from penstock.testing import Cluster

TIMEOUT_S = 30


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


# -- kafka-python ------------------------------------------------------------------------------------


@contextlib.contextmanager
def kafka_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def create_topic(bootstrap: str, name: str, partitions: int = 4) -> None:
    with kafka_admin(bootstrap) as admin:
        admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1}})


def produce(bootstrap: str, topic: str, count: int, partitions: int = 4) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for index in range(count):
        producer.send(topic, str(index).encode(), partition=index % partitions)
    producer.flush(TIMEOUT_S)
    producer.close()


def test_kafka_python_members_share_the_partitions(penstock_cluster: Cluster) -> None:
    bootstrap, topic, group_id = penstock_cluster.bootstrap_servers, unique("kp"), unique("group")
    create_topic(bootstrap, topic)
    stop = threading.Event()
    owned: dict[str, set[int]] = {}
    values: list[bytes] = []

    class Ownership(ConsumerRebalanceListener):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            owned[self.name] = set()

        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            owned[self.name] = {p.partition for p in assigned}

    def consume(name: str) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group_id,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
        )
        consumer.subscribe([topic], listener=Ownership(name))
        while not stop.is_set():
            # kafka-python 3.0.12 loses an assignment that arrives in the moment in which a poll times out,
            # so polls outlast a rebalance.
            for records in consumer.poll(timeout_ms=3_000).values():
                values.extend(record.value for record in records)
        consumer.close()

    threads = [threading.Thread(target=consume, args=(name,), daemon=True) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + TIMEOUT_S
    while sorted(map(len, owned.values())) != [2, 2]:
        assert time.monotonic() < deadline, owned
        time.sleep(0.02)
    produce(bootstrap, topic, 40)
    while len(values) < 40:
        assert time.monotonic() < deadline, len(values)
        time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert sorted(map(int, values)) == list(range(40))
    with kafka_admin(bootstrap) as admin:
        offsets = admin.list_group_offsets(group_id)[group_id]
        assert sum(offset.offset for offset in offsets.values()) == 40


def test_kafka_python_commits_and_seeks(penstock_cluster: Cluster) -> None:
    bootstrap, topic, group_id = penstock_cluster.bootstrap_servers, unique("kp"), unique("group")
    create_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, 10, partitions=1)
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group_id, enable_auto_commit=False)
    consumer.assign([partition])
    assert consumer.committed(partition) is None
    consumer.seek(partition, 4)
    records = consumer.poll(timeout_ms=5_000, max_records=3)[partition]
    assert [record.offset for record in records] == [4, 5, 6]
    consumer.commit()
    assert consumer.committed(partition) == 7
    consumer.close()


# -- aiokafka ----------------------------------------------------------------------------------------


def test_aiokafka_members_share_the_partitions(penstock_cluster: Cluster) -> None:
    bootstrap, topic, group_id = penstock_cluster.bootstrap_servers, unique("aio"), unique("group")
    create_topic(bootstrap, topic)

    async def read(consumer: AIOKafkaConsumer) -> list[bytes]:
        batches = await consumer.getmany(timeout_ms=50)
        return [record.value for records in batches.values() for record in records]

    async def story() -> None:
        settings = {
            "bootstrap_servers": bootstrap,
            "group_id": group_id,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
        }
        consumers = [AIOKafkaConsumer(topic, **settings) for _ in range(2)]
        values: list[bytes] = []
        for consumer in consumers:
            await consumer.start()
        while [len(consumer.assignment()) for consumer in consumers] != [2, 2]:
            await asyncio.gather(*map(read, consumers))
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for index in range(40):
                await producer.send_and_wait(topic, str(index).encode(), partition=index % 4)
        while len(values) < 40:
            for found in await asyncio.gather(*map(read, consumers)):
                values += found
        for consumer in consumers:
            await consumer.stop()
        assert sorted(map(int, values)) == list(range(40))

    asyncio.run(asyncio.wait_for(story(), TIMEOUT_S))
