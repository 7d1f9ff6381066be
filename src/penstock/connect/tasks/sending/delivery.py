"""How tasks send records: the records as bytes, and the interface of what delivers them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from penstock.connect.errors import ConnectError
from penstock.protocol.records import Headers


class SenderClosed(ConnectError):
    """The sender was closed, or its thread has ended, before the record was acknowledged."""


class OutgoingRecord(NamedTuple):
    """A record for a topic. Without a partition, the key's hash decides; without a timestamp, the clock."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Delivery(Protocol):
    """Takes the outcome of one record: one method is called once, maybe on another thread."""

    def acknowledged(self, topic: str, partition: int, offset: int, timestamp_ms: int) -> None:
        """Note that the record is in its topic; ``offset`` is -1 if the broker did not tell it."""

    def failed(self, error: Exception) -> None:
        """Note that the record could not be written; with SenderClosed it may be written or not."""


class Sender(Protocol):
    """Delivers records in order."""

    def send(self, record: OutgoingRecord, delivery: Delivery) -> None:
        """Queue a record; wait while too much is queued. Raises RetriableError, ClientError."""

    def flush(self, timeout_s: float) -> bool:
        """Wait for the deliveries of all records; False if some are missing after this time."""

    def close(self) -> None:
        """Stop without waiting; records that are not flushed may or may not be written."""
