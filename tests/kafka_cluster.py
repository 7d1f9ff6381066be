"""Several real Apache Kafka nodes that form one cluster, each broker and controller in one process."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_node import KafkaNode, free_port

DIRECTORY_IDS = ("Uwk5Kp8JQ2m0Jd4O2s0v7g", "xV0pIb0uT8y2bGJj5D3o1Q", "n9xkTq1ORm6M0wqzq0Zr5A")

CONFIG: Mapping[str, str] = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class KafkaCluster:
    """Nodes 1 to N on free ports of 127.0.0.1. A context manager; nodes can be stopped one by one.

    The quorum is a fixed one (`controller.quorum.voters`), or with `dynamic_quorum` kept in the log
    (KIP-853); then further nodes can be made with `new_node`, which follow it.
    """

    def __init__(
        self,
        libs: Path,
        directory: Path,
        nodes: int = 3,
        *,
        dynamic_quorum: bool = False,
        racks: Mapping[int, str] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._libs = libs
        self._directory = directory
        self._racks = racks or {}
        self._config = {**CONFIG, **(config or {})}
        self._dynamic_quorum = dynamic_quorum
        self.controllers = {node_id: f"127.0.0.1:{free_port()}" for node_id in range(1, nodes + 1)}
        self._quorum = (
            {"controller.quorum.bootstrap.servers": ",".join(self.controllers.values())}
            if dynamic_quorum
            else {"controller.quorum.voters": ",".join(f"{n}@{at}" for n, at in self.controllers.items())}
        )
        initial = [
            f"{node_id}@{address}:{DIRECTORY_IDS[node_id - 1]}"
            for node_id, address in (self.controllers.items() if dynamic_quorum else ())
        ]
        words = ["--initial-controllers", ",".join(initial)] if dynamic_quorum else []
        self.nodes = {node_id: self._node(node_id, words) for node_id in self.controllers}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def new_node(self, node_id: int) -> KafkaNode:
        """One more node, started: a broker, and an observer of the quorum that may become a voter."""
        self.controllers[node_id] = f"127.0.0.1:{free_port()}"
        words = ["--no-initial-controllers"] if self._dynamic_quorum else []
        node = self.nodes[node_id] = self._node(node_id, words)
        return node.start()

    def _node(self, node_id: int, format_words: list[str]) -> KafkaNode:
        directory = self._directory / f"node-{node_id}"
        directory.mkdir(parents=True)
        port = free_port()
        rack = {"broker.rack": self._racks[node_id]} if node_id in self._racks else {}
        return KafkaNode(
            self._libs,
            directory,
            port=port,
            format_words=format_words,
            config={
                **self._config,
                **self._quorum,
                **rack,
                "node.id": str(node_id),
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{self.controllers[node_id]}",
            },
        )

    def start(self) -> Self:
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(KafkaNode.start, self.nodes.values()))
        return self

    def stop(self) -> None:
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(KafkaNode.kill_if_running, self.nodes.values()))

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
