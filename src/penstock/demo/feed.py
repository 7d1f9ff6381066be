"""Send the scenario to the cluster, up to a limit ahead of the application."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.demo.scenario import Record
from penstock.demo.topics import LOG_LEVEL_CRITICAL

DELIVERY_TIMEOUT_S = 120.0
QUEUE_MESSAGES = 100_000


class FeedFailed(RuntimeError):
    """The cluster did not acknowledge a record in time, or refused it."""


class Feed:
    """An idempotent producer of a third-party client.

    Each partition gets the records in order and each record once, even if the node is killed meanwhile.
    `sent` counts the records passed to the producer.
    """

    def __init__(self, bootstrap_servers: str, records: Sequence[Record]) -> None:
        self._records = records
        self._failures: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "log_level": LOG_LEVEL_CRITICAL,
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": QUEUE_MESSAGES,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self.sent = 0

    @property
    def total(self) -> int:
        return len(self._records)

    @property
    def is_done(self) -> bool:
        return self.sent == self.total

    def send(self, count: int) -> None:
        """Send the next records. Raises FeedFailed, also for earlier records."""
        for record in self._records[self.sent : self.sent + count]:
            self._send(record)
            self.sent += 1
        self._producer.poll(0)
        if self.is_done:
            self._flush()
        self._require_delivered()

    def _send(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    record.partition,
                    on_delivery=self._on_delivery,
                    timestamp=record.timestamp_ms,
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error)

    def _flush(self) -> None:
        unacknowledged = self._producer.flush(DELIVERY_TIMEOUT_S)
        self._require_delivered()
        if unacknowledged:
            raise FeedFailed(f"{unacknowledged} records not acknowledged in {DELIVERY_TIMEOUT_S:g} s")

    def _require_delivered(self) -> None:
        if self._failures:
            raise FeedFailed(str(self._failures[0])) from KafkaException(self._failures[0])
