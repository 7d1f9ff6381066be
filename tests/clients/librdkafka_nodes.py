"""The nodes that librdkafka's tests run against: one of Penstock, or several of it or of Apache Kafka.

What librdkafka's own cluster of several brokers sets (`cluster_testing.py`), these set too: a rack for each
broker, and the replica selector that heeds them.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from maven_jars import jars_of
from penstock.testing import Cluster
from several_nodes import kafka_nodes, penstock_nodes

TARGET_RELEASE = "4.3.1"

# What the suite's own clusters (scenarios/*.json) set; the rest is Kafka's default.
DEFAULT_SCENARIO = {
    "num.partitions": "4",
    "offsets.topic.num.partitions": "50",
    "group.initial.rebalance.delay.ms": "3000",
}
SCENARIOS = {
    "default": DEFAULT_SCENARIO,
    "noautocreate": {**DEFAULT_SCENARIO, "auto.create.topics.enable": "false"},
}
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Target(NamedTuple):
    """What to run against: `bootstrap` if it is there already, else so many nodes."""

    nodes: int = 1
    on_kafka: bool = False
    bootstrap: str | None = None

    @property
    def label(self) -> str:
        return f"{self.nodes}-{'kafka' if self.on_kafka else 'penstock'}"

    @property
    def is_ours(self) -> bool:
        return not self.on_kafka and self.bootstrap is None


class Nodes(ExitStack):
    """Started at their first use: some that create topics by themselves, and some that do not."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self._addresses: dict[str, str] = {}
        self._lock = Lock()

    def address_for(self, scenario: str) -> str:
        """Where to run a test."""
        if self._target.bootstrap is not None:
            return self._target.bootstrap
        with self._lock:
            if scenario not in self._addresses:
                self._addresses[scenario] = self._start(SCENARIOS[scenario])
            return self._addresses[scenario]

    def _start(self, config: dict[str, str]) -> str:
        nodes = self._target.nodes
        if nodes == 1 and not self._target.on_kafka:
            return self.enter_context(Cluster(config)).bootstrap_servers
        directory = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="librdkafka-suite-")))
        racks = {node_id: f"RACK{node_id}" for node_id in range(1, nodes + 1)}
        copies = str(min(3, nodes))
        config = {**config, "default.replication.factor": copies, "replica.selector.class": RACK_AWARE}
        if self._target.on_kafka:
            libs = jars_of(Path(__file__).with_name("kafka_pom.xml"), f"kafka-{TARGET_RELEASE}")
            made = kafka_nodes(libs, directory, nodes, dynamic_quorum=True, racks=racks, config=config)
        else:
            made = penstock_nodes(directory, nodes, dynamic_quorum=True, racks=racks, config=config)
        return self.enter_context(made).bootstrap_servers
