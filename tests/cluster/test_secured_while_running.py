"""A running cluster changes from PLAINTEXT to SASL_SSL with ACLs, node by node, and no client notices.

These are the steps of docs/security.md ("Close a running cluster").
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from certificates import Authority
from kafka_node import free_port
from penstock.metadata.configs.support import STANDARD_AUTHORIZER
from several_nodes import SeveralNodes, penstock_nodes

TIMEOUT_S = 60
PAUSE_S = 0.005
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = 'username="node" password="of-node" user_node="of-node" user_admin="of-admin" user_ann="of-ann"'

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not os.environ.get("PENSTOCK_CLUSTER_FAULTS"),
        reason="nine restarts under load, a minute: PENSTOCK_CLUSTER_FAULTS=1, or make test-cluster",
    ),
]
Settings = Mapping[str, str | int | bool]


class Clients:
    """A producer and a member of a group that work until `stop`, and what they have seen."""

    def __init__(self, settings: Settings, topic: str, first: int) -> None:
        self.sent = first
        self.failures: list[str] = []
        self.received: set[int] = set()
        self._topic = topic
        self._stopping = threading.Event()
        self._settings = {**settings, "log_level": 0}
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True, "delivery.timeout.ms": 120_000})
        while not self._stopping.is_set():
            producer.produce(self._topic, b"%d" % self.sent, on_delivery=self._delivered)
            self.sent += 1
            producer.poll(PAUSE_S)
        if producer.flush(TIMEOUT_S):
            self.failures.append("records were not acknowledged in time")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.failures.append(f"produce: {error}")

    def _consume(self) -> None:
        consumer = Consumer({**self._settings, "group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe([self._topic])
        idle_since_s = time.monotonic()
        while not self._stopping.is_set() or time.monotonic() - idle_since_s < TIMEOUT_S:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                idle_since_s = time.monotonic()
                self.received.add(int(message.value() or b""))
            elif message is not None and not message.error().retriable():
                self.failures.append(f"consume: {message.error()}")
            if self._stopping.is_set() and self.sent - 1 in self.received:
                break
        consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()


def roll(cluster: SeveralNodes, change: Callable[[int], Mapping[str, str]]) -> None:
    """Restart one node after the other with other settings."""
    for node_id, node in cluster.nodes.items():
        node.stop()
        node.config |= change(node_id)
        node.start()


def test_a_running_cluster_is_closed(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    secured = {node_id: f"127.0.0.1:{free_port()}" for node_id in (1, 2, 3)}
    as_user = {
        "bootstrap.servers": ",".join(secured.values()),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": "PLAIN",
    }
    ann = {**as_user, "sasl.username": "ann", "sasl.password": "of-ann"}
    with penstock_nodes(tmp_path, config={"min.insync.replicas": "2"}) as cluster:
        plain = {node_id: node.bootstrap_servers for node_id, node in cluster.nodes.items()}
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(TIMEOUT_S)
        before = Clients({"bootstrap.servers": cluster.bootstrap_servers}, "orders", 0)

        def with_both(node_id: int) -> Mapping[str, str]:
            controller = cluster.controllers[node_id]
            return {
                "listeners": (
                    f"PLAINTEXT://{plain[node_id]},SECURE://{secured[node_id]},CONTROLLER://{controller}"
                ),
                "listener.security.protocol.map": (
                    "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL"
                ),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.server.store),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.certificate),
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.secure.plain.sasl.jaas.config": f"{PLAIN} {USERS};",
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:node;User:admin;User:ANONYMOUS",
            }

        roll(cluster, with_both)
        own = AdminClient({**as_user, "sasl.username": "admin", "sasl.password": "of-admin", "log_level": 0})
        allowed = [
            AclBinding(
                *(kind, name, ResourcePatternType.LITERAL, "User:ann", "*", operation),
                AclPermissionType.ALLOW,
            )
            for kind, name, operation in (
                (ResourceType.TOPIC, "orders", AclOperation.READ),
                (ResourceType.TOPIC, "orders", AclOperation.WRITE),
                (ResourceType.GROUP, "readers", AclOperation.READ),
            )
        ]
        for future in own.create_acls(allowed).values():
            future.result(TIMEOUT_S)
        roll(cluster, lambda _node_id: {"inter.broker.listener.name": "SECURE"})
        before.stop()
        after = Clients(ann, "orders", before.sent)
        roll(
            cluster,
            lambda node_id: {
                "listeners": f"SECURE://{secured[node_id]},CONTROLLER://{cluster.controllers[node_id]}"
            },
        )
        after.stop()
        assert before.failures == after.failures == []
        assert before.received | after.received >= set(range(after.sent))
        client = AdminClient({**ann, "log_level": 0})
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            client.create_topics([NewTopic("other", 1, 1)])["other"].result(TIMEOUT_S)
