"""A thread that delivers records, so that they reach their topics while a task waits in `poll`."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.errors import ClientError
from penstock.client.producing.producer import ProducerConfig
from penstock.client.settings import from_properties
from penstock.connect.tasks.sending.batching import FOREVER_MS, BatchingProducer, BatchSettings
from penstock.connect.tasks.sending.delivery import Delivery, OutgoingRecord, SenderClosed

log = logging.getLogger(__name__)

_CLOSE_S: Final = 1.0
"""How long `close` waits for the thread, which may be in a request; it ends by itself afterwards."""
WORKER_DEFAULTS: Final = {"delivery.timeout.ms": str(FOREVER_MS)}
"""Settings of a task's producer that differ from a producer's: a task waits until its cluster is back."""


def producer_config(properties: Mapping[str, str]) -> ProducerConfig:
    """Read a producer's settings. Raises ConfigError."""
    return from_properties(ProducerConfig, {**WORKER_DEFAULTS, **properties})


class RecordSender:
    """Delivers the records of one task in order, at least once.

    Retries write no duplicates, except those of batches that were sent together with a refused one.

    ``properties`` are a producer's, by Kafka's names, with the worker's and the connector's overrides.
    """

    def __init__(self, properties: Mapping[str, str], *, create_topics: bool = True, name: str = "") -> None:
        config = producer_config(properties)
        self._batching = BatchingProducer(
            ClientConfig.from_properties(properties),
            config,
            from_properties(BatchSettings, properties),
            create_topics=create_topics,
            sleep=self._sleep,
        )
        self._buffer_bytes = config.buffer_bytes
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._incoming: list[tuple[OutgoingRecord, Delivery]] = []
        self._incoming_bytes = 0
        self._adding: deque[tuple[OutgoingRecord, Delivery]] = deque()
        """Records that the thread has taken, and that are in no batch yet."""
        self._flushing = 0
        self._is_idle = True
        self._closed = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name} producer", daemon=True)

    def send(self, record: OutgoingRecord, delivery: Delivery) -> None:
        size = len(record.key or b"") + len(record.value or b"")
        with self._lock:  # in a third of the time that the condition takes
            # What the thread has taken is bounded by the producer itself, which waits for responses
            while self._incoming_bytes > self._buffer_bytes and not self._closed:
                self._changed.wait()
            if self._closed:
                raise SenderClosed("the producer of the task is closed")
            if self._thread.ident is None:
                self._thread.start()
            self._incoming.append((record, delivery))
            self._incoming_bytes += size
            self._is_idle = False
            if len(self._incoming) == 1:
                self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            try:
                while not self._is_idle and not self._closed:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return False
                    self._changed.wait(left)
            finally:
                self._flushing -= 1
            return self._is_idle

    def close(self) -> None:
        """Stop soon, from any thread: the deliveries of records that are not acknowledged fail."""
        self._stopped.set()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.ident is None:
            self._batching.close()
        elif self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)

    # The thread

    def _run(self) -> None:
        try:
            due_s: float | None = None
            while (taken := self._take(due_s)) is not None:
                self._adding.extend(taken)
                while self._adding:
                    if self._stopped.is_set():
                        raise _Closed
                    self._add_first()
                due_s = self._batching.send_due(everything=self._flushing > 0)
                self._batching.wait()
        except _Closed:
            log.info("a producer is closed before all records were sent thread=%s", self._thread.name)
        except Exception:
            log.exception("the producer of a task has ended thread=%s", self._thread.name)
            raise
        finally:
            self._end()

    def _end(self) -> None:
        with self._changed:
            self._closed = True
            left = [*self._adding, *self._incoming]
            self._incoming.clear()
            self._changed.notify_all()
        closed = SenderClosed("the producer of the task is closed")
        self._batching.fail(closed)
        for _, delivery in left:
            delivery.failed(closed)
        self._batching.close()

    def _sleep(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise _Closed

    def _take(self, due_s: float | None) -> list[tuple[OutgoingRecord, Delivery]] | None:
        """Wait for records, for a batch that is due, or for a flush; None once the sender is closed."""
        with self._changed:
            if not self._batching.is_busy and not self._incoming:
                self._is_idle = True
                self._changed.notify_all()
            while not (self._incoming or self._closed or self._batching.has_sent):
                if self._batching.is_busy and self._flushing:
                    break
                if not self._changed.wait(due_s if self._batching.is_busy else None):
                    break  # a batch is due
            if self._closed:
                return None
            taken, self._incoming, self._incoming_bytes = self._incoming, [], 0
            self._changed.notify_all()
            return taken

    def _add_first(self) -> None:
        record, delivery = self._adding[0]
        try:
            full = self._batching.add(record, delivery)
        except ClientError as error:
            full = None
            delivery.failed(error)
        self._adding.popleft()
        if full is not None:
            self._batching.send(full)


class _Closed(Exception):
    """The sender is closed while it retries a request or has records that are in no batch."""
