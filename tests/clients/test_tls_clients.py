"""Clients of all kinds over TLS, against three nodes that speak only TLS, also with each other."""

import ssl
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from certificates import Authority
from penstock.testing import Cluster
from round_trips import (
    COUNT,
    RECORDS,
    TIMEOUT_S,
    by_aiokafka,
    by_java,
    by_kafka_python,
    consumed_by_confluent_kafka,
)


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
    assert consumed_by_confluent_kafka(settings, topic) == set(RECORDS)


def test_aiokafka(cluster: Cluster, authority: Authority, topic: str) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(authority.client.store)
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_context": context,
    }

    by_aiokafka(settings, topic)


def test_kafka_python(cluster: Cluster, authority: Authority, topic: str) -> None:
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_cafile": str(authority.certificate),
        "ssl_certfile": str(authority.client.chain),
        "ssl_keyfile": str(authority.client.key),
    }
    by_kafka_python(settings, topic)


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
    by_java(kafka_libs, cluster.bootstrap_servers, settings, topic)
