"""Nodes that log in at each other by SASL, over TLS."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from certificates import Authority
from kafka_node import CLUSTER_ID, free_port
from penstock.testing import Cluster
from penstock_node import PenstockNode

TIMEOUT_S = 30
SESSION_MS = 1500
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
NODES = (
    f'{PLAIN} required username="node" password="node-secret" user_node="node-secret" user_ann="ann-secret";'
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def cluster(authority: Authority) -> Iterator[Cluster]:
    """Three nodes that authenticate everybody, whose sessions last a second."""
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.location": str(authority.certificate),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": NODES,
        "listener.name.plaintext.plain.sasl.jaas.config": NODES,
        "connections.max.reauth.ms": str(SESSION_MS),
    }
    with Cluster(settings, nodes=3) as cluster:
        yield cluster


def test_three_nodes_replicate_over_several_sessions(cluster: Cluster, authority: Authority) -> None:
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": "ann-secret",
        "log_level": 0,
    }
    producer = Producer({**settings, "acks": "all", "linger.ms": 0})
    count, end_s = 0, time.monotonic() + 3 * SESSION_MS / 1000
    while time.monotonic() < end_s:
        producer.produce("t", b"%d" % count)
        count += 1
        assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    found = []
    while len(found) < count:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    assert sorted(found) == sorted(b"%d" % number for number in range(count))
    for node in cluster.nodes:
        assert "session has ended" not in node.log_tail()
    cluster.node(1).kill()
    producer.produce("t", b"after the loss")
    assert producer.flush(TIMEOUT_S) == 0


def test_the_first_users_are_there_from_the_format_on(tmp_path: Path) -> None:
    """A broker logs in at a controller by SCRAM, before it has any metadata itself."""
    controller_port, port = free_port(), free_port()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    common = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        **{
            f"listener.name.{name}.scram-sha-512.sasl.jaas.config": (
                f'{module} required username="node" password="node-secret";'
            )
            for name in ("controller", "plaintext")
        },
        "offsets.topic.replication.factor": "1",
    }
    controller = PenstockNode(
        tmp_path / "controller",
        cluster_id=CLUSTER_ID,
        port=controller_port,
        format_words=["--add-scram", "SCRAM-SHA-512=[name=node,password=node-secret]"],
        config={
            **common,
            "process.roles": "controller",
            "node.id": "1",
            "listeners": f"CONTROLLER://127.0.0.1:{controller_port}",
        },
    )
    broker = PenstockNode(
        tmp_path / "broker",
        cluster_id=CLUSTER_ID,
        port=port,
        config={
            **common,
            "process.roles": "broker",
            "node.id": "2",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        },
    )
    for name in ("controller", "broker"):
        (tmp_path / name).mkdir()
    with ExitStack() as nodes:
        for node in (controller, broker):
            nodes.callback(node.stop)
            node.start()
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "node",
                "sasl.password": "node-secret",
                "log_level": 0,
            }
        )
        producer.produce("t", b"by SCRAM")
        assert producer.flush(TIMEOUT_S) == 0
