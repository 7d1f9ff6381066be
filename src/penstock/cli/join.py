"""`penstock start --controller … --join …`: a node of a cluster from one command, without a file.

The first node creates a cluster; later nodes learn its id from a running controller. The command also formats
the directories, once: their random ids are how voters recognize a node that lost its disk (KIP-853).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.metadata.configs import BrokerConfig

LISTENER: Final = "CONTROLLER"
WAIT_S: Final = 60.0
"""How long to wait for a controller to join, which may still be starting."""

RETRY_S: Final = 0.25
_CONTROLLERS: Final = 2  # the endpoint type of DescribeCluster (KIP-919)


class CannotJoin(Exception):
    """No cluster was found; the message gives the addresses tried and their answers."""


def cluster_properties(node_id: int, listen: str, controller: str | None, join: str | None) -> dict[str, str]:
    """The settings of such a node, by Kafka's names. Pure.

    *listen* is the address for clients and brokers. With *controller*, an address, the node is also a
    controller and asks to become a voter; *join* names controllers of the cluster, and may include this one.
    """
    listeners = [f"PLAINTEXT://{listen}"]
    if controller is not None:
        listeners.append(f"{LISTENER}://{controller}")
    known = [address.strip() for address in (join or "").split(",") if address.strip()]
    if controller is not None and controller not in known:
        known.append(controller)
    properties = {
        "node.id": str(node_id),
        "process.roles": "broker" if controller is None else "broker,controller",
        "listeners": ",".join(listeners),
        "controller.listener.names": LISTENER,
        "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.bootstrap.servers": ",".join(known),
    }
    if controller is not None and join is not None:
        properties["controller.quorum.auto.join.enable"] = "true"
    return properties


def prepare(config: BrokerConfig, join: str | None) -> None:
    """Format the node's directories if none is formatted yet. Raises CannotJoin, CannotFormat, OSError."""
    from penstock.broker.setup.storage_format import FormatOptions, format_storage
    from penstock.storage.directories import meta_properties

    if any(meta_properties.read(directory) is not None for directory in config.log_dirs):
        return
    options = FormatOptions(
        cluster_id=meta_properties.random_id() if join is None else ask_cluster_id(join),
        standalone=join is None,
        no_initial_controllers=join is not None and config.is_controller,
        ignore_formatted=True,
    )
    for _ in format_storage(config, options, time.time_ns() // 1_000_000):
        pass  # its output is for `penstock storage format`


def ask_cluster_id(join: str, wait_s: float = WAIT_S) -> str:
    """The cluster's id, from the first of these controllers that answers. Raises CannotJoin."""
    from penstock.client.config import ClientConfig
    from penstock.client.connections.connection import Connection
    from penstock.client.errors import ClientError
    from penstock.client.settings import ConfigError
    from penstock.protocol.messages import DescribeClusterRequest, DescribeClusterResponse

    try:
        config = ClientConfig.from_properties({"bootstrap.servers": join, "request.timeout.ms": "5000"})
    except ConfigError as error:
        raise CannotJoin(f"--join {join}: {error}") from None
    deadline = time.monotonic() + wait_s
    while True:
        failures: list[str] = []
        for address in config.servers:
            try:
                connection = Connection.connect(address, config)
                try:
                    request = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
                    response = connection.call(request, DescribeClusterResponse)
                finally:
                    connection.close()
            except ClientError as error:
                failures.append(str(error))
                continue
            if not response.error_code:
                return response.cluster_id
            raise CannotJoin(f"--join {join}: {address} is no controller: {response.error_message}")
        if time.monotonic() > deadline:
            raise CannotJoin(f"--join {join}: no controller answers: {'; '.join(failures)}")
        time.sleep(RETRY_S)


def check_words(
    node_id: int | None, controller: str | None, join: str | None, others: Mapping[str, object]
) -> None:
    """Check that the options fit together; *others* are options that define the node completely.

    Raises ValueError.
    """
    if controller is None and join is None:
        if node_id is not None:
            raise ValueError("--node-id needs --controller or --join: a single node always has id 1")
        return
    if node_id is None:
        raise ValueError("--controller and --join need --node-id: an id that no other node has")
    for option, value in others.items():
        if value is not None:
            raise ValueError(f"{option} already defines the node: leave out --controller and --join")
