"""Connections to the other brokers by id, for one part of this node."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.peers import Dial, Peer, PeerSettings
from penstock.broker.setup.node_limits import peer_settings

if TYPE_CHECKING:
    from penstock.broker.coordination.host import CoordinationHost
    from penstock.metadata.image import MetadataImage

__all__ = ["BrokerPeers"]


class BrokerPeers:
    """A connection to each other broker that is needed, on the inter-broker listener.

    Each part of the node that sends requests has its own connections, so that slow answers to one part do not
    delay the others. A broker that registers with another address is connected to there.
    """

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        listener_name: str,
        dial: Dial,
        client_id: str,
        rng: random.Random,
        settings: PeerSettings | None = None,
    ) -> None:
        self._image = image
        self._listener_name = listener_name
        self._dial = dial
        self._client_id = client_id
        self._rng = rng
        self._settings = settings
        self._peers: dict[int, Peer] = {}

    @classmethod
    def of_node(cls, host: CoordinationHost, purpose: str) -> BrokerPeers:
        """Create the peers for a part of a node; `purpose` names the part in the client id."""
        return cls(
            lambda: host.image,
            host.config.inter_broker_listener_name,
            host.dial_broker,
            f"broker-{host.node_id}-{purpose}",
            host.environment.rng,
            peer_settings(host.config),
        )

    def of(self, broker_id: int) -> Peer | None:
        """Return the peer; None if the broker is not registered, is fenced, or has no such listener."""
        registration = self._image().brokers.get(broker_id)
        endpoint = None if registration is None else registration.endpoint(self._listener_name)
        if registration is None or endpoint is None:
            gone = self._peers.pop(broker_id, None)
            if gone is not None:
                gone.close()
            return None
        if registration.fenced:
            return None
        peer = self._peers.get(broker_id)
        if peer is not None and (peer.host, peer.port) != (endpoint.host, endpoint.port):
            peer.close()
            peer = None
        if peer is None:
            peer = self._peers[broker_id] = Peer(
                self._dial,
                endpoint.host,
                endpoint.port,
                node_id=broker_id,
                client_id=self._client_id,
                rng=self._rng,
                settings=self._settings,
            )
        return peer

    def close(self) -> None:
        """Drop all connections; calls in flight fail."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
