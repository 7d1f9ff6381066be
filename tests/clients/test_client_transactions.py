"""Transactions of client libraries: commit, abort, offsets with records, fencing of a zombie."""

import asyncio
import uuid
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from kafka_node import run_java
from penstock.testing import Cluster
from to_the_end import TO_THE_END

COMMITTED = [b"committed %d" % number for number in range(20)]
ABORTED = [b"aborted %d" % number for number in range(20)]
SOURCE_OFFSET = 7


@pytest.fixture
def topic(penstock_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of one partition for this test alone."""
    name = f"{request.node.name}-{uuid.uuid4().hex[:6]}"
    admin = AdminClient({"bootstrap.servers": penstock_cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1)])[name].result(60)
    return name


def check(bootstrap: str, topic: str) -> None:
    """Check the result of the scenarios: `read_committed` sees the committed records, others see all."""
    assert read(bootstrap, topic, "read_committed") == COMMITTED * 2
    assert sorted(read(bootstrap, topic, "read_uncommitted")) == sorted(COMMITTED * 2 + ABORTED)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    [committed] = consumer.committed([TopicPartition(topic, 0)], timeout=60)
    consumer.close()
    assert committed.offset == SOURCE_OFFSET


def read(bootstrap: str, topic: str, isolation_level: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": isolation_level,
        }
        | TO_THE_END
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    try:
        while True:
            message = consumer.poll(10)
            assert message is not None, f"{len(found)} records came, then nothing"
            if message.error() is not None:
                return found
            found.append(message.value())
    finally:
        consumer.close()


def test_confluent_kafka(penstock_cluster: Cluster, topic: str) -> None:
    bootstrap = penstock_cluster.bootstrap_servers
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})

    def begin() -> Producer:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
        producer.init_transactions(20)
        producer.begin_transaction()
        return producer

    def send(producer: Producer, values: list[bytes]) -> None:
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(20) == 0

    producer = begin()
    send(producer, COMMITTED)
    producer.commit_transaction(20)
    producer.begin_transaction()
    send(producer, ABORTED)
    producer.abort_transaction(20)
    producer.begin_transaction()
    send(producer, COMMITTED)
    offsets = [TopicPartition(topic, 0, SOURCE_OFFSET)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 20)
    producer.commit_transaction(20)
    consumer.close()
    producer.begin_transaction()
    begin()
    producer.produce(topic, b"zombie")
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    check(bootstrap, topic)


def test_kafka_python(penstock_cluster: Cluster, topic: str) -> None:
    bootstrap = penstock_cluster.bootstrap_servers
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=topic)

    def begin() -> KafkaProducer:
        producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        producer.init_transactions()
        producer.begin_transaction()
        return producer

    def send(producer: KafkaProducer, values: list[bytes]) -> None:
        for value in values:
            producer.send(topic, value)
        producer.flush(20)

    producer = begin()
    send(producer, COMMITTED)
    producer.commit_transaction()
    producer.begin_transaction()
    send(producer, ABORTED)
    producer.abort_transaction()
    producer.begin_transaction()
    send(producer, COMMITTED)
    offsets = {PythonTopicPartition(topic, 0): OffsetAndMetadata(SOURCE_OFFSET, "", -1)}
    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    producer.commit_transaction()
    consumer.close()
    producer.begin_transaction()
    successor = begin()
    with pytest.raises(KafkaError):
        raise_what_fails(producer, topic)
    successor.close()
    producer.close()
    check(bootstrap, topic)


def raise_what_fails(producer: KafkaProducer, topic: str) -> None:
    producer.send(topic, b"zombie").get(20)
    producer.commit_transaction()


def test_aiokafka(penstock_cluster: Cluster, topic: str) -> None:
    bootstrap = penstock_cluster.bootstrap_servers

    async def story() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
            async with producer.transaction():
                for value in COMMITTED:
                    await producer.send_and_wait(topic, value)
            await producer.begin_transaction()
            for value in ABORTED:
                await producer.send_and_wait(topic, value)
            await producer.abort_transaction()
            async with producer.transaction():
                for value in COMMITTED:
                    await producer.send_and_wait(topic, value)
                await producer.send_offsets_to_transaction(
                    {AioTopicPartition(topic, 0): SOURCE_OFFSET}, topic
                )
            await producer.begin_transaction()
            async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic):
                with pytest.raises(AioKafkaError):
                    await producer.send_and_wait(topic, b"zombie")
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            found = [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in range(40)]
        assert found == COMMITTED * 2

    asyncio.run(story())
    check(bootstrap, topic)


@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_java_client(kafka_libs: Path, penstock_cluster: Cluster, topic: str) -> None:
    """Transactions version 2, which only this client supports so far, and its admin client's view of them."""
    story = str(Path(__file__).with_name("Transactions.java"))
    out = run_java(kafka_libs, story, penstock_cluster.bootstrap_servers, topic)
    assert "all as expected" in out
    check(penstock_cluster.bootstrap_servers, topic)
