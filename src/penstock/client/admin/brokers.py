"""List, await and unregister the brokers of a cluster (KIP-700, KIP-1073, KIP-631)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import error_from
from penstock.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

_BROKERS: Final = 1  # the endpoint type
_LOOK_S: Final = 0.05


class Broker(NamedTuple):
    """A registered broker. A fenced broker leads no partition; older servers do not list fenced brokers."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    brokers: list[Broker]
    """Sorted by broker id."""


def describe_cluster(cluster: Cluster) -> ClusterDescription:
    """List every registered broker. Raises ServerError."""
    request = DescribeClusterRequest(endpoint_type=_BROKERS, include_fenced_brokers=True)

    def ask() -> ClusterDescription:
        response = cluster.call_any(request, DescribeClusterResponse)
        if response.error_code:
            raise error_from(response.error_code, "describing the cluster", response.error_message)
        return ClusterDescription(
            response.cluster_id,
            sorted(Broker(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in response.brokers),
        )

    return cluster.retry(ask)


def await_brokers(
    servers: Sequence[str], timeout_s: float, properties: Mapping[str, str] | None = None
) -> None:
    """Return once each of the brokers knows all of them, or after the timeout.

    ``properties`` are those of the client, without the address. Raises ClientError.
    """
    deadline_s = time.monotonic() + timeout_s
    for server in servers:
        given = {**(properties or {}), "bootstrap.servers": server}
        with Cluster(ClientConfig.from_properties(given)) as cluster:
            while len(cluster.refresh().brokers) < len(servers) and time.monotonic() < deadline_s:
                time.sleep(_LOOK_S)


def unregister_broker(cluster: Cluster, broker_id: int) -> None:
    """Remove the registration of a broker that will not return. Raises ServerError."""
    request = UnregisterBrokerRequest(broker_id=broker_id)

    def ask() -> None:
        response = cluster.call_any(request, UnregisterBrokerResponse)
        if response.error_code:
            raise error_from(response.error_code, f"unregistering broker {broker_id}", response.error_message)

    cluster.retry(ask)
