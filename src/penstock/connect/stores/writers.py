"""Write the records of a store: plainly, or in transactions that only the newest writer can commit."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, DeliveryFailed
from penstock.client.producing.producer import Producer, ProducerConfig
from penstock.client.producing.transactor import Transactor
from penstock.connect.errors import ConnectError
from penstock.connect.stores.key_value import KeyValue
from penstock.protocol.murmur2 import partition_for_key
from penstock.protocol.records import Record, encode_batch

_TRANSACTION_TIMEOUT_MS: Final = 60_000


class PrivilegedWriteError(ConnectError):
    """A transaction on the config topic failed, for example because another leader has taken over.

    The writer has to claim its privileges again.
    """


def by_partition(
    topic: str, partitions: int, records: Iterable[KeyValue]
) -> dict[TopicPartition, list[KeyValue]]:
    """Place records on partitions by their keys, as Kafka's producer does, in their order."""
    placed: dict[TopicPartition, list[KeyValue]] = defaultdict(list)
    for record in records:
        placed[TopicPartition(topic, partition_for_key(record.key, partitions))].append(record)
    return dict(placed)


class PlainWriter:
    """A writer with acks=all whose retries neither reorder nor duplicate records. Thread-safe.

    One write takes at most ``timeout_ms`` for delivery, and as long to wait for those of other threads.
    """

    def __init__(self, config: ClientConfig, topic: str, timeout_ms: int) -> None:
        self._cluster = Cluster(replace(config, api_timeout_ms=min(config.api_timeout_ms, timeout_ms)))
        self._topic = topic
        self._timeout_ms = timeout_ms
        self._producer: Producer | None = None
        self._lock = threading.Lock()

    def write(self, records: Sequence[KeyValue]) -> None:
        """Return once all replicas in sync have the records. Raises ClientError; some may be written then."""
        if not records:
            return
        if not self._lock.acquire(timeout=self._timeout_ms / 1000):
            raise DeliveryFailed(
                f"topic '{self._topic}': other writers did not finish within {self._timeout_ms} ms"
            )
        try:
            if self._producer is None:
                settings = ProducerConfig(delivery_timeout_ms=self._timeout_ms)
                self._producer = Producer(self._cluster, settings, create_topics=False)
            _send(self._producer, self._cluster, self._topic, records, transactional=False)
        except ClientError:
            self._drop()
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._drop()
            self._cluster.close()

    def _drop(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None


class TransactionalWriter:
    """A writer whose every write is a transaction, and which fences earlier writers of its id (KIP-618).

    Thread-safe. `claim` precedes the first write, and follows each failed one.
    """

    def __init__(self, config: ClientConfig, topic: str, transactional_id: str, timeout_ms: int) -> None:
        self._cluster = Cluster(replace(config, api_timeout_ms=min(config.api_timeout_ms, timeout_ms)))
        self._topic = topic
        self._settings = ProducerConfig(delivery_timeout_ms=timeout_ms)
        self._transactor = Transactor(self._cluster, transactional_id, _TRANSACTION_TIMEOUT_MS)
        self._is_claimed = False
        self._is_used = False
        """Whether the identity has numbered batches already, so that a new producer must not start at 0."""
        self._lock = threading.Lock()

    def claim(self) -> None:
        """Fence other writers and abort the transaction that they left open. Raises ConnectError."""
        with self._lock:
            if self._is_claimed:
                return
            try:
                self._transactor.begin()
            except ClientError as error:
                raise ConnectError(
                    f"Failed to create and initialize fencable producer for topic '{self._topic}': {error}"
                ) from error
            self._is_claimed, self._is_used = True, False

    def write(self, records: Sequence[KeyValue]) -> None:
        """Write the records in one transaction.

        Raises ConnectError without a claim, and PrivilegedWriteError, which ends the claim.
        """
        with self._lock:
            if not self._is_claimed:
                raise ConnectError(
                    f"Cannot produce to topic '{self._topic}' without claiming write privileges first"
                )
            if not records:
                return
            try:
                self._write(records)
            except ClientError as error:
                self._is_claimed = False
                raise PrivilegedWriteError(
                    f"Failed to perform fencable send to topic '{self._topic}': {error}"
                ) from error

    def _write(self, records: Sequence[KeyValue]) -> None:
        if self._is_used and not self._transactor.transaction.is_version_2:
            self._transactor.begin(resumed=True)
        self._is_used = True
        transaction = self._transactor.transaction
        producer = Producer(self._cluster, self._settings, create_topics=False, transaction=transaction)
        try:
            partitions = len(self._cluster.require_topics([self._topic])[self._topic].partitions)
            self._transactor.add_partitions(by_partition(self._topic, partitions, records).keys())
            _send(producer, self._cluster, self._topic, records, transactional=True)
            self._transactor.end(commit=True)
        finally:
            producer.close()

    def close(self) -> None:
        with self._lock:
            self._is_claimed = False
            self._cluster.close()


def _send(
    producer: Producer, cluster: Cluster, topic: str, records: Sequence[KeyValue], *, transactional: bool
) -> None:
    partitions = len(cluster.require_topics([topic])[topic].partitions)
    now_ms = time.time_ns() // 1_000_000
    for tp, placed in by_partition(topic, partitions, records).items():
        logged = [Record(0, now_ms, record.key, record.value) for record in placed]
        producer.send(topic, tp.partition, bytearray(encode_batch(logged, transactional=transactional)))
    producer.flush()
