"""`Cluster`: start, kill, pause and restart real nodes from a test."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.broker.setup.local_cluster import (
    HOST,
    NodePlan,
    ReservedPorts,
    format_all,
    format_to_join,
    properties_of,
)
from penstock.processes.node import ClusterError, Node
from penstock.processes.registry import RegistryProcess
from penstock.testing import node_logs
from penstock.testing.scratch import Scratch

__all__ = ["TEST_CONFIG", "Cluster", "ClusterError"]

TEST_CONFIG: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.hours": "-1",
    "offsets.topic.num.partitions": "4",
}
"""Settings that differ from a production node's.

Groups form at once, `__consumer_offsets` is created quickly because it has few partitions instead of fifty,
and records with old timestamps are not deleted.
"""

COMBINED: Final = ("broker", "controller")
REGISTRY_URL: Final = "confluent.schema.registry.url"
REGISTRY_READY: Final = "schema registry ready at "
"""A node with a registry prints this once the registry serves."""


class Cluster:
    """Penstock nodes as child processes, on free ports of 127.0.0.1.

    It is a context manager; `start` and `close` serve where a `with` block does not fit. `async with` starts
    and stops the nodes in a thread, while the event loop runs on. Ports and data survive `kill` and
    `restart`. The nodes end when the test process ends, even if that process is killed.

    With several nodes each is broker and controller, unless `controllers` asks for separate controllers;
    topics then have three replicas by default, or as many as there are brokers. Node ids begin with 1,
    separate controllers come last, and each node can be stopped, killed, paused and restarted by itself:

        with Cluster(nodes=3) as cluster:
            cluster.node(2).kill()

    `PENSTOCK_TEST_NODE_MEMORY_MAX_BYTES` in the environment bounds the memory of each node.

    Args:
        config: Kafka configuration names and values, on top of `TEST_CONFIG`.
        nodes: the number of brokers.
        controllers: the number of separate controllers; with 0 every node is both.
        data_dir: the directory of the nodes' data, which `close` leaves in place. Without it `close` removes
            the data, which is in a temporary directory.
        port: the port of a cluster of one node; 0 picks a free port.
        registry: whether to serve a schema registry, at `registry_url`. It is part of the only node, or a
            process beside several nodes, which continues when one of them ends.
        start_timeout_s: how long `start` waits for all nodes to accept connections.
        fork: whether nodes are forks of a process that has already imported Penstock, which takes a fifth of
            the time; otherwise each is started by a command of its own, as a node in production is.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        *,
        nodes: int = 1,
        controllers: int = 0,
        data_dir: Path | str | None = None,
        port: int = 0,
        registry: bool = False,
        start_timeout_s: float = 30.0,
        fork: bool = True,
    ) -> None:
        if nodes < 1 or controllers < 0:
            raise ValueError(
                f"a cluster has at least one node, found nodes={nodes} controllers={controllers}"
            )
        if port and (nodes > 1 or controllers):
            raise ValueError("port is for a cluster of one node; several nodes take free ports")
        self.config: dict[str, str] = {**TEST_CONFIG, **(config or {})}
        self.cluster_id = "penstock-test-cluster"
        self._start_timeout_s = start_timeout_s
        self._fork = fork
        self._scratch = Scratch()
        self._logs = node_logs.of_new_cluster(self._scratch.path)
        self.data_dir = Path(data_dir) if data_dir is not None else self._scratch.path / "data"
        self._ports = ReservedPorts()
        self._registry_port = self._ports.take() if registry else 0
        self._registry: RegistryProcess | None = None
        self._plans: list[NodePlan] = []
        self.nodes: list[Node] = []
        """All nodes, in the order of their ids."""
        if nodes == 1 and not controllers:
            self.nodes.append(self._single(port))
            return
        if registry:
            self._registry = RegistryProcess(HOST, self._registry_port, self._logs.path / "registry.log")
            self.config.setdefault(REGISTRY_URL, self.registry_url)
        self._plan(nodes, controllers)

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT,…` of all brokers, for any Kafka client's `bootstrap.servers`."""
        return ",".join(node.bootstrap_servers for node in self.brokers)

    @property
    def brokers(self) -> list[Node]:
        """The nodes that clients connect to."""
        others = {plan.node_id for plan in self._plans if "broker" not in plan.roles}
        return [node for node in self.nodes if node.node_id not in others]

    @property
    def bootstrap_controllers(self) -> str:
        """`HOST:PORT,…` of all controllers, for tools that take `--bootstrap-controller`."""
        return ",".join(f"{HOST}:{plan.controller_port}" for plan in self._plans if plan.is_controller)

    @property
    def registry_url(self) -> str:
        """The URL of the schema registry, for any client of Confluent's."""
        if not self._registry_port:
            raise ClusterError("the cluster has no schema registry: create it with Cluster(registry=True)")
        return f"http://{HOST}:{self._registry_port}"

    def node(self, node_id: int) -> Node:
        """The node with this id. Raises KeyError."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise KeyError(f"node {node_id}: expected one of {[node.node_id for node in self.nodes]}")

    @property
    def pid(self) -> int:
        """The process id of the only node."""
        return self._only.pid

    @property
    def log_file(self) -> Path:
        """The log file of the only node."""
        return self._only.log_file

    @property
    def log_dir(self) -> Path:
        """The directory of the logs of all nodes, and of the registry beside several nodes."""
        return self._logs.path

    @property
    def _only(self) -> Node:
        if len(self.nodes) > 1:
            raise ClusterError(
                f"the cluster has {len(self.nodes)} nodes: choose one, such as cluster.node(1)"
            )
        return self.nodes[0]

    def start(self) -> Self:
        """Start all nodes, and the registry, and return once they accept connections."""
        if self._plans:
            format_all(self._plans, self.config, self.cluster_id)
        for node in self.nodes:
            node.launch()
        try:
            for node in self.nodes:
                node.await_ready(self._start_timeout_s)
            if self._registry is not None:
                self._start_registry(self._registry)
        except ClusterError:
            self.kill()
            raise
        return self

    def _start_registry(self, registry: RegistryProcess) -> None:
        # Only a registry of several nodes needs the client.
        from penstock.client.admin.brokers import await_brokers
        from penstock.client.errors import ClientError

        servers = self.bootstrap_servers.split(",")
        try:
            await_brokers(servers, self._start_timeout_s)
        except ClientError as error:
            raise ClusterError(f"the schema registry cannot start: {error}") from error
        registry.launch(servers)
        registry.await_ready(self._start_timeout_s)

    def add_broker(self) -> Node:
        """Start one more broker, without partitions, in a cluster of several nodes."""
        if not self._plans:
            raise ClusterError("a cluster of one node cannot grow: create it with nodes=2 or more")
        node_id = max(plan.node_id for plan in self._plans) + 1
        plan = NodePlan(node_id, ("broker",), self.data_dir / f"node-{node_id}", self._ports.take())
        format_to_join(plan, [*self._plans, plan], self.config, self.cluster_id)
        self._plans.append(plan)
        node = self._node(plan)
        self.nodes.append(node)
        node.start(self._start_timeout_s)
        return node

    def stop(self, timeout_s: float = 30.0) -> None:
        """Shut all nodes down cleanly (SIGTERM) and wait for them; nodes that do not run are skipped."""
        failures = []
        if self._registry is not None:  # first, since it needs the nodes to leave its group
            try:
                self._registry.stop(timeout_s)
            except ClusterError as error:
                failures.append(error)
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            try:
                node.stop(timeout_s)
            except ClusterError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def kill(self) -> None:
        """Send SIGKILL to all nodes, and the registry, so that they cannot write anything more."""
        if self._registry is not None:
            self._registry.kill()
        for node in self.nodes:
            node.kill()

    def restart(self) -> None:
        """Start all nodes again on the same ports and data; running nodes are stopped cleanly first."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the nodes and remove the data that this object made."""
        try:
            self.stop()
        finally:
            self._ports.close()
            self._logs.is_closed = True
            self._scratch.remove()

    def __enter__(self) -> Self:
        return self if any(node.is_running for node in self.nodes) else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A thread cannot be cancelled, so the nodes start and have to be stopped.
            await asyncio.wait([starting])
            await asyncio.to_thread(self.close)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _single(self, port: int) -> Node:
        """A node that is its own quorum and needs only a directory."""
        arguments = ["--data-dir", str(self.data_dir), "--listen", f"{HOST}:{port}"]
        for name, value in self.config.items():
            arguments += ["--set", f"{name}={value}"]
        awaited = ""
        if self._registry_port:
            arguments += ["--registry", "--registry-listen", f"{HOST}:{self._registry_port}"]
            awaited = REGISTRY_READY
        log_file = self._logs.path / "node.log"
        return Node(1, self.data_dir, log_file, arguments, port, is_fork=self._fork, awaited=awaited)

    def _plan(self, brokers: int, controllers: int) -> None:
        take = self._ports.take
        for node_id in range(1, brokers + controllers + 1):
            directory = self.data_dir / f"node-{node_id}"
            if not controllers:
                plan = NodePlan(node_id, COMBINED, directory, take(), take())
            elif node_id <= brokers:
                plan = NodePlan(node_id, ("broker",), directory, take())
            else:
                plan = NodePlan(node_id, ("controller",), directory, 0, take())
            self._plans.append(plan)
        self.nodes += [self._node(plan) for plan in self._plans]

    def _node(self, plan: NodePlan) -> Node:
        """A node of a cluster of several, configured by a file."""
        file = self._scratch.path / f"node-{plan.node_id}.properties"
        properties = properties_of(plan, self._plans, self.config)
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        log_file = self._logs.path / f"node-{plan.node_id}.log"
        arguments = ["--config", str(file)]
        return Node(plan.node_id, plan.data_dir, log_file, arguments, plan.port, is_fork=self._fork)
