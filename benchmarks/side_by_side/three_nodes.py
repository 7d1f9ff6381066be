"""Three nodes of one kind that form a cluster, all on the one core that a single broker would have."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from penstock.bench.process import process_cost
from penstock.client.admin.brokers import describe_cluster
from penstock.client.admin.quorum import describe_quorum
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Client
from penstock.protocol.api_keys import TARGET_RELEASE
from side_by_side.brokers import Broker, BrokerError, Kafka, Penstock, Place, free_port
from side_by_side.cores import Cores

NODES = 3
WHOLE_WITHIN_S = 120


class ThreeNodes:
    """A cluster of three nodes.

    A context manager: it starts on empty directories and deletes them at the end.
    """

    def __init__(self, name: str, directory: Path, cores: Cores, jars: Path) -> None:
        self.name = name
        controllers = tuple(f"127.0.0.1:{free_port()}" for _ in range(NODES))
        self.nodes: dict[int, Broker] = {}
        for node_id in range(1, NODES + 1):
            place = Place(node_id, controllers)
            where = directory / f"{name}-{node_id}"
            self.nodes[node_id] = (
                Penstock(where, cores.broker, place=place)
                if name == Penstock.name
                else Kafka(where, cores.broker, jars, TARGET_RELEASE, place)
            )

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> None:
        """Start the nodes, and return when all brokers are registered."""
        for node in self.nodes.values():
            node.lay_out()
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.await_port()
        self.await_brokers()

    def stop(self) -> None:
        for node in self.nodes.values():
            if node.running():
                node.kill()
            node.stop()

    def restart(self, node_id: int) -> None:
        """Start a node that was killed, and return when it is registered again."""
        node = self.nodes[node_id]
        node.launch()
        node.await_port()
        self.await_brokers()

    def complete(self) -> None:
        """Start the nodes that do not run, after a row that failed."""
        for node_id, node in self.nodes.items():
            if not node.running():
                self.restart(node_id)

    def await_brokers(self) -> None:
        """Wait until all brokers are registered and none is fenced. Raises BrokerError."""
        deadline = time.monotonic() + WHOLE_WITHIN_S
        with self.client() as client:
            while True:
                brokers = describe_cluster(client).brokers
                if len(brokers) == NODES and not any(broker.is_fenced for broker in brokers):
                    return
                if time.monotonic() > deadline:
                    raise BrokerError(f"{self.name}: not all brokers registered: {brokers}")
                time.sleep(0.05)

    def controller(self) -> int:
        """Return the node that is the active controller."""
        with self.client() as client:
            return describe_quorum(client).leader_id

    @contextmanager
    def client(self, without: int | None = None, **properties: str) -> Iterator[Client]:
        """Yield a client that uses any of the nodes, or any but one."""
        at = ",".join(node.bootstrap for node_id, node in self.nodes.items() if node_id != without)
        with Client(ClientConfig.from_properties({"bootstrap.servers": at, **properties})) as client:
            yield client

    def cpu_s(self) -> dict[int, float]:
        """Return the processor seconds of each running node since its start."""
        return {
            node_id: process_cost(node.pid).cpu_seconds
            for node_id, node in self.nodes.items()
            if node.running()
        }

    def resident_mb(self) -> float:
        return sum(process_cost(n.pid).resident_bytes for n in self.nodes.values() if n.running()) / 1e6

    def create_topic(
        self,
        name: str,
        partitions: int,
        config: Mapping[str, str] | None = None,
        *,
        leader: int | None = None,
    ) -> None:
        """Create a topic with three replicas, all in sync; one named node leads it, or else each in turn."""
        ids = sorted(self.nodes)
        assignment = []
        for partition in range(partitions):
            first = partition % NODES if leader is None else ids.index(leader)
            assignment.append([ids[(first + replica) % NODES] for replica in range(NODES)])
        topic = NewTopic(name, partitions, replica_assignment=assignment, config=dict(config or {}))
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.create_topics([topic])[name].result(60)
        self._await_leaders(admin, name, partitions)

    def delete_topic(self, name: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.delete_topics([name])[name].result(60)

    def _await_leaders(self, admin: AdminClient, name: str, partitions: int) -> None:
        deadline = time.monotonic() + 60
        while True:
            found = admin.list_topics(name, timeout=30).topics[name].partitions
            if len(found) == partitions and all(len(p.isrs) == NODES for p in found.values()):
                return
            if time.monotonic() > deadline:
                raise BrokerError(f"{self.name}: the replicas of {name} did not all get in sync")
            time.sleep(0.05)

    def await_same_size(self, topic: str) -> None:
        """Wait until the followers have every byte that the leader has. Raises BrokerError."""
        deadline = time.monotonic() + 60
        while True:
            sizes = {
                sum(file.stat().st_size for file in node.data_dir.glob(f"{topic}-*/*.log"))
                for node in self.nodes.values()
            }
            if len(sizes) == 1:
                return
            if time.monotonic() > deadline:
                raise BrokerError(f"followers of {topic} never had every byte of the leader: {sizes}")
            time.sleep(0.02)

    def __enter__(self) -> ThreeNodes:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
