"""Clients of all kinds over TLS, against three nodes that speak only TLS, also with each other."""

import asyncio
import json
import ssl
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from certificates import Authority
from kafka_node import run_java
from penstock.testing import Cluster

COUNT = 500
TIMEOUT_S = 30
RECORDS = [(b"key %d" % number, b"value %d " % number * 10) for number in range(COUNT)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("clients") / "authority")


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    """Three nodes whose every connection, of clients, brokers and controllers, shows two certificates."""
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "required",
    }
    with Cluster(settings, nodes=3) as cluster:
        yield cluster


@pytest.fixture
def topic() -> str:
    return f"tls-{uuid.uuid4().hex}"


def test_confluent_kafka_over_the_loss_of_a_node(cluster: Cluster, authority: Authority, topic: str) -> None:
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(authority.client.chain),
        "ssl.key.location": str(authority.client.key),
        "log_level": 0,
    }
    producer = Producer({**settings, "enable.idempotence": True})
    for number, (key, value) in enumerate(RECORDS):
        producer.produce(topic, value, key)
        if number == COUNT // 2:
            assert producer.flush(TIMEOUT_S) == 0
            cluster.node(2).kill()
    assert producer.flush(TIMEOUT_S) == 0
    cluster.node(2).restart()
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = set()
    while len(found) < COUNT:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        found.add((message.key(), message.value()))
    consumer.close()
    assert found == set(RECORDS)


def test_aiokafka(cluster: Cluster, authority: Authority, topic: str) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(authority.client.store)
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_context": context,
    }

    async def story() -> None:
        async with AIOKafkaProducer(**settings) as producer:
            for ack in [await producer.send(topic, key=key, value=value) for key, value in RECORDS]:
                await ack
        found = []
        async with AIOKafkaConsumer(
            topic, **settings, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            while len(found) < COUNT:
                record = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
                found.append((record.key, record.value))
        assert sorted(found) == sorted(RECORDS)

    asyncio.run(story())


def test_kafka_python(cluster: Cluster, authority: Authority, topic: str) -> None:
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_cafile": str(authority.certificate),
        "ssl_certfile": str(authority.client.chain),
        "ssl_keyfile": str(authority.client.key),
    }
    producer = KafkaProducer(**settings)
    sent = [producer.send(topic, key=key, value=value) for key, value in RECORDS]
    for future in sent:
        future.get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
    found = []
    for record in consumer:
        found.append((record.key, record.value))
        if len(found) == COUNT:
            break
    consumer.close()
    assert sorted(found) == sorted(RECORDS)


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_the_java_client(
    kafka_libs: Path, cluster: Cluster, authority: Authority, topic: str, tmp_path: Path
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.certificate}\n"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.location={authority.client.store}\n"
    )
    tools = "org.apache.kafka.tools"
    common = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--max-messages", "2000"]
    common += ["--command-config", str(settings)]
    produced = run_java(kafka_libs, f"{tools}.VerifiableProducer", *common)
    events = [json.loads(line) for line in produced.splitlines()]
    assert sum(event["name"] == "producer_send_success" for event in events) == 2000
    consumed = run_java(kafka_libs, f"{tools}.VerifiableConsumer", *common, "--group-id", topic)
    counts = [e["count"] for e in map(json.loads, consumed.splitlines()) if e["name"] == "records_consumed"]
    assert sum(counts) == 2000
