"""Produce whole record batches to partition leaders: in order and, with idempotence, without duplicates.

`Producer.send` takes finished batches; `Producer.flush` returns when every one is acknowledged, or raises. A
producer uses one thread; it pipelines requests to each broker and takes responses as they arrive.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.connection import Connection
from penstock.client.connections.frames import RecordBytes
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import (
    ClientError,
    DeliveryFailed,
    RecordTooLarge,
    ServerError,
    UnknownPartition,
    error_from,
)
from penstock.client.producing.delivery import PartitionQueue, PendingBatch, ProducerIdentity, Transaction
from penstock.client.settings import boolean, setting, whole_number
from penstock.protocol.batch import parse_header
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from penstock.protocol.records import decode_batch, encode_batch

_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_ALREADY_WRITTEN: Final = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
"""The batch was a retry of one already in the log, or of one too old for the broker to know its offset.

Either way it is written.
"""

ALL_REPLICAS: Final = -1
_NO_OFFSET: Final = -1
_V1_PRODUCE: Final = 11
"""The newest version in a transaction of the first protocol."""


def acks(text: str) -> int:
    known = {"all": ALL_REPLICAS, "-1": ALL_REPLICAS, "1": 1, "0": 0}
    if text.lower() not in known:
        raise ValueError("all, 1 or 0")
    return known[text.lower()]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerConfig:
    acks: int = setting("acks", ALL_REPLICAS, acks)
    enable_idempotence: bool = setting("enable.idempotence", True, boolean)
    max_in_flight: int = setting("max.in.flight.requests.per.connection", 5, whole_number(1, 5))
    max_request_bytes: int = setting("max.request.size", 1 << 20, whole_number(1))
    buffer_bytes: int = setting("buffer.memory", 32 << 20, whole_number(1))
    delivery_timeout_ms: int = setting("delivery.timeout.ms", 120_000, whole_number(1))

    @property
    def idempotent(self) -> bool:
        """Whether to write idempotently.

        This needs acks=all: otherwise a new leader may lack the sequence numbers.
        """
        return self.enable_idempotence and self.acks == ALL_REPLICAS


class Acknowledged(NamedTuple):
    """A batch that the leader has acknowledged, or a part of one that had to be split.

    ``number`` counts the batches that the producer was given before it. ``base_offset`` is -1 if the broker
    did not tell it: with acks=0, or if a retry was recognized as a duplicate.
    """

    number: int
    base_offset: int
    records: int


class _Sent(NamedTuple):
    """One produce request in flight.

    ``names`` has its topics by id. The metadata may have another id for the name of a topic by the time of
    the response.
    """

    batches: dict[TopicPartition, PendingBatch]
    names: dict[bytes, str]


class Producer:
    """A producer of record batches, for one thread.

    ``create_topics`` lets brokers create missing topics, if they are configured to. With a ``transaction``
    all batches are written in it; they must have been encoded as transactional. ``acknowledged`` is called
    for each acknowledged batch, during `send`, `wait` and `flush`.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        *,
        create_topics: bool = True,
        transaction: Transaction | None = None,
        acknowledged: Callable[[Acknowledged], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._acknowledged = acknowledged
        self._create_topics = create_topics
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._connections: dict[int, Connection] = {}
        self._in_flight: dict[int, deque[_Sent]] = {}
        self._buffered_bytes = 0
        self._transaction = transaction
        self._identity = self._new_identity() if config.idempotent else None
        self._look_at_s: dict[TopicPartition, float] = {}
        """When to look for leaders again of partitions without one, while others are written (monotonic)."""
        self._failures = 0
        self._given = 0

    def close(self) -> None:
        """Close the connections; batches that are not flushed may or may not have been written."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def send(self, topic: str, partition: int, batch: bytearray) -> None:
        """Queue one record batch and fill in its sequence; block while ``buffer.memory`` is used up.

        Raises RecordTooLarge, DeliveryFailed.
        """
        tp = TopicPartition(topic, partition)
        queue = self._queues.get(tp)
        if queue is None:
            self._cluster.require_topics([topic], create=self._create_topics)
            queue = self._queues[tp] = PartitionQueue(self._identity, self._config.max_in_flight)
        deadline = time.monotonic() + self._config.delivery_timeout_ms / 1000
        pending = PendingBatch(batch, parse_header(batch, 0).count, deadline, number=self._given)
        self._given += 1
        fits = len(batch) <= self._config.max_request_bytes
        for part in (pending,) if fits else self._split(pending, tp, self._config.max_request_bytes):
            queue.add(part)
            self._buffered_bytes += len(part.data)
        self._pump()
        while self._buffered_bytes > self._config.buffer_bytes:
            self._wait_for_one()

    @property
    def is_busy(self) -> bool:
        """Whether batches are not acknowledged yet."""
        return any(self._queues.values())

    def wait(self) -> None:
        """Wait for one response, if any batch is not acknowledged. Raises DeliveryFailed, RecordTooLarge."""
        self._pump()
        if self.is_busy:
            self._wait_for_one()

    def begin(self, transaction: Transaction) -> None:
        """Write the following batches in another transaction of the same id; everything must be flushed.

        The sequences of partitions continue while the epoch stays the same.
        """
        assert not self.is_busy, "batches of the previous transaction are not acknowledged yet"
        if self._transaction is None or transaction.identity != self._transaction.identity:
            self._queues.clear()
        self._transaction, self._identity = transaction, transaction.identity

    def flush(self) -> None:
        """Return when every batch is acknowledged (with acks=0: sent). Raises DeliveryFailed."""
        self._pump()
        while self.is_busy:
            self._wait_for_one()

    # Requests

    def _new_identity(self) -> ProducerIdentity:
        if self._transaction is not None:
            return self._transaction.identity

        def ask() -> ProducerIdentity:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
            response = self._cluster.call_any(request, InitProducerIdResponse)
            if response.error_code:
                raise error_from(response.error_code, f"producer id from {self._cluster.config.servers_text}")
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        return self._cluster.retry(ask)

    def _pump(self) -> None:
        """Send all batches that may be sent and take the responses that have arrived, without waiting."""
        try:
            for node_id, connection in list(self._connections.items()):
                while connection.in_flight and connection.readable():
                    self._receive(node_id)
            self._send_ready()
        except ClientError as error:
            self._recover(error)

    def _wait_for_one(self) -> None:
        """Wait for one response, and send the batches that it makes room for."""
        try:
            self._send_ready()
            node_id = next((n for n, sent in self._in_flight.items() if sent), None)
            if node_id is not None:
                self._receive(node_id)
                self._send_ready()
        except ClientError as error:
            self._recover(error)

    def _send_ready(self) -> None:
        """Send what may be sent. Raises the reason if partitions have no leader and nothing is in flight."""
        now_s = time.monotonic()
        ready = [
            tp
            for tp, queue in self._queues.items()
            if queue.next_size is not None and (not self._is_waiting or self._look_at_s.get(tp, 0.0) <= now_s)
        ]
        if not ready:
            return
        by_node, failures = self._cluster.find_leaders(ready)
        for failure in failures.values():
            if not failure.retriable:  # nothing is sent that would have to be sent again
                raise failure
        self._send_to(by_node)
        for tp, failure in failures.items():
            deadline_s = self._queues[tp].earliest_deadline
            is_expired = deadline_s is not None and deadline_s < now_s
            if is_expired or not self._is_waiting:
                raise failure
            self._look_at_s[tp] = now_s + self._cluster.policy.backoff_s(1)

    @property
    def _is_waiting(self) -> bool:
        """Whether a request is in flight."""
        return any(self._in_flight.values())

    def _send_to(self, by_node: Mapping[int, Collection[TopicPartition]]) -> None:
        for node_id, partitions in by_node.items():
            remaining = deque(partitions)
            while remaining and len(self._in_flight.get(node_id, ())) < self._config.max_in_flight:
                connection = self._connection(node_id)
                sent = self._fill_request(remaining)
                self._in_flight.setdefault(node_id, deque()).append(sent)
                answered = self._config.acks != 0
                connection.send(self._request(sent), newest=self._newest_version, answered=answered)
                if not answered:
                    self._in_flight[node_id].pop()
                    for tp, batch in sent.batches.items():
                        self._acknowledge(tp, batch, _NO_OFFSET)

    def _fill_request(self, partitions: deque[TopicPartition]) -> _Sent:
        """Take one batch of each partition, up to ``max.request.size``; partitions with more to send stay."""
        batches: dict[TopicPartition, PendingBatch] = {}
        size = 0
        for _ in range(len(partitions)):
            queue = self._queues[partitions[0]]
            next_size = queue.next_size
            if next_size is not None:
                if batches and size + next_size > self._config.max_request_bytes:
                    break
                batches[partitions[0]] = queue.take()
                size += next_size
            partitions.rotate(-1)
        for tp in [tp for tp in partitions if self._queues[tp].next_size is None]:
            partitions.remove(tp)
        known = self._cluster.metadata.topics
        return _Sent(batches, {known[tp.topic].topic_id: tp.topic for tp in batches})

    def _request(self, sent: _Sent) -> ProduceRequest:
        topics: dict[str, ProduceRequest.TopicProduceData] = {}
        for tp, batch in sent.batches.items():
            if tp.topic not in topics:
                topic_id = self._cluster.metadata.topics[tp.topic].topic_id
                topics[tp.topic] = ProduceRequest.TopicProduceData(
                    name=tp.topic, topic_id=topic_id, partition_data=[]
                )
            topics[tp.topic].partition_data.append(
                ProduceRequest.PartitionProduceData(index=tp.partition, records=RecordBytes(batch.data))
            )
        return ProduceRequest(
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._cluster.config.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    @property
    def _newest_version(self) -> int | None:
        is_version_1 = self._transaction is not None and not self._transaction.is_version_2
        return _V1_PRODUCE if is_version_1 else None

    # Responses

    def _receive(self, node_id: int) -> None:
        response = self._connections[node_id].receive(ProduceResponse)
        sent = self._in_flight[node_id].popleft()
        failure: ClientError | None = None
        for tp, answer in _answers(response, sent.names):
            batch = sent.batches.pop(tp, None)
            if batch is not None:
                failure = self._settle(tp, batch, answer, node_id) or failure
        for tp, batch in sent.batches.items():
            self._queues[tp].fail(batch)
            failure = ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"broker {node_id} did not answer for {tp}")
        if failure is not None:
            raise failure
        self._failures = 0

    def _settle(
        self,
        tp: TopicPartition,
        batch: PendingBatch,
        answer: ProduceResponse.PartitionProduceResponse,
        node_id: int,
    ) -> ClientError | None:
        """Handle one answer: return the error if the batch has to be resent, raise an error that is final."""
        code = answer.error_code
        queue = self._queues[tp]
        if code in (ErrorCode.NONE, _ALREADY_WRITTEN):
            self._acknowledge(tp, batch, answer.base_offset if code == ErrorCode.NONE else _NO_OFFSET)
            return None
        if code in _TOO_LARGE and batch.count > 1:
            queue.replace(batch, self._split(batch, tp, len(batch.data) // 2))
            return None
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.is_resending:
            queue.fail(batch)
            return None
        error = error_from(code, f"produce to {tp} at broker {node_id}", answer.error_message)
        if error.retriable:
            queue.fail(batch)
            return error
        refused: RecordTooLarge | DeliveryFailed = DeliveryFailed(f"records were not acknowledged: {error}")
        if code in _TOO_LARGE:
            refused = RecordTooLarge(
                f"a record of {len(batch.data)} bytes (as a batch) is larger than topic '{tp.topic}' takes: "
                "raise the topic's max.message.bytes"
            )
        refused.batch = batch.number
        raise refused from error

    def _acknowledge(self, tp: TopicPartition, batch: PendingBatch, base_offset: int) -> None:
        self._queues[tp].acknowledge(batch)
        self._buffered_bytes -= len(batch.data)
        if self._acknowledged is not None:
            self._acknowledged(Acknowledged(batch.number, base_offset, batch.count))

    # Failures

    def _recover(self, error: ClientError) -> None:
        """Return all batches in flight to their queues and back off, or raise DeliveryFailed."""
        for node_id, requests in self._in_flight.items():
            for sent in requests:
                for tp, batch in sent.batches.items():
                    self._queues[tp].fail(batch)
            requests.clear()
            connection = self._connections.pop(node_id, None)
            if connection is not None:
                connection.close()
        self._failures += 1
        wait_s = self._cluster.policy.backoff_s(self._failures)
        if isinstance(error, RecordTooLarge | DeliveryFailed):
            raise error
        if not error.retriable or self._earliest_deadline() < time.monotonic() + wait_s:
            failed = DeliveryFailed(f"records were not acknowledged: {error}")
            failed.missing = error if isinstance(error, UnknownPartition) else None
            raise failed from error
        self._cluster.policy.sleep(wait_s)
        self._cluster.forget({tp.topic for tp, queue in self._queues.items() if queue})

    def _earliest_deadline(self) -> float:
        deadlines = [queue.earliest_deadline for queue in self._queues.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=0.0)

    def _split(self, batch: PendingBatch, tp: TopicPartition, target_bytes: int) -> Iterator[PendingBatch]:
        """Split a batch into smaller ones. Raises RecordTooLarge if a single record is too large."""
        header = parse_header(batch.data, 0)
        records = list(decode_batch(batch.data))
        if len(records) == 1:
            refused = RecordTooLarge(
                f"a record for {tp} takes {len(batch.data)} bytes (as a batch), more than max.request.size "
                f"({self._config.max_request_bytes}): raise it, and the topic's max.message.bytes with it"
            )
            refused.batch = batch.number
            raise refused
        middle = len(records) // 2
        for half in (records[:middle], records[middle:]):
            data = bytearray(
                encode_batch(half, compression=header.compression, transactional=header.is_transactional)
            )
            part = PendingBatch(data, len(half), batch.deadline, number=batch.number)
            if len(data) > target_bytes and len(half) > 1:
                yield from self._split(part, tp, target_bytes)
            else:
                yield part

    def _connection(self, node_id: int) -> Connection:
        if node_id not in self._connections:
            self._connections[node_id] = self._cluster.open_connection(node_id)
        return self._connections[node_id]


def _answers(
    response: ProduceResponse, names: Mapping[bytes, str]
) -> Iterator[tuple[TopicPartition, ProduceResponse.PartitionProduceResponse]]:
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for answer in topic.partition_responses:
            yield TopicPartition(name, answer.index), answer
