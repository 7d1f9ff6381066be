"""The leaders of partitions and their addresses, for clients that asked the wrong node (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage


class Leader(NamedTuple):
    node_id: int
    epoch: int


class NodeAddress(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class LeaderHints:
    """The leaders that one response names, with their addresses on the client's listener."""

    def __init__(self, image: MetadataImage, listener_name: str) -> None:
        self._image = image
        self._listener_name = listener_name
        self._named: set[int] = set()

    def leader_of(self, topic: str | bytes, partition: int) -> Leader:
        """The leader according to the image; (-1, -1) if there is none."""
        topics = self._image.topics
        image = topics.by_id.get(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
        registration = image.partitions.get(partition) if image is not None else None
        if registration is None:
            return Leader(-1, -1)
        if registration.leader >= 0:
            self._named.add(registration.leader)
        return Leader(registration.leader, registration.leader_epoch)

    def endpoints(self) -> list[NodeAddress]:
        """The addresses of all leaders named so far."""
        addresses = []
        for node_id in sorted(self._named):
            registration = self._image.brokers.get(node_id)
            endpoint = registration.endpoint(self._listener_name) if registration else None
            if registration is not None and endpoint is not None:
                addresses.append(NodeAddress(node_id, endpoint.host, endpoint.port, registration.rack))
        return addresses
