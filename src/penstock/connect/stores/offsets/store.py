"""A live store of source offsets: follows an offset topic, and writes to it (KafkaOffsetBackingStore)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError
from penstock.connect.errors import ConnectError
from penstock.connect.stores.key_value import KeyValue
from penstock.connect.stores.offsets.image import OffsetImage
from penstock.connect.stores.offsets.keys import Partition
from penstock.connect.stores.topic_log import TopicLog
from penstock.connect.stores.topics import InternalTopic, require_topic
from penstock.connect.stores.writers import PlainWriter, by_partition
from penstock.protocol.records import Record

OffsetBytes = Mapping[bytes, bytes | None]
"""Values by key; None resets an offset."""

_START_S: Final = 30.0
_READ_S: Final = 90.0
"""Limits the first reading, which waits for transactions that killed tasks left open (60 s by default)."""
_WRITE_S: Final = 5.0
"""The default of Connect's ``offset.flush.timeout.ms``."""


class OffsetStore:
    """The source offsets in one topic. Any thread may call its methods.

    Only committed records count, so a store serves plain tasks and exactly-once tasks alike.
    """

    def __init__(
        self, config: ClientConfig, topic: InternalTopic, *, write_timeout_s: float = _WRITE_S
    ) -> None:
        self._config = config
        self._topic = topic
        self._partitions = 0
        self._image = OffsetImage()
        self._lock = threading.Lock()
        self._log = TopicLog(config, topic.name, self)
        self._writer = PlainWriter(config, topic.name, int(write_timeout_s * 1000))

    @property
    def topic(self) -> str:
        return self._topic.name

    def start(self, timeout_s: float = _START_S, *, read_timeout_s: float = _READ_S) -> None:
        """Create or check the topic within ``timeout_s``, and read it to its end within ``read_timeout_s``.

        Raises ConfigInvalid if the topic does not suit, ConnectError, and TimeoutError.
        """
        with Cluster(replace(self._config, api_timeout_ms=int(timeout_s * 1000))) as cluster:
            self._partitions = require_topic(cluster, self._topic)
        self._log.start(self._partitions, read_timeout_s)

    def interrupt(self) -> None:
        """Let `start` fail soon, which runs in another thread."""
        self._log.interrupt()

    def close(self) -> None:
        self._writer.close()
        self._log.close()

    def refresh(self, timeout_s: float) -> None:
        """Return once all records now in the topic are replayed, those of open transactions included.

        Raises TimeoutError and ConnectError.
        """
        self._log.read_to_end(timeout_s)

    def get(self, keys: Collection[bytes]) -> dict[bytes, bytes]:
        """The values of those keys that have one, as they were last read."""
        with self._lock:
            found = {key: self._image.get(key) for key in keys}
        return {key: value for key, value in found.items() if value is not None}

    def keys(self, connector: str) -> Mapping[bytes, Partition]:
        """The source partitions of a connector with an offset, by their keys, as they were last read."""
        with self._lock:
            return self._image.keys(connector)

    def key_for(self, connector: str, partition: Partition) -> bytes | None:
        """The key that was written for this partition, even with its names in another order.

        Raises DataError for an invalid partition.
        """
        with self._lock:
            return self._image.key_for(connector, partition)

    def set(self, offsets: OffsetBytes) -> None:
        """Write offsets, plainly. Raises ConnectError; some may be written then."""
        try:
            self._writer.write([KeyValue(key, value) for key, value in offsets.items()])
        except ClientError as error:
            raise ConnectError(f"offsets were not written to topic '{self.topic}': {error}") from error

    def placed(self, offsets: OffsetBytes) -> dict[TopicPartition, list[KeyValue]]:
        """The records of these offsets and where they belong, for a task that has a transaction."""
        records = (KeyValue(key, value) for key, value in offsets.items())
        return by_partition(self.topic, self._partitions, records)

    # The log calls these methods.

    def replay(self, partition: int, record: Record) -> None:
        with self._lock:
            self._image.replay(partition, record.key, record.value)

    def restart(self, partition: int) -> None:
        with self._lock:
            self._image.restart(partition)
