"""Several real nodes that form one cluster, of either kind, each broker and controller in one process.

with penstock_nodes(directory) as cluster:
    cluster.nodes[2].kill()
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_node import CLUSTER_ID, KafkaNode, free_port
from penstock_node import PenstockNode

Node = KafkaNode | PenstockNode

DIRECTORY_IDS = (
    "Uwk5Kp8JQ2m0Jd4O2s0v7g",
    "xV0pIb0uT8y2bGJj5D3o1Q",
    "n9xkTq1ORm6M0wqzq0Zr5A",
    "Zr5An9xkTq1ORm6M0wqzqQ",
    "Jd4O2s0v7gUwk5Kp8JQ2mQ",
)

CONFIG: Mapping[str, str] = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class SeveralNodes:
    """Nodes 1 to N on free ports of 127.0.0.1. A context manager; nodes can be stopped one by one.

    The quorum is a fixed one (`controller.quorum.voters`), or with `dynamic_quorum` kept in the log
    (KIP-853); then `new_node` can add nodes that follow it.
    """

    def __init__(
        self,
        make_node: Callable[[Path, int, list[str], dict[str, str]], Node],
        directory: Path,
        nodes: int = 3,
        *,
        dynamic_quorum: bool = False,
        racks: Mapping[int, str] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._make_node = make_node
        self._directory = directory
        self._racks = racks or {}
        self._config = {**CONFIG, **(config or {})}
        self._dynamic_quorum = dynamic_quorum
        self.controllers = {node_id: f"127.0.0.1:{free_port()}" for node_id in range(1, nodes + 1)}
        voters = [f"{node_id}@{address}" for node_id, address in self.controllers.items()]
        self._quorum = (
            {"controller.quorum.bootstrap.servers": ",".join(self.controllers.values())}
            if dynamic_quorum
            else {"controller.quorum.voters": ",".join(voters)}
        )
        initial = [f"{voter}:{DIRECTORY_IDS[at]}" for at, voter in enumerate(voters)]
        words = ["--initial-controllers", ",".join(initial)] if dynamic_quorum else []
        self.nodes = {node_id: self._node(node_id, words) for node_id in self.controllers}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def new_node(self, node_id: int) -> Node:
        """Start one more node: a broker, and an observer of the quorum that may become a voter."""
        self.controllers[node_id] = f"127.0.0.1:{free_port()}"
        words = ["--no-initial-controllers"] if self._dynamic_quorum else []
        node = self.nodes[node_id] = self._node(node_id, words)
        return node.start()

    def _node(self, node_id: int, format_words: list[str]) -> Node:
        directory = self._directory / f"node-{node_id}"
        directory.mkdir(parents=True)
        port = free_port()
        config = {
            **self._config,
            **self._quorum,
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{self.controllers[node_id]}",
        }
        if node_id in self._racks:
            config["broker.rack"] = self._racks[node_id]
        return self._make_node(directory, port, format_words, config)

    def start(self) -> Self:
        """Start all nodes at once, because none is ready before the majority is."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda node: node.start(), self.nodes.values()))
        return self

    def stop(self) -> None:
        """Kill all nodes that still run."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda node: node.kill_if_running(), self.nodes.values()))

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def penstock_nodes(
    directory: Path,
    nodes: int = 3,
    *,
    dynamic_quorum: bool = False,
    racks: Mapping[int, str] | None = None,
    config: Mapping[str, str] | None = None,
) -> SeveralNodes:
    """A cluster of Penstock nodes, not started."""

    def make(directory: Path, port: int, format_words: list[str], config: dict[str, str]) -> Node:
        return PenstockNode(
            directory, cluster_id=CLUSTER_ID, port=port, format_words=format_words, config=config
        )

    return SeveralNodes(make, directory, nodes, dynamic_quorum=dynamic_quorum, racks=racks, config=config)


def kafka_nodes(
    libs: Path,
    directory: Path,
    nodes: int = 3,
    *,
    dynamic_quorum: bool = False,
    racks: Mapping[int, str] | None = None,
    config: Mapping[str, str] | None = None,
) -> SeveralNodes:
    """A cluster of Apache Kafka nodes, not started."""

    def make(directory: Path, port: int, format_words: list[str], config: dict[str, str]) -> Node:
        return KafkaNode(libs, directory, port=port, format_words=format_words, config=config)

    return SeveralNodes(make, directory, nodes, dynamic_quorum=dynamic_quorum, racks=racks, config=config)
