"""The stores of source offsets that the connectors of one worker use.

All connectors share the worker's topic. One that names a topic of its own (``offsets.storage.topic``,
KIP-618), or writes to another cluster, has offsets there too, so that they are in the same transactions.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from penstock.client.config import ClientConfig, parse_servers
from penstock.connect.stores import ConnectorOffsets, InternalTopic, OffsetStore, offset_topic
from penstock.connect.tasks.parts import ClientProperties

OFFSETS_TOPIC: Final = "offsets.storage.topic"


class OffsetStores:
    """The stores of one worker. Any thread may call its methods.

    Args:
        client: the worker's cluster.
        topic: the worker's topic.
        write_timeout_s: ``offset.flush.timeout.ms``.
        exactly_once: whether the worker's sources are exactly once.
    """

    def __init__(
        self, client: ClientConfig, topic: InternalTopic, write_timeout_s: float, *, exactly_once: bool
    ) -> None:
        self._client = client
        self._topic = topic
        self._write_timeout_s = write_timeout_s
        self._exactly_once = exactly_once
        self._worker = OffsetStore(client, topic, write_timeout_s=write_timeout_s)
        self._lock = threading.Lock()
        self._own: dict[tuple[str, str], OffsetStore] = {}
        """The stores of connectors, by the brokers' addresses and the topic; several may share one."""

    def start(self) -> None:
        """Create or check the worker's topic and read it. Raises ConnectError and TimeoutError."""
        self._worker.start()

    def close(self) -> None:
        with self._lock:
            stores, self._own = list(self._own.values()), {}
        for store in (self._worker, *stores):
            store.close()

    def of(
        self, connector: str, properties: Mapping[str, str], clients: ClientProperties
    ) -> ConnectorOffsets:
        """Return the offsets of a connector. Raises ConfigInvalid, ConnectError and TimeoutError."""
        servers = clients.producer["bootstrap.servers"]
        is_elsewhere = parse_servers(servers) != self._client.servers
        own_topic = properties.get(OFFSETS_TOPIC)
        topic = own_topic or self._topic.name
        if own_topic is None and not self._exactly_once:
            return ConnectorOffsets(connector, self._worker)
        if topic == self._topic.name and not is_elsewhere:
            return ConnectorOffsets(connector, self._worker)
        return ConnectorOffsets(connector, self._worker, self._own_store(topic, servers, clients))

    def _own_store(self, name: str, servers: str, clients: ClientProperties) -> OffsetStore:
        with self._lock:
            store = self._own.get((servers, name))
            if store is None:
                client = ClientConfig.from_properties({**clients.admin, "bootstrap.servers": servers})
                topic = offset_topic(name, self._topic.partitions, self._topic.replication_factor)
                store = OffsetStore(client, topic, write_timeout_s=self._write_timeout_s)
                store.start()
                self._own[servers, name] = store
            return store
