"""kafka-python with its default settings."""

import uuid

import pytest
from codec_on_disk import codecs_on_disk
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from penstock.protocol.compression import Codec
from penstock.testing import Cluster

COUNT = 500


def consume(bootstrap: str, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        found = []
        for record in consumer:
            found.append((record.key, record.value))
            if len(found) == count:
                break
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(penstock_cluster: Cluster, compression: str | None) -> None:
    bootstrap, topic = penstock_cluster.bootstrap_servers, f"kafka-python-{uuid.uuid4().hex}"
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression)
    sent = [(b"key %d" % number, b"value %d " % number * 10) for number in range(COUNT)]
    try:
        futures = [producer.send(topic, key=key, value=value) for key, value in sent]
        producer.flush(20)
        assert [future.get(10).offset for future in futures] == list(range(COUNT))
    finally:
        producer.close()
    assert consume(bootstrap, topic, COUNT) == sent
    expected = Codec[(compression or "none").upper()]
    assert codecs_on_disk(penstock_cluster.data_dir, topic) == {expected}


def test_a_group_goes_on_where_it_stopped(penstock_cluster: Cluster) -> None:
    bootstrap, topic = penstock_cluster.bootstrap_servers, f"kafka-python-{uuid.uuid4().hex}"
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    found: list[int] = []
    try:
        for turn in range(2):
            for number in range(10):
                producer.send(topic, b"%d" % (turn * 10 + number))
            producer.flush(20)
            consumer = KafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=topic,
                auto_offset_reset="earliest",
                consumer_timeout_ms=10_000,
            )
            for record in consumer:
                found.append(int(record.value))
                if len(found) == (turn + 1) * 10:
                    break
            consumer.close()
    finally:
        producer.close()
    assert found == list(range(20))


def test_log_levels_of_a_broker(penstock_cluster: Cluster) -> None:
    logger = "penstock.broker.control.controller"
    admin = KafkaAdminClient(bootstrap_servers=penstock_cluster.bootstrap_servers)

    def level() -> str:
        resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, "1")
        [found] = admin.describe_configs([resource], config_filter="all")["broker_logger"].values()
        value: str = found[logger]["value"]
        return value

    try:
        before = level()
        admin.alter_configs([ConfigResource(ConfigResourceType.BROKER_LOGGER, "1", {logger: "TRACE"})])
        assert level() == "TRACE"
        admin.reset_configs([ConfigResource(ConfigResourceType.BROKER_LOGGER, "1", {logger: None})])
        assert level() == before
    finally:
        admin.close()
