"""A disk fills up under an idempotent producer: it waits, readers continue, no record is lost or doubled."""

import resource
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from broker_wire import Wire
from penstock.testing import Cluster

VALUE = b"x" * 2000
UNLIMITED = resource.RLIM_INFINITY
FULL_AT_BYTES = 600_000
"""The maximum size of each file of the node while the disk is "full"."""


def test_production_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(int(message.key()))
        else:
            refused.append(error)

    with Cluster({"log.segment.bytes": str(1 << 20)}, data_dir=tmp_path / "data") as cluster:
        with Wire(cluster.bootstrap_servers) as wire:
            wire.create_topic("t")
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.size": 50_000,
                "retry.backoff.ms": 20,
                "log_level": 3,
            }
        )
        resource.prlimit(cluster.pid, resource.RLIMIT_FSIZE, (FULL_AT_BYTES, UNLIMITED))
        for number in range(1500):
            producer.produce("t", VALUE, key=b"%d" % number, on_delivery=delivered)
        producer.flush(2)
        kept = len(acknowledged)
        assert 0 < kept < 1500
        assert not refused
        assert read_keys(cluster, kept) == list(range(kept))
        resource.prlimit(cluster.pid, resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))
        assert producer.flush(30) == 0
        assert not refused
        assert acknowledged == list(range(1500))
        assert read_keys(cluster, 1500) == acknowledged
        cluster.kill()
        cluster.start()
        assert read_keys(cluster, 1500) == acknowledged


def read_keys(cluster: Cluster, count: int) -> list[int]:
    """Read all records, which must be `count`."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "check"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=60)
        assert (low, high) == (0, count)
        consumer.assign([TopicPartition("t", 0, 0)])
        found: list[int] = []
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            found += [int(message.key()) for message in consumer.consume(1000, 0.5)]
        return found
    finally:
        consumer.close()
