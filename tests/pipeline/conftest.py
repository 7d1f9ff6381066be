"""One Spark session and one node for all pipeline tests; a topic of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_node import KafkaNode
from penstock.spark.session import build_session
from penstock.testing import Cluster


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """A warm session with one shuffle partition; it ends with the test run."""
    session = build_session(
        "penstock-tests", "local[2]", {"spark.sql.shuffle.partitions": "1"}, profile="quick"
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def servers(penstock_cluster: Cluster) -> str:
    return penstock_cluster.bootstrap_servers


@pytest.fixture(scope="session")
def kafka_servers(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An Apache Kafka node of the target release, for tests with the marker `kafka`."""
    with KafkaNode(kafka_libs, tmp_path_factory.mktemp("kafka")) as node:
        yield node.bootstrap_servers


@pytest.fixture
def make_topic(servers: str) -> Callable[..., str]:
    """``make_topic(partitions=1, name=None, **config)`` creates a topic and gives its name."""
    admin = AdminClient({"bootstrap.servers": servers})

    def make(partitions: int = 1, name: str | None = None, **config: str) -> str:
        topic = name or f"pipeline-{uuid.uuid4().hex}"
        settings = {"retention.ms": "-1"}  # whatever times a test gives its records
        settings |= {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
        return topic

    return make


@pytest.fixture
def produce(servers: str) -> Callable[..., None]:
    """``produce(topic, values, partition=…, key=…, headers=…)`` by a client that is not ours."""

    def send(topic: str, values: list[bytes | None], **fields: object) -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        for value in values:
            producer.produce(topic, value, **fields)
        assert producer.flush(30) == 0

    return send
