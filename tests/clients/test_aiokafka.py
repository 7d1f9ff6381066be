"""aiokafka with its default settings."""

import asyncio
import uuid

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from codec_on_disk import codecs_on_disk

from penstock.protocol.compression import Codec
from penstock.testing import Cluster

COUNT = 500


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(penstock_cluster: Cluster, compression: str | None) -> None:
    bootstrap, topic = penstock_cluster.bootstrap_servers, f"aiokafka-{uuid.uuid4().hex}"
    sent = [(b"key %d" % number, b"value %d " % number * 10) for number in range(COUNT)]

    async def story() -> list[tuple[bytes | None, bytes | None]]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=compression) as producer:
            acks = [await producer.send(topic, key=key, value=value) for key, value in sent]
            assert [(await ack).offset for ack in acks] == list(range(COUNT))
        found = []
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            while len(found) < COUNT:
                record = await asyncio.wait_for(consumer.getone(), 20)
                found.append((record.key, record.value))
        return found

    assert asyncio.run(story()) == sent
    expected = Codec[(compression or "none").upper()]
    assert codecs_on_disk(penstock_cluster.data_dir, topic) == {expected}
