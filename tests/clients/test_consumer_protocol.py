"""Clients that ask for the consumer protocol of groups (KIP-848), which is not served yet.

They get the error that Apache Kafka answers if its configuration lacks the protocol, and the log names them.
"""

import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_node import KafkaNode, run_java
from penstock.testing import Cluster

JAVA_CONSUMER = Path(__file__).with_name("ConsumerProtocol.java")
REMEDY = "set group.protocol=classic"


def create_topic(bootstrap: str) -> str:
    topic = f"protocol-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    return topic


def librdkafka_error(bootstrap: str, topic: str) -> str:
    """The first error that librdkafka reports, or `no error`."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "client.id": f"{topic}-librdkafka",
            "group.protocol": "consumer",
        }
    )
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        error = None if message is None else message.error()
        if error is None:
            return "no error"
        assert error.code() == KafkaError._FATAL
        return str(error.str())
    finally:
        consumer.close()


def refusals(cluster: Cluster, client_id: str) -> list[str]:
    lines = cluster.log_file.read_text().splitlines()
    return [line for line in lines if "consumer refused" in line and f"client_id={client_id} " in line]


def test_librdkafka_fails_at_once_and_is_named_once(penstock_cluster: Cluster) -> None:
    topic = create_topic(penstock_cluster.bootstrap_servers)
    for _ in range(2):
        error = librdkafka_error(penstock_cluster.bootstrap_servers, topic)
        assert "Broker: API version not supported" in error
    (line,) = refusals(penstock_cluster, f"{topic}-librdkafka")
    assert f"group={topic} " in line
    assert REMEDY in line


def test_the_classic_protocol_is_served_beside_it(penstock_cluster: Cluster) -> None:
    topic = create_topic(penstock_cluster.bootstrap_servers)
    librdkafka_error(penstock_cluster.bootstrap_servers, topic)
    consumer = Consumer({"bootstrap.servers": penstock_cluster.bootstrap_servers, "group.id": topic})
    assigned: list[int] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.append(len(partitions)))
    for _ in range(60):
        if assigned:
            break
        consumer.poll(1)
    consumer.close()
    assert assigned == [1]


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_java_fails_at_once_and_is_named(kafka_libs: Path, penstock_cluster: Cluster) -> None:
    topic = create_topic(penstock_cluster.bootstrap_servers)
    found = run_java(kafka_libs, str(JAVA_CONSUMER), penstock_cluster.bootstrap_servers, topic)
    assert found.strip() == "UnsupportedVersionException"
    (line,) = refusals(penstock_cluster, f"{topic}-java")
    assert REMEDY in line


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(300)
def test_apache_kafka_without_the_protocol_answers_the_same(kafka_libs: Path, tmp_path: Path) -> None:
    config = {"group.coordinator.rebalance.protocols": "classic"}
    with KafkaNode(kafka_libs, tmp_path, config=config) as node:
        topic = create_topic(node.bootstrap_servers)
        assert "Broker: API version not supported" in librdkafka_error(node.bootstrap_servers, topic)
        found = run_java(kafka_libs, str(JAVA_CONSUMER), node.bootstrap_servers, topic)
        assert found.strip() == "UnsupportedVersionException"
