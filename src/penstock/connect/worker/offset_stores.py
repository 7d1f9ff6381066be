"""The stores of source offsets that the connectors of one worker use.

All connectors share the worker's topic. One that names a topic of its own (``offsets.storage.topic``,
KIP-618), or writes to another cluster, has offsets there too, so that they are in the same transactions.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from penstock.client.config import ClientConfig, parse_servers
from penstock.connect.errors import ConnectError
from penstock.connect.stores import ConnectorOffsets, InternalTopic, OffsetStore, offset_topic
from penstock.connect.tasks.parts import ClientProperties

OFFSETS_TOPIC: Final = "offsets.storage.topic"
_READ_S: Final = 960.0
"""Limits the first reading of the worker's topic, which waits for transactions that killed tasks left open.

They end after at most `transaction.max.timeout.ms` of the brokers, by default 15 minutes.
"""


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
        self._own: dict[tuple[str, frozenset[tuple[str, str]]], Future[OffsetStore]] = {}
        """The stores of connectors, by the topic and the properties of the client.

        Connectors share a store only if they have the same credentials. A future is done when its store has
        started.
        """
        self._is_closed = False

    def start(self) -> None:
        """Create or check the worker's topic and read it. Raises ConnectError and TimeoutError."""
        self._worker.start(read_timeout_s=_READ_S)

    def interrupt(self) -> None:
        """Let `start` fail soon, which runs in another thread."""
        self._worker.interrupt()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            # A store that is still starting is closed by the thread that starts it
            stores = [store.result() for store in self._own.values() if store.done()]
            self._own.clear()
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
        properties = {**clients.admin, "bootstrap.servers": servers}
        key = name, frozenset(properties.items())
        starting: Future[OffsetStore] = Future()
        with self._lock:
            present = self._own.setdefault(key, starting)
        if present is starting:
            try:
                self._start_own(name, properties, starting)
            except BaseException as error:
                with self._lock:
                    self._own.pop(key, None)
                starting.set_exception(error)
        return present.result()

    def _start_own(self, name: str, properties: Mapping[str, str], starting: Future[OffsetStore]) -> None:
        """Start a store, which can take as long as its cluster does not answer."""
        topic = offset_topic(name, self._topic.partitions, self._topic.replication_factor)
        client = ClientConfig.from_properties(properties)
        store = OffsetStore(client, topic, write_timeout_s=self._write_timeout_s)
        try:
            store.start()
            with self._lock:
                if self._is_closed:
                    raise ConnectError("Worker is shutting down")
                starting.set_result(store)
        except BaseException:
            store.close()
            raise
