"""Collects records into batches and sends them through the client's producer; for one thread.

A record with a key goes to the partition of its murmur2 hash. One without a key goes to the topic's current
partition, which changes with each finished batch, so that batches fill up (KIP-480).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, DeliveryFailed, RecordTooLarge, UnknownPartition
from penstock.client.producing.delivery import Transaction
from penstock.client.producing.producer import Acknowledged, Producer, ProducerConfig
from penstock.client.settings import one_of, setting, whole_number
from penstock.connect.tasks.sending.delivery import Delivery, OutgoingRecord
from penstock.protocol.compression import Codec
from penstock.protocol.kernels import kernel
from penstock.protocol.records import Headers, Record, produced_batch

FOREVER_MS: Final = 2**31 - 1
_OVERHEAD_BYTES: Final = 21
"""The size of a record in a batch beside its key and value, at most, if it has no headers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchSettings:
    """When a batch is full. The default size exceeds Kafka's 16384, since each batch costs more here."""

    linger_ms: int = setting("linger.ms", 0, whole_number(0))
    batch_bytes: int = setting("batch.size", 131_072, whole_number(0))
    compression: str = setting("compression.type", "none", one_of("none", "gzip", "snappy", "lz4", "zstd"))

    @property
    def codec(self) -> Codec:
        return Codec[self.compression.upper()]


class _Entry(NamedTuple):
    record: Record
    delivery: Delivery


@dataclass(slots=True)
class _Batch:
    """Records of one partition, in order; ``done`` of them are acknowledged, from the first on."""

    tp: TopicPartition
    began_s: float
    entries: list[_Entry] = field(default_factory=list)
    size_bytes: int = 0
    done: int = 0


class BatchingProducer:
    """Sends records in batches, without a transaction or, from `begin` on, in one.

    ``create_topics`` lets brokers create missing topics if they are configured to. What a retry can help is
    retried without end: ``sleep`` waits between attempts, and raises an exception to end them.
    """

    def __init__(
        self,
        client: ClientConfig,
        producer: ProducerConfig,
        settings: BatchSettings,
        *,
        create_topics: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.cluster = Cluster(client)
        self.cluster.policy = replace(self.cluster.policy, timeout_ms=FOREVER_MS, sleep=sleep)
        self._sleep = sleep
        self._config = producer
        self._settings = settings
        self._create_topics = create_topics
        self._clock = clock
        self._transaction: Transaction | None = None
        self._producer: Producer | None = None
        self._open: dict[TopicPartition, _Batch] = {}
        self._sent: dict[int, _Batch] = {}
        """The batches that the current producer has and that are not acknowledged, by their numbers."""
        self._next_number = 0
        self._sticky: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        """The partitions of topics, looked up once between two batches."""
        self._last_headers: Headers = ()
        self._last_headers_bytes = 0

    def close(self) -> None:
        """Close the connections without waiting."""
        if self._producer is not None:
            self._producer.close()
        self.cluster.close()

    @property
    def is_busy(self) -> bool:
        """Whether records are not acknowledged yet."""
        return bool(self._open or self._sent)

    @property
    def has_sent(self) -> bool:
        """Whether batches are on their way."""
        return bool(self._sent)

    @property
    def open_partitions(self) -> set[TopicPartition]:
        """The partitions with records that are not sent yet."""
        return set(self._open)

    def begin(self, transaction: Transaction) -> None:
        """Write the following records in this transaction; all earlier ones must be acknowledged."""
        self._transaction = transaction
        if self._producer is not None:
            self._producer.begin(transaction)

    def fail(self, error: Exception) -> None:
        """Give up all records that are not acknowledged: this producer is not used any more."""
        for batch in (*self._open.values(), *self._sent.values()):
            _fail(batch, error)

    def discard(self) -> None:
        """Forget all records that are not acknowledged, because their transaction is aborted."""
        self._open.clear()
        self._forget_producer()

    def add(self, record: OutgoingRecord, delivery: Delivery) -> TopicPartition | None:
        """Put a record into its batch; return the partition if its batch is now full, for `send`.

        Raises ClientError if the topic is missing.
        """
        now = self._clock()
        timestamp_ms = int(time.time() * 1000) if record.timestamp_ms is None else record.timestamp_ms
        tp = TopicPartition(record.topic, self._partition(record))
        batch = self._open.get(tp)
        if batch is None:
            batch = self._open[tp] = _Batch(tp, now)
        row = Record(0, timestamp_ms, record.key, record.value, record.headers)
        batch.entries.append(_Entry(row, delivery))
        batch.size_bytes += self._size(row)
        return tp if batch.size_bytes >= self._settings.batch_bytes else None

    def send_due(self, *, everything: bool = False) -> float | None:
        """Send the batches whose linger time is over; return the seconds until the next is due, if any."""
        latest = self._clock() - self._settings.linger_ms / 1000
        for tp in [tp for tp, batch in self._open.items() if everything or batch.began_s <= latest]:
            self.send(tp)
        return min((batch.began_s - latest for batch in self._open.values()), default=None)

    def send(self, tp: TopicPartition) -> None:
        """Send a partition's batch, full or not."""
        batch = self._open.pop(tp)
        self._sticky.pop(tp.topic, None)
        self._counts.clear()
        self._deliver([batch])

    def wait(self) -> None:
        """Wait for a response, if anything was sent."""
        if self._sent:
            self._guarded(self._get_producer().wait)

    # The producer

    def _deliver(self, batches: list[_Batch]) -> None:
        for batch in batches:  # before the first is sent, so that a failure finds all of them
            self._sent[self._next_number] = batch
            self._next_number += 1

        def hand_over() -> None:
            for batch in batches:
                rows = [entry.record for entry in batch.entries[batch.done :]]
                payload = kernel.encode_rows(rows, rows[0].timestamp)
                is_transactional = self._transaction is not None
                data = produced_batch(rows, payload, self._settings.codec, is_transactional)
                self._get_producer().send(batch.tp.topic, batch.tp.partition, data)

        self._guarded(hand_over)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run work of the producer. If it refuses a batch, fail its records and send the others again."""
        try:
            work()
        except ClientError as error:
            unsettled = self._sent
            self._forget_producer()
            refused = _refused(error, unsettled)
            if self._transaction is not None or not refused:
                for batch in unsettled.values():
                    _fail(batch, error)
                if self._transaction is not None:
                    raise
                return
            again: list[_Batch] = []
            for number, batch in unsettled.items():
                left = batch.entries[batch.done :]
                if number not in refused:
                    again.append(batch)
                elif len(left) == 1 or not isinstance(error, RecordTooLarge):
                    _fail(batch, error)
                else:  # find the record that is too large
                    again += [_Batch(batch.tp, batch.began_s, [entry]) for entry in left]
            self._deliver(again)

    def _get_producer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                self.cluster,
                self._config,
                create_topics=self._create_topics,
                transaction=self._transaction,
                acknowledged=self._acknowledge,
            )
        return self._producer

    def _forget_producer(self) -> None:
        self._sent = {}
        self._next_number = 0
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _acknowledge(self, done: Acknowledged) -> None:
        batch = self._sent[done.number]
        end = batch.done + done.records
        for position in range(batch.done, end):
            entry = batch.entries[position]
            offset = -1 if done.base_offset < 0 else done.base_offset + position - batch.done
            entry.delivery.acknowledged(batch.tp.topic, batch.tp.partition, offset, entry.record.timestamp)
        batch.done = end
        if end == len(batch.entries):
            del self._sent[done.number]

    def _partition(self, record: OutgoingRecord) -> int:
        if record.partition is not None:
            if record.topic not in self.cluster.metadata.topics:
                self._partition_count(record.topic)
            tp = TopicPartition(record.topic, record.partition)
            # Known to be missing now, it fails its record alone; later, it would fail a whole batch
            if self.cluster.metadata.partition(tp) is None and not self.cluster.existing([tp]):
                raise UnknownPartition(*tp, self.cluster.config.servers_text)
            return record.partition
        if record.key is None and record.topic in self._sticky:
            return self._sticky[record.topic]
        count = self._counts.get(record.topic)
        if count is None:
            count = self._counts[record.topic] = self._partition_count(record.topic)
        if record.key is not None:
            return (kernel.key_hash(record.key) & 0x7FFFFFFF) % count
        self._sticky[record.topic] = random.randrange(count)
        return self._sticky[record.topic]

    def _size(self, row: Record) -> int:
        if row.headers is not self._last_headers:
            self._last_headers = row.headers
            self._last_headers_bytes = sum(len(name) + len(value or b"") + 2 for name, value in row.headers)
        size = _OVERHEAD_BYTES + self._last_headers_bytes
        return size + len(row.key or b"") + len(row.value or b"")

    def _partition_count(self, topic: str) -> int:
        """Wait for a topic that the brokers may create. Raises UnknownPartition after the usual timeout."""
        deadline_s = time.monotonic() + self.cluster.config.api_timeout_ms / 1000
        failures = 0
        while True:
            found = self.cluster.topics([topic], create=self._create_topics)
            if topic in found and found[topic].partitions:
                return len(found[topic].partitions)
            failures += 1
            if not self._create_topics or time.monotonic() >= deadline_s:
                raise UnknownPartition(topic, None, self.cluster.config.servers_text)
            self._sleep(self.cluster.policy.backoff_s(failures))


def _refused(error: ClientError, unsettled: Mapping[int, _Batch]) -> set[int]:
    """The numbers of the batches that an error is about; none if it is about all of them."""
    if isinstance(error, DeliveryFailed | RecordTooLarge) and error.batch is not None:
        return {error.batch} & unsettled.keys()
    missing = error.missing if isinstance(error, DeliveryFailed) else error
    if not isinstance(missing, UnknownPartition):
        return set()
    return {
        number
        for number, batch in unsettled.items()
        if batch.tp.topic == missing.topic and missing.partition in (None, batch.tp.partition)
    }


def _fail(batch: _Batch, error: Exception) -> None:
    for entry in batch.entries[batch.done :]:
        entry.delivery.failed(error)
