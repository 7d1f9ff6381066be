"""The nodes of a simulated cluster, with their configuration and formatted directories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.broker.setup.storage_format import FormatOptions, format_storage
from penstock.storage.directories import meta_properties
from penstock.testing.simulator.access import GUESTS_PORT, LISTENER
from penstock.testing.simulator.nodes import EPOCH_MS, VirtualNode

CLUSTER_ID: Final = "simulatedClusterIdAAAA"
CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093

ALONE: Final[Mapping[str, str]] = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@dataclass(frozen=True)
class Layout:
    """The ids of a cluster's nodes, by role."""

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    first_voters: tuple[int, ...] = ()
    """The initial voters if the metadata log holds the voters (KIP-853); empty if all controllers vote."""

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted({*self.brokers, *self.controllers}))

    @property
    def is_one_node(self) -> bool:
        return len(self.nodes) == 1

    def roles(self, node_id: int) -> str:
        roles = (("broker", self.brokers), ("controller", self.controllers))
        return ",".join(role for role, ids in roles if node_id in ids)

    def properties(self, node_id: int, *, guests: bool) -> dict[str, str]:
        """The configuration of a node; with ``guests``, brokers have a listener for them."""
        listeners = []
        if node_id in self.brokers:
            listeners.append(f"PLAINTEXT://{host_of(node_id)}:{CLIENT_PORT}")
            if guests:
                listeners.append(f"{LISTENER}://{host_of(node_id)}:{GUESTS_PORT}")
        if node_id in self.controllers and not self.is_one_node:
            listeners.append(f"CONTROLLER://{host_of(node_id)}:{CONTROLLER_PORT}")
        properties = {
            "process.roles": self.roles(node_id),
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "broker.rack": f"rack{node_id % 3}",
        }
        if self.is_one_node:
            return {**properties, **ALONE}
        # This covers groups' offsets, too; otherwise no replica could lose anything.
        properties["min.insync.replicas"] = "2"
        addresses = [f"{host_of(node_id)}:{CONTROLLER_PORT}" for node_id in self.controllers]
        if self.first_voters:
            properties["controller.quorum.bootstrap.servers"] = ",".join(addresses)
        else:
            voters = (f"{node_id}@{at}" for node_id, at in zip(self.controllers, addresses, strict=True))
            properties["controller.quorum.voters"] = ",".join(voters)
        return properties

    def format(self, node: VirtualNode) -> None:
        """Format the node like `penstock storage format`, but with the same ids each time."""
        if self.first_voters:
            is_first = node.node_id in self.first_voters
            voters = ",".join(
                f"{voter}@{host_of(voter)}:{CONTROLLER_PORT}:{directory_id_of(voter)}"
                for voter in self.first_voters
            )
            options = FormatOptions(
                CLUSTER_ID,
                initial_controllers=voters if is_first else None,
                no_initial_controllers=not is_first,
            )
            for _line in format_storage(node.config, options, EPOCH_MS, node.files):
                continue
        for number, directory in enumerate(node.config.log_dirs):
            node.files.mkdir(directory, exist_ok=True)
            write_properties(node, directory, directory_id_of(node.node_id, number))
        node.files.sync_directory(node.directory)


def write_properties(node: VirtualNode, directory: Path, directory_id: str) -> None:
    """Make a directory one of the node's log directories."""
    properties = meta_properties.MetaProperties(CLUSTER_ID, node.node_id, directory_id)
    meta_properties.write(node.files, directory, properties)


def host_of(node_id: int) -> str:
    return f"10.0.0.{node_id}"


def directory_id_of(node_id: int, number: int = 0) -> str:
    """The id of one of a node's log directories; the first directory holds the metadata log."""
    return f"d{node_id:04d}{number:04d}{13 * 'A'}"
