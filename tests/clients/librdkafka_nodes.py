"""The nodes for librdkafka's tests: one of Penstock, or several of Penstock or Apache Kafka.

They have the settings of librdkafka's own cluster of several brokers (`cluster_testing.py`): a rack for each
broker, and the replica selector that uses racks.
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

# Settings of the suite's own clusters (scenarios/*.json); the rest are Kafka's defaults.
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
    """The cluster to run against: an existing one at `bootstrap`, or a number of nodes."""

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
    """Nodes that start at first use: some create topics automatically, and some do not."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self._addresses: dict[str, str] = {}
        self._lock = Lock()

    def address_for(self, scenario: str) -> str:
        """The address to run a test against."""
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
