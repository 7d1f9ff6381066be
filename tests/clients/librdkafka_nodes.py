"""The nodes for librdkafka's tests: one of Penstock, or several of Penstock or Apache Kafka.

They have the settings of librdkafka's own cluster of several brokers (`cluster_testing.py`): a rack for each
broker, and the replica selector that uses racks. Tests of security have nodes of their own
(`librdkafka_security`).
"""

import tempfile
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from librdkafka_oidc import MECHANISM, OidcIssuer
from librdkafka_security import OPEN, Certificates, Secured
from secured_nodes import create_user, settings_of_librdkafka

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


class Access(NamedTuple):
    """How a test reaches its nodes: an address, settings of librdkafka, and environment variables."""

    bootstrap: str
    settings: dict[str, str]
    environment: dict[str, str]


class Nodes(ExitStack):
    """Nodes that start at first use: with or without automatic topics, and secured as a test needs it."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self._addresses: dict[tuple[str, Secured], str] = {}
        self._lock = Lock()
        scratch = self.enter_context(tempfile.TemporaryDirectory(prefix="librdkafka-suite-"))
        self._scratch = Path(scratch)
        self._certificates = Certificates(self._scratch)

    def access(self, scenario: str, secured: Secured = OPEN) -> Access:
        """Return the way to the nodes for a test; start them first if they do not run."""
        settings = settings_of_librdkafka(secured.security, self._certificates.authority)
        if secured != OPEN:
            # As in the suite's own clusters: some tests start a Java program several times.
            settings["test.timeout.multiplier"] = "2"
        environment = dict(self._certificates.environment) if secured.security.has_tls else {}
        with self._lock:
            if secured.security.mechanism == MECHANISM:
                settings |= self._issuer.settings_of_librdkafka()
                environment |= self._issuer.environment
            bootstrap = self._target.bootstrap or self._addresses.get((scenario, secured))
            if bootstrap is None:
                bootstrap = self._addresses[scenario, secured] = self._start(SCENARIOS[scenario], secured)
        return Access(bootstrap, settings, environment)

    @cached_property
    def _issuer(self) -> OidcIssuer:
        """The issuer of tokens, which starts at first use; it ends after the nodes."""
        return self.enter_context(OidcIssuer(self._scratch, self._certificates.authority))

    def _start(self, config: dict[str, str], secured: Secured) -> str:
        authority = self._certificates.authority
        if secured != OPEN:
            config = {**config, **secured.settings_of_nodes(authority)}
        if secured.security.mechanism == MECHANISM:
            config |= self._issuer.settings_of_nodes()
        bootstrap = self._start_with(config)
        if secured.security.has_sasl:
            create_user(bootstrap, secured.security.protocol, authority)
        return bootstrap

    def _start_with(self, config: dict[str, str]) -> str:
        nodes = self._target.nodes
        if nodes == 1 and not self._target.on_kafka:
            return self.enter_context(Cluster(config)).bootstrap_servers
        directory = Path(tempfile.mkdtemp(prefix="nodes-", dir=self._scratch))
        racks = {node_id: f"RACK{node_id}" for node_id in range(1, nodes + 1)}
        copies = str(min(3, nodes))
        config = {
            **config,
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": str(min(2, nodes)),
            "replica.selector.class": RACK_AWARE,
        }
        if self._target.on_kafka:
            libs = jars_of(Path(__file__).with_name("kafka_pom.xml"), f"kafka-{TARGET_RELEASE}")
            made = kafka_nodes(libs, directory, nodes, dynamic_quorum=True, racks=racks, config=config)
        else:
            made = penstock_nodes(directory, nodes, dynamic_quorum=True, racks=racks, config=config)
        return self.enter_context(made).bootstrap_servers
