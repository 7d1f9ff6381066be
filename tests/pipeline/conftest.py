"""One Spark session and one node for all pipeline tests; each test uses a topic of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_node import KafkaNode
from penstock.spark.launching.session import build_session
from penstock.testing import Cluster
from waiting import wait_until


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """A warm session with one shuffle partition; it ends with the test run."""
    conf = {"spark.sql.shuffle.partitions": "1"}
    session = build_session("penstock-tests", "local[2]", conf, profile="quick", share_classes=True)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def servers_of_ours(penstock_cluster: Cluster) -> str:
    return penstock_cluster.bootstrap_servers


@pytest.fixture(scope="session")
def servers(servers_of_ours: str) -> str:
    return servers_of_ours


@pytest.fixture(scope="session")
def kafka_servers(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An Apache Kafka node of the target release, for tests with the marker `kafka`.

    Records with times in 1970 are kept, also in topics that applications create: the node checks for old
    records only every five minutes.
    """
    directory = tmp_path_factory.mktemp("kafka")
    with KafkaNode(kafka_libs, directory, config={"log.retention.ms": "-1"}) as node:
        yield node.bootstrap_servers


@pytest.fixture(
    scope="module", params=["penstock", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.long])]
)
def either_servers(request: pytest.FixtureRequest) -> str:
    """The address of each broker in turn; a module whose tests all run on both calls it `servers`."""
    found: str = request.getfixturevalue("kafka_servers" if request.param == "kafka" else "servers_of_ours")
    return found


@pytest.fixture
def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex}"


@pytest.fixture
def committed(admin: AdminClient, group: str) -> Callable[..., dict[int, int]]:
    """The committed offsets by partition number, of one topic or of all, as an administrator reads them."""

    def ask(topic: str | None = None) -> dict[int, int]:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = asked[group].result(30).topic_partitions
        return {tp.partition: tp.offset for tp in found if tp.offset >= 0 and topic in (None, tp.topic)}

    return ask


@pytest.fixture
def make_topic(servers: str, admin: AdminClient) -> Callable[..., str]:
    """``make_topic(partitions=1, name=None, **config)`` creates a topic and returns its name."""

    def make(partitions: int = 1, name: str | None = None, **config: str) -> str:
        topic = name or f"pipeline-{uuid.uuid4().hex}"
        settings = {"retention.ms": "-1"}  # records may have any timestamp
        settings |= {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
        # Apache Kafka answers before its broker has read the topic from the metadata log.
        wait_until(lambda: topic in admin.list_topics(timeout=30).topics)
        return topic

    return make


@pytest.fixture
def produce(servers: str) -> Callable[..., None]:
    """``produce(topic, values, partition=…, key=…, headers=…)`` writes with a client that is not ours."""

    def send(topic: str, values: list[bytes | None], **fields: object) -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        for value in values:
            producer.produce(topic, value, **fields)
        assert producer.flush(30) == 0

    return send
