"""What the nodes of a cluster on one machine are, and how they find each other: properties and formatting.

What formats is imported when it is needed: tests that use one node, or none, need not wait for it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
CONTROLLER: Final = "CONTROLLER"
PLAINTEXT: Final = "PLAINTEXT"


@dataclass(frozen=True)
class NodePlan:
    """One node: its id, what it is, and its ports; 0 for a listener that it has not."""

    node_id: int
    roles: tuple[str, ...]
    data_dir: Path
    broker_port: int = 0
    controller_port: int = 0

    @property
    def port(self) -> int:
        """Where who uses it reaches it."""
        return self.broker_port or self.controller_port

    @property
    def is_controller(self) -> bool:
        return CONTROLLER.lower() in self.roles


def properties_of(
    plan: NodePlan, plans: Sequence[NodePlan], config: Mapping[str, str], host: str = HOST
) -> dict[str, str]:
    """A server.properties for a node among others; ``config`` has the last word."""
    brokers = sum("broker" in other.roles for other in plans)
    copies = str(min(3, brokers))
    ports = {PLAINTEXT: plan.broker_port, CONTROLLER: plan.controller_port}
    controllers = [f"{host}:{other.controller_port}" for other in plans if other.is_controller]
    return {
        "process.roles": ",".join(plan.roles),
        "node.id": str(plan.node_id),
        "listeners": ",".join(f"{name}://{host}:{port}" for name, port in ports.items() if port),
        "controller.listener.names": CONTROLLER,
        "listener.security.protocol.map": f"{CONTROLLER}:PLAINTEXT,{PLAINTEXT}:PLAINTEXT",
        "inter.broker.listener.name": PLAINTEXT,
        "controller.quorum.bootstrap.servers": ",".join(controllers),
        "log.dirs": str(plan.data_dir),
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(2, brokers)),
        **config,
    }


def format_all(
    plans: Sequence[NodePlan], config: Mapping[str, str], cluster_id: str, host: str = HOST
) -> None:
    """Format the directories of nodes that are new, all controllers being the first voters."""
    from penstock.storage.meta_properties import random_id

    voters = ",".join(
        f"{plan.node_id}@{host}:{plan.controller_port}:{random_id()}" for plan in plans if plan.is_controller
    )
    for plan in plans:
        _format(properties_of(plan, plans, config, host), cluster_id, voters)


def format_to_join(
    plan: NodePlan, plans: Sequence[NodePlan], config: Mapping[str, str], cluster_id: str, host: str = HOST
) -> None:
    """Format the directory of a node that joins a cluster that is there."""
    _format(properties_of(plan, plans, config, host), cluster_id, None)


def _format(properties: Mapping[str, str], cluster_id: str, voters: str | None) -> None:
    from penstock.broker.storage_format import FormatOptions, format_storage
    from penstock.metadata.configs import BrokerConfig

    options = FormatOptions(
        cluster_id,
        initial_controllers=voters,
        no_initial_controllers=voters is None,
        ignore_formatted=True,
    )
    config = BrokerConfig.from_properties(properties)
    for _line in format_storage(config, options, time.time_ns() // 1_000_000):
        pass


class ReservedPorts:
    """Free ports of an address of this machine, kept from others until `close`.

    Each is held by a socket that is bound and does not listen: a node may bind it too, others get another.
    """

    def __init__(self, host: str = HOST) -> None:
        self._host = host
        self._sockets: list[socket.socket] = []

    def take(self) -> int:
        """One more."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self._host, 0))
        self._sockets.append(sock)
        return int(sock.getsockname()[1])

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()
