"""A node that is only a controller, queried by Apache Kafka's own tools (KIP-919).

With PENSTOCK_KAFKA_CLUSTERS the same test runs on nodes of Apache Kafka, which define the expectations.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_node import CLUSTER_ID, KafkaNode, free_port
from kafka_tools import KafkaTools
from penstock_node import PenstockNode

pytestmark = pytest.mark.kafka

CONTROLLER, BROKER = 1, 2


class Apart:
    """A controller and a separate broker."""

    def __init__(self, kind: str, libs: Path, directory: Path) -> None:
        self.controller_at, self.broker_at = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        quorum = {"controller.quorum.voters": f"{CONTROLLER}@{self.controller_at}"}
        configs = {
            CONTROLLER: {
                "process.roles": "controller",
                "listeners": f"CONTROLLER://{self.controller_at}",
                "num.io.threads": "4",
            },
            BROKER: {
                "process.roles": "broker",
                "listeners": f"PLAINTEXT://{self.broker_at}",
                "offsets.topic.replication.factor": "1",
                "num.io.threads": "16",
            },
        }
        self.nodes: dict[int, KafkaNode | PenstockNode] = {}
        for node_id, config in configs.items():
            place = directory / str(node_id)
            place.mkdir()
            port = int((self.controller_at if node_id == CONTROLLER else self.broker_at).rpartition(":")[2])
            settings = {**quorum, **config, "node.id": str(node_id)}
            if kind == "kafka":
                self.nodes[node_id] = KafkaNode(libs, place, port=port, config=settings)
            else:
                self.nodes[node_id] = PenstockNode(place, cluster_id=CLUSTER_ID, port=port, config=settings)

    def __enter__(self) -> "Apart":
        for node in self.nodes.values():
            node.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        for node in self.nodes.values():
            node.kill_if_running()


@pytest.fixture(scope="module", params=["penstock", "kafka"])
def apart(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka_libs: Path
) -> Iterator[Apart]:
    if not os.environ.get("PENSTOCK_KAFKA_CLUSTERS"):
        pytest.skip(
            "tools of Apache Kafka on nodes apart take ten seconds: PENSTOCK_KAFKA_CLUSTERS=1 runs them"
        )
    with Apart(request.param, kafka_libs, tmp_path_factory.mktemp("apart")) as made:
        yield made


@pytest.mark.timeout(240)
def test_tools_speak_to_a_controller(apart: Apart, kafka_libs: Path) -> None:
    with KafkaTools(kafka_libs) as tools:
        at = ("--bootstrap-controller", apart.controller_at)
        status = tools.run("metadata-quorum", *at, "describe", "--status")
        assert re.search(rf"ClusterId: +{CLUSTER_ID}", status)
        assert re.search(rf"LeaderId: +{CONTROLLER}", status)
        replicas = tools.run("metadata-quorum", *at, "describe", "--replication")
        assert re.search(rf"(?m)^{CONTROLLER}\s.*Leader", replicas)
        assert re.search(rf"(?m)^{BROKER}\s.*Observer", replicas)

        assert "metadata.version" in tools.run("features", *at, "describe")
        assert f"Cluster ID: {CLUSTER_ID}" in tools.run("cluster", "cluster-id", *at)
        endpoints = tools.run("cluster", "list-endpoints", *at)
        assert re.search(rf"(?m)^{CONTROLLER}\s.*controller", endpoints), endpoints
        assert str(BROKER) not in [line.split()[0] for line in endpoints.splitlines() if line.split()]

        configs(tools, apart, at)
        loggers(tools, at)
        wrong_endpoints(tools, apart)


def configs(tools: KafkaTools, apart: Apart, at: tuple[str, str]) -> None:
    own = ("--entity-type", "brokers", "--entity-name", str(CONTROLLER))
    described = tools.run("configs", *at, *own, "--describe", "--all")
    assert "num.io.threads=4 " in described
    tools.run("configs", *at, *own, "--alter", "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in tools.run("configs", *at, *own, "--describe")
    tools.run("configs", *at, *own, "--alter", "--delete-config", "log.cleaner.threads")
    other = ("--entity-type", "brokers", "--entity-name", str(BROKER))
    at_broker = ("--bootstrap-server", apart.broker_at)
    assert "num.io.threads=16 " in tools.run("configs", *at_broker, *other, "--describe", "--all")
    code, text = tools.attempt("configs", *at_broker, *other, "--alter", "--add-config", "num.io.threads=33")
    assert "should not be greater than double the current value 16" in text, (code, text)


def loggers(tools: KafkaTools, at: tuple[str, str]) -> None:
    """Check that a controller has its own log levels."""
    own = ("--entity-type", "broker-loggers", "--entity-name", str(CONTROLLER))
    before = tools.run("configs", *at, *own, "--describe")
    assert "root=" in before
    tools.run("configs", *at, *own, "--alter", "--add-config", "root=WARN")
    assert "root=WARN" in tools.run("configs", *at, *own, "--describe")
    code, text = tools.attempt("configs", *at, *own, "--alter", "--add-config", "nobody.there=WARN")
    assert "Invalid broker logger(s): nobody.there" in text, (code, text)


def wrong_endpoints(tools: KafkaTools, apart: Apart) -> None:
    """Check the errors for a broker request to a controller, and the reverse."""
    code, text = tools.attempt(
        "metadata-quorum", "--bootstrap-server", apart.controller_at, "describe", "--status"
    )
    assert code != 0
    assert "The node does not support METADATA" in text
    code, text = tools.attempt("cluster", "cluster-id", "--bootstrap-controller", apart.broker_at)
    assert code != 0, text
    topics = tools.run("topics", "--bootstrap-server", apart.broker_at, "--create", "--topic", "t")
    assert "Created topic t." in topics
