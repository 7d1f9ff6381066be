"""`Cluster`: start, kill, pause and restart real nodes from a test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.broker.setup.local_cluster import (
    CONTROLLER,
    HOST,
    PLAINTEXT,
    NodePlan,
    ReservedPorts,
    format_all,
    format_to_join,
    properties_of,
)
from penstock.processes.forked_nodes import prepare_forks
from penstock.processes.node import ClusterError, Node
from penstock.processes.registry import RegistryProcess
from penstock.testing import node_logs
from penstock.testing.scratch import Scratch
from penstock.testing.security.client_settings import Client, java_settings, settings_of
from penstock.testing.security.description import ADMIN, REGISTRY, Acl, Security
from penstock.testing.security.private import write_secret

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from penstock.testing.security.administration import Administration
    from penstock.testing.security.secured import ClusterSecurity

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
STOPPING_PATIENCE_S: Final = 1.0
"""The time in which nodes hand over what they lead; it takes a tenth of that if all others run."""


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
        data_dir: the directory of the nodes' data, which `close` leaves in place, and with which another
            cluster of the same nodes continues. Without it `close` removes the data, which is in a temporary
            directory.
        port: the port of a cluster of one node; 0 picks a free port.
        registry: whether to serve a schema registry, at `registry_url`. It is part of the only node, or a
            process beside several nodes or secured ones, which continues when one of them ends.
        security: how clients authenticate and what they may do; True for the defaults of `Security`. Without
            it, everybody may do everything.
        start_timeout_s: how long `start` waits for all nodes to accept connections.
        fork: whether nodes are forks of a process that has already imported Penstock, which takes a fifth of
            the time; otherwise each is started by a command of its own, as a node in production is.

    Raises:
        ClusterError: `data_dir` has the data of a cluster with other nodes.
        ValueError: no cluster has these numbers of nodes, or `port` is given for several.
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
        security: Security | bool = False,
        start_timeout_s: float = 30.0,
        fork: bool = True,
    ) -> None:
        if nodes < 1 or controllers < 0:
            raise ValueError(
                f"a cluster has at least one node, found nodes={nodes} controllers={controllers}"
            )
        if port and (nodes > 1 or controllers):
            raise ValueError("port is for a cluster of one node; several nodes take free ports")
        wanted = Security() if security is True else security or None
        is_single = nodes == 1 and not controllers and wanted is None
        if data_dir is not None:
            _check_data(Path(data_dir), [] if is_single else list(range(1, nodes + controllers + 1)))
        self.cluster_id = "penstock-test-cluster"
        self._keeps_data = data_dir is not None
        self._is_closed = False
        self._start_timeout_s = start_timeout_s
        self._fork = fork
        self._scratch = Scratch()
        self._logs = node_logs.of_new_cluster(self._scratch.path)
        self.data_dir = Path(data_dir) if data_dir is not None else self._scratch.path / "data"
        self._security = None if wanted is None else self._secured(wanted, registry)
        self.config: dict[str, str] = {
            **TEST_CONFIG,
            **({} if self._security is None else self._security.node_properties()),
            **(config or {}),
        }
        self._ports = ReservedPorts()
        self._registry_port = self._ports.take() if registry else 0
        self._registry: RegistryProcess | None = None
        self._plans: list[NodePlan] = []
        self._admins: dict[str, AdminClient] = {}
        self.nodes: list[Node] = []
        """All nodes, in the order of their ids."""
        if is_single:
            self.nodes.append(self._single(port))
            return
        if registry:
            log_file = self._logs.path / "registry.log"
            login = None if self._security is None else self._security.properties_file(REGISTRY)
            self._registry = RegistryProcess(HOST, self._registry_port, log_file, login)
            self.config.setdefault(REGISTRY_URL, self.registry_url)
        self._plan(nodes, controllers, port)

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

    @property
    def ca_file(self) -> Path:
        """The PEM file with the certificate of the authority that clients of a secured cluster trust."""
        return self._secure.ca_file

    def client_settings(self, user: str = ADMIN, *, for_: Client = "confluent-kafka") -> dict[str, Any]:
        """The settings with which a client connects and logs in as this user.

            Producer(cluster.client_settings("alice"))
            AIOKafkaProducer(**cluster.client_settings("alice", for_="aiokafka"))
            spark.readStream.format("penstock").options(**cluster.client_settings("alice", for_="spark"))

        ``java`` stands for the properties of Kafka's own clients, which Penstock's take too. The settings of
        an open cluster have only its address. Raises KeyError for an unknown user.
        """
        account = None if self._security is None else self._security.account(user)
        return settings_of(for_, self.bootstrap_servers, account)

    def properties_file(self, user: str = ADMIN) -> Path:
        """The file with which commands (`--command-config`) log in as this user. Raises KeyError."""
        return self._secure.properties_file(user)

    def admin_client(self, user: str = ADMIN) -> AdminClient:
        """The admin client of confluent-kafka that logs in as this user. Raises KeyError.

        The cluster keeps it, since its futures fail once nobody has the client any more.
        """
        from confluent_kafka.admin import AdminClient

        if user not in self._admins:
            self._admins[user] = AdminClient({"log_level": 2, **self.client_settings(user)})
        return self._admins[user]

    def add_user(self, name: str, password: str | None = None) -> None:
        """Give the running cluster one more user, or an existing user another password.

        Without a password, one is made up. Raises ClusterError with the mechanism PLAIN, whose users are in
        the configuration of the nodes; ValueError.
        """
        security = self._secure
        if security.wanted.uses_sasl and security.scram is None:
            raise ClusterError("users of PLAIN are in the configuration of the nodes: name them in Security")
        password = security.add_user(name, password)
        self._admins.pop(name, None)
        if security.scram is not None:
            with self._administration() as admin:
                admin.set_password(name, password, security.scram)

    def add_acls(self, *acls: Acl) -> None:
        """Give the running cluster more ACLs, which are in force when this returns. Raises ClusterError."""
        with self._administration() as admin:
            admin.create_acls([entry for acl in acls for entry in acl.entries()])

    def remove_acls(self, *acls: Acl) -> None:
        """Remove ACLs from the running cluster; those that do not exist are skipped. Raises ClusterError."""
        with self._administration() as admin:
            admin.delete_acls([entry for acl in acls for entry in acl.entries()])

    def node(self, node_id: int) -> Node:
        """The node with this id. Raises KeyError."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise KeyError(f"node {node_id}: expected one of {[node.node_id for node in self.nodes]}")

    @property
    def is_running(self) -> bool:
        """Whether any node was started and has not ended; a paused node is running."""
        return any(node.is_running for node in self.nodes)

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
        """Start all nodes, and the registry, and return once they accept connections.

        Raises ClusterError if that takes longer than `start_timeout_s`, or if the cluster is closed.
        """
        self._check_open()
        if self._plans:
            records = () if self._security is None else self._security.first_records()
            format_all(self._plans, self.config, self.cluster_id, records=records)
        for node in self.nodes:
            node.launch()
        try:
            for node in self.nodes:
                node.await_ready(self._start_timeout_s)
            if self._security is not None:
                self._establish(self._security)
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
        login = {} if self._security is None else java_settings(self._security.account(REGISTRY))
        try:
            await_brokers(servers, self._start_timeout_s, login)
        except ClientError as error:
            raise ClusterError(f"the schema registry cannot start: {error}") from error
        registry.launch(servers)
        registry.await_ready(self._start_timeout_s)

    def add_broker(self) -> Node:
        """Start one more broker, without partitions, in a cluster of several nodes."""
        self._check_open()
        if not self._plans:
            raise ClusterError("a cluster of one node cannot grow: create it with nodes=2 or more")
        node_id = max(plan.node_id for plan in self._plans) + 1
        directory = self.data_dir / f"node-{node_id}"
        plan = NodePlan(node_id, ("broker",), directory, self._ports.take(), listener=self._listener)
        self._plans.append(plan)
        format_to_join(plan, self._plans, self.config, self.cluster_id)
        node = self._node(plan)
        self.nodes.append(node)
        node.start(self._start_timeout_s)
        return node

    def stop(self, timeout_s: float = 30.0) -> None:
        """Shut all nodes down cleanly (SIGTERM) and wait for them; nodes that do not run are skipped.

        A node that has not stopped after STOPPING_PATIENCE_S probably waits for a quorum that has ended. It
        gets a second signal, after which it waits for no other node.
        """
        failures = []
        if self._registry is not None:  # first, since it needs the nodes to leave its group
            try:
                self._registry.stop(timeout_s)
            except ClusterError as error:
                failures.append(error)
        for node in self.nodes:
            node.terminate()
        deadline_s = time.monotonic() + STOPPING_PATIENCE_S
        for node in self.nodes:
            if not node.ends_within(max(0.0, deadline_s - time.monotonic())):
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

    def pause(self) -> None:
        """Send SIGSTOP to all running nodes, which hang with their connections open until `resume`."""
        for node in self._running():
            node.pause()

    def resume(self) -> None:
        """Send SIGCONT to all running nodes: they continue as if no time had passed."""
        for node in self._running():
            node.resume()

    def restart(self) -> None:
        """Start all nodes again on the same ports and data; running nodes are stopped cleanly first."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the nodes and remove the data that this object made; the cluster cannot be started again.

        Nodes whose data is kept stop cleanly, as with `stop`. All others are killed.
        """
        try:
            if self._keeps_data:
                self.stop()
        finally:
            self._is_closed = True
            self._admins.clear()
            if self._registry is not None:
                self._registry.kill()
            for node in self.nodes:
                node.close()
            self._ports.close()
            self._logs.is_closed = True
            self._scratch.remove()

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ClusterError as failure:
            if error is None:
                raise
            error.add_note(f"the cluster was not closed cleanly: {failure}")  # do not hide a test's own error

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
        await asyncio.to_thread(self.__exit__, kind, error, traceback)

    def _running(self) -> list[Node]:
        running = [node for node in self.nodes if node.is_running]
        if not running:
            raise ClusterError("the cluster is not running")
        return running

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClusterError("the cluster is closed and its ports are free for others: create another one")

    @property
    def _secure(self) -> ClusterSecurity:
        if self._security is None:
            raise ClusterError("the cluster is open to everybody: create it with Cluster(security=True)")
        return self._security

    def _administration(self) -> AbstractContextManager[Administration]:
        from penstock.testing.security.administration import administration

        self._secure  # noqa: B018  # an open cluster has neither users nor ACLs
        return administration(self.client_settings(for_="java"))

    def _secured(self, wanted: Security, registry: bool) -> ClusterSecurity:
        if self._fork:
            prepare_forks()
        # Tests without security need not wait for cryptography.
        from penstock.testing.security.secured import ClusterSecurity

        directory = self.data_dir / "security"
        if not directory.exists() and any(self.data_dir.glob("node-*")):
            raise ClusterError(
                f"data_dir {self.data_dir} has the data of an open cluster, not of a secured one"
            )
        return ClusterSecurity(wanted, directory, with_registry=registry)

    def _establish(self, security: ClusterSecurity) -> None:
        """Give the users and ACLs to a cluster that continues with the data of an earlier one."""
        if security.is_established:
            return
        if security.continues:
            with self._administration() as admin:
                for name, password in security.later_users.items():
                    if security.scram is not None:
                        admin.set_password(name, password, security.scram)
                admin.create_acls(security.entries)
        security.establish()

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

    @property
    def _listener(self) -> str:
        return PLAINTEXT if self._security is None else self._security.wanted.protocol

    def _plan(self, brokers: int, controllers: int, port: int) -> None:
        node_ids = range(1, brokers + controllers + 1)
        controller_ids = node_ids[brokers:] if controllers else node_ids
        # Ports of an earlier run first, so that no broker takes one of them.
        controller_ports = {node_id: self._controller_port(node_id) for node_id in controller_ids}
        for node_id in node_ids:
            roles = COMBINED if not controllers else ("broker",) if node_id <= brokers else ("controller",)
            broker_port = self._broker_port(port) if "broker" in roles else 0
            directory = self.data_dir / f"node-{node_id}"
            controller_port = controller_ports.get(node_id, 0)
            self._plans.append(
                NodePlan(node_id, roles, directory, broker_port, controller_port, self._listener)
            )
        self.nodes += [self._node(plan) for plan in self._plans]

    def _node(self, plan: NodePlan) -> Node:
        """A node of a cluster of several, configured by a file."""
        file = self._properties_file(plan.node_id)
        file.parent.mkdir(parents=True, exist_ok=True)
        properties = properties_of(plan, self._plans, self.config)
        # Only several nodes, and secured ones, need the package.
        import javaproperties

        write_secret(file, javaproperties.dumps(properties, timestamp=False).encode("latin-1"))
        log_file = self._logs.path / f"node-{plan.node_id}.log"
        arguments = ["--config", str(file)]
        return Node(plan.node_id, plan.data_dir, log_file, arguments, plan.port, is_fork=self._fork)

    def _properties_file(self, node_id: int) -> Path:
        return self.data_dir / f"node-{node_id}.properties"

    def _broker_port(self, port: int) -> int:
        try:
            return self._ports.take(port)
        except OSError as error:
            raise ClusterError(f"the cluster cannot use the port {port}: {error.strerror}") from error

    def _controller_port(self, node_id: int) -> int:
        """A free port, or the port of an earlier run: the metadata log has it, and voters connect to it."""
        earlier = _earlier_controller_port(self._properties_file(node_id))
        try:
            return self._ports.take(earlier)
        except OSError as error:
            raise ClusterError(
                f"node {node_id} needs the port {earlier} of its earlier run: {error.strerror}"
            ) from error


def _earlier_controller_port(file: Path) -> int:
    """The port of the controller in the properties of an earlier run; 0 without one."""
    import javaproperties

    if not file.exists():
        return 0
    properties = javaproperties.loads(file.read_text(encoding="latin-1"))
    for address in properties.get("listeners", "").split(","):
        name, _, place = address.partition("://")
        if name == CONTROLLER:
            return int(place.rpartition(":")[2])
    return 0


def _check_data(data_dir: Path, node_ids: list[int]) -> None:
    """Check that a directory has the data of these nodes, none if one node is the whole cluster, or no data.

    Raises ClusterError.
    """
    # Tests without a directory of their own need not wait for this.
    from penstock.storage.directories.meta_properties import FILE_NAME

    names = [file.parent.name.removeprefix("node-") for file in data_dir.glob(f"node-*/{FILE_NAME}")]
    found = sorted(int(name) for name in names if name.isdigit())
    is_single = (data_dir / FILE_NAME).exists()
    if (found or is_single) and (found, is_single) != (node_ids, not node_ids):
        raise ClusterError(
            f"data_dir {data_dir} has the data of {_named(found)}, expected that of {_named(node_ids)}"
        )


def _named(node_ids: list[int]) -> str:
    return f"the nodes {', '.join(map(str, node_ids))}" if node_ids else "a cluster of one node"
