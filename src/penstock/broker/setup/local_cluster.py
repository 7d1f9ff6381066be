"""The nodes of a cluster on one machine: their properties, ports and formatted directories.

The formatting code is imported on first use, so that tests with one node or none need not wait for it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.protocol.messages import Message

HOST: Final = "127.0.0.1"
LOCALHOST: Final = "localhost"
ANY_HOST: Final = ("", "0.0.0.0", "[::]")
"""Hosts of listeners that stand for all addresses of the machine. No client can connect to them."""
METRICS_PORT: Final = "penstock.metrics.port"
CONTROLLER: Final = "CONTROLLER"
PLAINTEXT: Final = "PLAINTEXT"


@dataclass(frozen=True)
class NodePlan:
    """The plan of one node: its id, roles, directory and ports; a port is 0 if it has no such listener.

    ``listener`` names the brokers' listener, the same in all plans of a cluster. Its security protocol, and
    that of controllers, is PLAINTEXT unless the configuration has a map of them.
    """

    node_id: int
    roles: tuple[str, ...]
    data_dir: Path
    broker_port: int = 0
    controller_port: int = 0
    listener: str = PLAINTEXT

    @property
    def port(self) -> int:
        """The port for clients: the broker's, or the controller's if the node is no broker."""
        return self.broker_port or self.controller_port

    @property
    def is_controller(self) -> bool:
        return CONTROLLER.lower() in self.roles


def properties_of(
    plan: NodePlan, plans: Sequence[NodePlan], config: Mapping[str, str], host: str = HOST
) -> dict[str, str]:
    """Return the server.properties of one node of the cluster; ``config`` overrides them.

    If ``host`` stands for all addresses, clients and nodes connect to localhost. If the configuration has a
    port for metrics, it is that of the first node, and the others have the next ones.
    """
    reached = LOCALHOST if host in ANY_HOST else host
    brokers = sum("broker" in other.roles for other in plans)
    copies = str(min(3, brokers))
    ports = {plan.listener: plan.broker_port, CONTROLLER: plan.controller_port}
    controllers = [f"{reached}:{other.controller_port}" for other in plans if other.is_controller]
    own = dict(config)
    if int(config.get(METRICS_PORT, -1)) > 0:
        own[METRICS_PORT] = str(int(config[METRICS_PORT]) + plans.index(plan))
    if reached != host:
        own.setdefault("advertised.listeners", _addresses(ports, reached))
    return {
        "process.roles": ",".join(plan.roles),
        "node.id": str(plan.node_id),
        "listeners": _addresses(ports, host),
        "controller.listener.names": CONTROLLER,
        "listener.security.protocol.map": f"{CONTROLLER}:{PLAINTEXT},{plan.listener}:{PLAINTEXT}",
        "inter.broker.listener.name": plan.listener,
        "controller.quorum.bootstrap.servers": ",".join(controllers),
        "log.dirs": str(plan.data_dir),
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(2, brokers)),
        **own,
    }


def _addresses(ports: Mapping[str, int], host: str) -> str:
    return ",".join(f"{name}://{host}:{port}" for name, port in ports.items() if port)


def format_all(
    plans: Sequence[NodePlan],
    config: Mapping[str, str],
    cluster_id: str,
    host: str = HOST,
    records: Sequence[Message] = (),
) -> None:
    """Format the directories of new nodes, with all controllers as the first voters.

    ``records`` are the first records of a new cluster, beside its features.
    """
    from penstock.storage.directories.meta_properties import random_id

    reached = LOCALHOST if host in ANY_HOST else host
    voters = ",".join(
        f"{plan.node_id}@{reached}:{plan.controller_port}:{random_id()}"
        for plan in plans
        if plan.is_controller
    )
    for plan in plans:
        _format(properties_of(plan, plans, config, host), cluster_id, voters, records)


def format_to_join(
    plan: NodePlan, plans: Sequence[NodePlan], config: Mapping[str, str], cluster_id: str, host: str = HOST
) -> None:
    """Format the directory of a node that joins an existing cluster."""
    _format(properties_of(plan, plans, config, host), cluster_id, None)


def _format(
    properties: Mapping[str, str], cluster_id: str, voters: str | None, records: Sequence[Message] = ()
) -> None:
    from penstock.broker.setup.storage_format import FormatOptions, format_storage
    from penstock.metadata.configs import BrokerConfig

    options = FormatOptions(
        cluster_id,
        initial_controllers=voters,
        no_initial_controllers=voters is None,
        ignore_formatted=True,
        records=records,
    )
    config = BrokerConfig.from_properties(properties)
    for _line in format_storage(config, options, time.time_ns() // 1_000_000):
        pass


class ReservedPorts:
    """Free ports of an address of this machine, reserved until `close`.

    A socket that is bound but does not listen holds each port. A node may bind the port as well, while other
    processes that ask for a free port get a different one.
    """

    def __init__(self, host: str = HOST) -> None:
        self._host = host
        self._sockets: list[socket.socket] = []

    def take(self, port: int = 0) -> int:
        """Reserve a port, with 0 a free one, and return it. Raises OSError for a port that is in use."""
        sock = socket.socket()
        self._sockets.append(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self._host, port))
        return int(sock.getsockname()[1])

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()
