"""confluent-kafka (librdkafka) with its default settings."""

import uuid

import pytest
from codec_on_disk import codecs_on_disk
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from penstock.protocol.compression import Codec
from penstock.testing import Cluster

COUNT = 2000


def consume(bootstrap: str, topic: str, count: int, **settings: str | bool) -> list[Message]:
    """The first records of a topic, read by a consumer with assigned partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            **settings,
        }
    )
    try:
        metadata = consumer.list_topics(topic, timeout=60).topics[topic]
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in metadata.partitions])
        found: list[Message] = []
        while len(found) < count:
            batch = consumer.consume(count - len(found), timeout=60)
            assert batch, f"{len(found)} of {count} records came"
            for message in batch:
                assert message.error() is None, message.error()
            found += batch
        return found
    finally:
        consumer.close()


def test_defaults(penstock_cluster: Cluster) -> None:
    bootstrap, topic = penstock_cluster.bootstrap_servers, f"confluent-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": bootstrap})  # results are lost if the client is collected early
    admin.create_topics([NewTopic(topic, 3)])[topic].result(60)
    delivered: dict[tuple[int, int], bytes | None] = {}

    def report(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        delivered[message.partition() or 0, message.offset() or 0] = message.key()

    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(COUNT):
        key = b"%d" % number
        producer.produce(topic, b"value " + key, key=key, headers=[("h", key)], on_delivery=report)
        producer.poll(0)
    assert producer.flush(20) == 0
    found = consume(bootstrap, topic, COUNT)
    assert {(m.partition(), m.offset()): m.key() for m in found} == delivered
    assert {m.value() for m in found} == {b"value %d" % number for number in range(COUNT)}
    assert all(m.headers() == [("h", m.key())] for m in found)


@pytest.mark.parametrize(
    "settings",
    [
        {"enable.idempotence": True},
        {"acks": "1"},
        {"acks": "0"},
        {"batch.num.messages": 1, "linger.ms": 0},
    ],
    ids=["idempotent", "acks 1", "acks 0", "one record a request"],
)
def test_ways_to_produce(penstock_cluster: Cluster, settings: dict[str, str | int | bool]) -> None:
    bootstrap, topic = penstock_cluster.bootstrap_servers, f"confluent-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    sent = [b"%d" % number for number in range(500)]
    for value in sent:
        producer.produce(topic, value)
    assert producer.flush(20) == 0
    assert [m.value() for m in consume(bootstrap, topic, len(sent))] == sent


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compression(penstock_cluster: Cluster, codec: Codec) -> None:
    bootstrap, topic = penstock_cluster.bootstrap_servers, f"confluent-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec.name.lower()})
    sent = [b"compress me, please! " * 20 + b"%d" % number for number in range(300)]
    for value in sent:
        producer.produce(topic, value)
    assert producer.flush(20) == 0
    assert [m.value() for m in consume(bootstrap, topic, len(sent))] == sent
    assert codecs_on_disk(penstock_cluster.data_dir, topic) == {codec}


def test_offsets_for_times(penstock_cluster: Cluster) -> None:
    bootstrap, topic = penstock_cluster.bootstrap_servers, f"confluent-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": bootstrap})
    base_ms = 1_700_000_000_000
    for number in range(10):
        producer.produce(topic, b"x", timestamp=base_ms + number * 1000)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex})
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, 10)
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, base_ms + 4500)], timeout=60)
        assert found.offset == 5
    finally:
        consumer.close()


def test_users_are_set_described_and_deleted(penstock_cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": penstock_cluster.bootstrap_servers})
    name = f"user-{uuid.uuid4().hex}"

    def described() -> dict[ScramMechanism, int]:
        description = admin.describe_user_scram_credentials([name])[name].result(30)
        return {info.mechanism: info.iterations for info in description.scram_credential_infos}

    for mechanism, iterations in ((ScramMechanism.SCRAM_SHA_256, 4096), (ScramMechanism.SCRAM_SHA_512, 8192)):
        info = ScramCredentialInfo(mechanism, iterations)
        upsertion = UserScramCredentialUpsertion(name, info, b"pencil")
        admin.alter_user_scram_credentials([upsertion])[name].result(30)
    assert described() == {ScramMechanism.SCRAM_SHA_256: 4096, ScramMechanism.SCRAM_SHA_512: 8192}
    assert name in admin.describe_user_scram_credentials().result(30)
    deletion = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])[name].result(30)
    assert described() == {ScramMechanism.SCRAM_SHA_512: 8192}
    with pytest.raises(KafkaException) as refused:
        admin.alter_user_scram_credentials([deletion])[name].result(30)
    assert refused.value.args[0].name() == "RESOURCE_NOT_FOUND"
