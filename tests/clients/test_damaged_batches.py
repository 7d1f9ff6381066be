"""Damaged batches are refused, and clients read the records around them."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from random import Random

import aiokafka
import confluent_kafka
import kafka
import pytest

import penstock
from broker_wire import Wire
from damaged_batches import damages
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, encode_batch
from penstock.testing import Cluster

TOPIC = "damaged"
SMALL = [Record(0, 1_700_000_000_000, None, b"value %d" % number) for number in range(20)]
random = Random(20)
LARGE = [Record(0, 1_700_000_000_000, None, random.randbytes(25).hex().encode()) for _ in range(2_000)]
"""More than the event loop decompresses."""


def values_of_confluent(bootstrap: str, count: int) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "damaged"})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < count:
        for message in consumer.consume(count - len(found), 20):
            assert message.error() is None, message.error()
            found.append(message.value())
    consumer.close()
    return found


def values_of_kafka_python(bootstrap: str, count: int) -> list[bytes | None]:
    consumer = kafka.KafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None
    )
    try:
        return [message.value for message in islice(consumer, count)]
    finally:
        consumer.close()


def values_of_aiokafka(bootstrap: str, count: int) -> list[bytes | None]:
    async def consume() -> list[bytes | None]:
        consumer = aiokafka.AIOKafkaConsumer(TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in range(count)]
        finally:
            await consumer.stop()

    return asyncio.run(consume())


def values_of_penstock(bootstrap: str, count: int) -> list[bytes | None]:
    return penstock.read(TOPIC, bootstrap).to_table().column("value").to_pylist()


@pytest.fixture
def node() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.mark.timeout(180)
def test_clients_read_the_records_around_damaged_batches(node: Cluster) -> None:
    expected: list[bytes | None] = []
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic(TOPIC)
        for codec in Codec:
            for records in (SMALL, LARGE):
                for name, data in damages(records, codec).items():
                    assert wire.produce(TOPIC, data).error_code == ErrorCode.INVALID_RECORD, (codec, name)
                answer = wire.produce(TOPIC, encode_batch(records, compression=codec))
                assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, len(expected))
                expected += [record.value for record in records]
    for read in (values_of_confluent, values_of_kafka_python, values_of_aiokafka, values_of_penstock):
        assert read(node.bootstrap_servers, len(expected)) == expected, read.__name__
