"""One node for all tests, and a topic of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Cluster


@pytest.fixture(scope="session")
def servers(penstock_cluster: Cluster) -> str:
    return penstock_cluster.bootstrap_servers


@pytest.fixture
def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


@pytest.fixture
def make_topic(admin: AdminClient) -> Callable[..., str]:
    """``make_topic(partitions=1, **config)`` creates a topic and returns its name."""

    def make(partitions: int = 1, **config: str) -> str:
        topic = f"arrow-{uuid.uuid4().hex}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
        return topic

    return make


@pytest.fixture
def produce(servers: str) -> Callable[..., None]:
    """``produce(topic, values, partition=…, key=…, config={…})`` writes with a client that is not ours."""

    def send(
        topic: str, values: list[bytes | None], config: dict[str, object] | None = None, **fields: object
    ) -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, **(config or {})})
        for value in values:
            producer.produce(topic, value, **fields)
        assert producer.flush(30) == 0

    return send
