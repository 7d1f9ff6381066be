"""The live store of statuses: follows the status topic, and writes to it in the background.

A task reports its status from its own thread and must not wait for the cluster (KafkaStatusBackingStore).
Writes are queued, sent by one thread in order, and retried until they succeed or a newer one takes their
place.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.connect.stores.key_value import KeyValue
from penstock.connect.stores.statuses import records
from penstock.connect.stores.statuses.image import Entry, StatusImage
from penstock.connect.stores.statuses.model import Status, Subject, TopicStatus
from penstock.connect.stores.topic_log import TopicLog
from penstock.connect.stores.topics import InternalTopic, require_topic
from penstock.connect.stores.writers import PlainWriter
from penstock.connect.task_id import ConnectorTaskId
from penstock.protocol.records import Record

log = logging.getLogger(__name__)

_START_S: Final = 30.0
_CLOSED_S: Final = 10.0
# The time for one attempt to deliver; after it, writes that a newer one replaced are dropped.
_ATTEMPT_MS: Final = 5_000
_BACKOFF_S: Final = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class _Write:
    """A record to write. ``entry`` is None for topics, whose writes are always retried."""

    record: KeyValue
    entry: Entry | None = None
    status: Status | None = None
    number: int = 0
    is_safe: bool = False


class StatusStore:
    """The statuses of a Connect cluster. Any thread may call its methods."""

    def __init__(self, config: ClientConfig, topic: InternalTopic) -> None:
        self._config = config
        self._topic = topic
        self._image = StatusImage()
        self._generation = -1
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._queue: list[_Write] = []
        self._is_closing = False
        self._closed = threading.Event()
        self._log = TopicLog(config, topic.name, self)
        self._writer = PlainWriter(config, topic.name, _ATTEMPT_MS)
        self._thread = threading.Thread(target=self._run, name=f"connect writer {topic.name}", daemon=True)

    def start(self, timeout_s: float = _START_S) -> None:
        """Create or check the topic and read it to its end.

        Raises ConfigInvalid if the topic does not suit, ConnectError, and TimeoutError.
        """
        with Cluster(replace(self._config, api_timeout_ms=int(timeout_s * 1000))) as cluster:
            partitions = require_topic(cluster, self._topic)
        self._log.start(partitions, timeout_s)
        self._thread.start()

    def close(self) -> None:
        """Write what is queued, if the cluster takes it in time, and stop."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_CLOSED_S)
        self._closed.set()
        self._writer.close()
        self._log.close()

    # Reads

    def get(self, subject: Subject) -> Status | None:
        """The status of a connector or of a task, as it was last read."""
        with self._lock:
            return self._image.get(subject)

    def tasks(self, connector: str) -> dict[ConnectorTaskId, Status]:
        """The statuses of a connector's tasks."""
        with self._lock:
            return self._image.tasks(connector)

    def connectors(self) -> set[str]:
        """The connectors that have a status."""
        with self._lock:
            return self._image.connectors()

    def topics(self, connector: str) -> dict[str, TopicStatus]:
        """The topics that a connector uses, by name."""
        with self._lock:
            return self._image.topics(connector)

    def refresh(self, timeout_s: float) -> None:
        """Return once all queued records and all others now in the topic are replayed.

        Raises TimeoutError and ConnectError.
        """
        deadline_s = time.monotonic() + timeout_s
        self.flush(timeout_s)
        self._log.read_to_end(max(0.0, deadline_s - time.monotonic()))

    # Writes, which return at once

    def put(self, subject: Subject, status: Status) -> None:
        """Write the status of a connector or of a task; DESTROYED deletes it."""
        self._put(subject, status, is_safe=False)

    def put_safe(self, subject: Subject, status: Status) -> None:
        """Write a status unless another worker has written one in a newer generation."""
        self._put(subject, status, is_safe=True)

    def put_topic(self, status: TopicStatus) -> None:
        """Note that a connector uses a topic."""
        with self._changed:
            self._enqueue(_Write(records.topic_status(status)))

    def delete_topic(self, connector: str, topic: str) -> None:
        """Forget that a connector uses a topic."""
        with self._changed:
            self._enqueue(_Write(records.topic_removal(connector, topic)))

    def flush(self, timeout_s: float) -> None:
        """Return once all queued records are written. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._queue, timeout_s):
                raise TimeoutError(
                    f"{len(self._queue)} statuses were not written to topic '{self._topic.name}' within"
                    f" {timeout_s:g} s"
                )

    def _put(self, subject: Subject, status: Status, *, is_safe: bool) -> None:
        with self._changed:
            self._generation = status.generation
            entry = self._image.entry(subject)
            if is_safe and not entry.admits(status):
                return
            entry.writes += 1
            self._enqueue(_Write(records.status(subject, status), entry, status, entry.writes, is_safe))

    def _enqueue(self, write: _Write) -> None:
        self._queue.append(write)
        self._changed.notify_all()

    # The thread that writes

    def _run(self) -> None:
        attempted = 0
        """The writes at the head of the queue that failed, and are repeated unless others replaced them."""
        singly = 0
        """The writes that follow one by one, because one of them is refused for good."""
        while (batch := self._next(attempted, singly)) is not None:
            attempted, singly = 0, max(0, singly - 1)
            try:
                self._writer.write([write.record for write in batch])
            except ClientError as error:
                if _is_retriable(error) and not self._is_closing:
                    log.warning("statuses were not written, retrying error=%s", error)
                    attempted = len(batch)
                    self._closed.wait(_BACKOFF_S)
                    continue
                if len(batch) > 1 and not self._is_closing:
                    singly = len(batch)
                    continue
                log.error("statuses were not written count=%d error=%s", len(batch), error)
            with self._changed:
                del self._queue[: len(batch)]
                self._changed.notify_all()

    def _next(self, attempted: int, singly: int) -> list[_Write] | None:
        """Wait for writes and return them, without removing them; None once the store is closed."""
        with self._changed:
            kept = [write for write in self._queue[:attempted] if self._is_current(write)]
            self._queue[:attempted] = kept
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            return self._queue[: 1 if singly else None] or None

    def _is_current(self, write: _Write) -> bool:
        """Whether a write that failed is to be repeated."""
        if write.entry is None or write.status is None:
            return True
        if write.entry.is_deleted or write.status.generation != self._generation:
            return False
        return not write.is_safe or (write.entry.admits(write.status) and write.number == write.entry.writes)

    # The log calls these methods.

    def replay(self, partition: int, record: Record) -> None:
        with self._lock:
            self._image.replay(partition, record.key, record.value)

    def restart(self, partition: int) -> None:
        with self._lock:
            self._image.restart(partition)


def _is_retriable(error: ClientError) -> bool:
    """Whether the records can still be written: a producer's failure has the last attempt's as its cause."""
    cause = error.__cause__
    return error.retriable or (isinstance(cause, ClientError) and cause.retriable)
