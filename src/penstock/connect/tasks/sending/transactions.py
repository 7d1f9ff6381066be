"""Sends a task's records in transactions, each with the offsets of its records; for the task's thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, ServerError
from penstock.client.producing.transactor import Transactor
from penstock.client.settings import from_properties, setting, whole_number
from penstock.connect.errors import ConnectError
from penstock.connect.stores import KeyValue
from penstock.connect.tasks.sending.batching import BatchingProducer, BatchSettings
from penstock.connect.tasks.sending.delivery import Delivery, OutgoingRecord
from penstock.connect.tasks.sending.record_sender import producer_config
from penstock.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

_EXPIRED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TimeoutSettings:
    timeout_ms: int = setting("transaction.timeout.ms", 60_000, whole_number(1))


class TransactionalSender:
    """The producer of an exactly-once task. `fence` comes first; `send` begins a transaction if none is open.

    ``properties`` are a producer's, by Kafka's names, with the worker's and the connector's overrides.
    """

    def __init__(self, properties: Mapping[str, str], transactional_id: str) -> None:
        config = producer_config(properties)
        if not config.idempotent:
            raise ConnectError(
                "exactly-once support needs a producer with enable.idempotence=true and acks=all"
            )
        self._interrupted = threading.Event()
        self._batching = BatchingProducer(
            ClientConfig.from_properties(properties),
            config,
            from_properties(BatchSettings, properties),
            sleep=self._sleep,
        )
        timeout_ms = from_properties(_TimeoutSettings, properties).timeout_ms
        self._transactor = Transactor(self._batching.cluster, transactional_id, timeout_ms)
        self._is_open = False
        self._announced: set[TopicPartition] = set()
        self._must_begin_again = False

    def interrupt(self) -> None:
        """Let a step that waits for the cluster fail, from any thread."""
        self._interrupted.set()

    @property
    def is_open(self) -> bool:
        """Whether a transaction has records that are neither committed nor aborted."""
        return self._is_open

    def fence(self) -> None:
        """Fence the producers of earlier tasks and abort what they left open. Raises ClientError."""
        self._transactor.begin()

    def send(self, record: OutgoingRecord, delivery: Delivery) -> None:
        """Put a record into the transaction.

        Raises ClientError if the record is not in it, and ConnectError if the transaction is lost.
        """
        self._begin()
        full = self._batching.add(record, delivery)
        if full is None:
            return
        try:
            self._announce({full})
            self._batching.send(full)
        except ClientError as error:
            raise transaction_error("Unrecoverable exception trying to send", error) from error

    def push(self) -> None:
        """Send all records that wait for a full batch. Raises ClientError."""
        if self._batching.open_partitions:
            self._announce(self._batching.open_partitions)
            self._batching.send_due()

    def commit(self, offsets: Mapping[TopicPartition, Sequence[KeyValue]]) -> None:
        """Add the offsets to the transaction and commit it. Raises ClientError: the task is over then."""
        self._begin()
        for tp, records in offsets.items():
            for record in records:
                self._batching.add(
                    OutgoingRecord(tp.topic, tp.partition, record.key, record.value), _Unwatched()
                )
        self._announce(self._batching.open_partitions)
        self._batching.send_due(everything=True)
        while self._batching.is_busy:
            self._batching.wait()
        self._check_interruption()  # the last moment: a successor of the task may have been started
        self._transactor.end(commit=True)
        self._is_open = False

    def abort(self) -> None:
        """Abort the open transaction with all its records. Raises ClientError."""
        while self._batching.has_sent:  # or a broker might take a batch after the abort
            self._batching.wait()
        self._batching.discard()
        if self._announced:  # else no broker knows of the transaction
            self._transactor.end(commit=False)
        self._is_open = False
        self._must_begin_again = True

    def close(self, *, abort: bool = True) -> None:
        """Close the connections; ``abort`` an open transaction, so that readers need not wait for it."""
        try:
            if self._is_open and abort:
                self.abort()
        except ClientError as error:
            log.info("the open transaction was not aborted, the coordinator will error=%s", error)
        finally:
            self._batching.close()

    def _begin(self) -> None:
        if self._is_open:
            return
        if self._must_begin_again and not self._transactor.transaction.is_version_2:
            # The new producer numbers its batches from 0, which needs another epoch.
            self._transactor.begin(resumed=True)
        self._must_begin_again = False
        self._announced.clear()
        self._batching.begin(self._transactor.transaction)
        self._is_open = True

    def _sleep(self, seconds: float) -> None:
        self._interrupted.wait(seconds)
        self._check_interruption()

    def _check_interruption(self) -> None:
        if self._interrupted.is_set():
            raise ConnectError("the task was cancelled before its transaction was committed")

    def _announce(self, partitions: Set[TopicPartition]) -> None:
        new = partitions - self._announced
        if new:
            self._transactor.add_partitions(new)
            self._announced |= new


def transaction_error(message: str, error: Exception) -> ConnectError:
    """Describe the end of a transaction, with what helps if it took too long."""
    causes = (error, error.__cause__)
    if any(isinstance(each, ServerError) and each.code in _EXPIRED for each in causes):
        return ConnectError(
            f"{message}: the task was unable to finish writing records to Kafka before its transaction"
            " expired, or another task took over. To let the task run with exactly-once support, tune the"
            " connector's producer configuration for higher throughput, increase the transaction timeout of"
            " the connector's producers, decrease the offset commit interval (if the transaction boundary is"
            f" 'interval'), or use the boundary 'poll'. {error}"
        )
    return ConnectError(f"{message}: {error}")


class _Unwatched:
    """The delivery of an offset: the end of the transaction tells whether it succeeded."""

    def acknowledged(self, topic: str, partition: int, offset: int, timestamp_ms: int) -> None: ...

    def failed(self, error: Exception) -> None: ...
