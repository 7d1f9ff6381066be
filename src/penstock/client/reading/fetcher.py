"""Fetch ranges of partitions as whole record batches, from several partitions and brokers in parallel.

While the caller works on one response, the next fetch is already in flight. A range ends at its end offset
even if the last offsets hold no record: compaction and transaction markers leave gaps.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.client.batches import AbortedTransaction, committed, whole_batches
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.connection import Connection
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import (
    ClientError,
    OffsetOutOfRange,
    ProtocolViolation,
    RequestTimedOut,
    ServerError,
    UnknownPartition,
    error_from,
)
from penstock.client.reading.offsets import IsolationLevel
from penstock.client.settings import boolean, one_of, setting, whole_number
from penstock.protocol.batch import NO_LEADER_EPOCH, CorruptBatch
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ZERO_UUID, FetchRequest, FetchResponse

_NO_SESSION_EPOCH: Final = -1
"""Requests a full fetch without a fetch session (KIP-227)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchConfig:
    """Settings of a fetcher.

    Byte limits exceed those of Kafka's consumer, since whole partitions are read.
    """

    max_wait_ms: int = setting("fetch.max.wait.ms", 100, whole_number(0))
    min_bytes: int = setting("fetch.min.bytes", 1, whole_number(0))
    max_bytes: int = setting("fetch.max.bytes", 50 << 20, whole_number(1))
    max_partition_bytes: int = setting("max.partition.fetch.bytes", 4 << 20, whole_number(1))
    isolation_level: str = setting(
        "isolation.level", "read_uncommitted", one_of("read_uncommitted", "read_committed")
    )
    check_crcs: bool = setting("check.crcs", True, boolean)

    @property
    def isolation(self) -> IsolationLevel:
        return IsolationLevel[self.isolation_level.upper()]

    def end_in(self, answer: FetchResponse.PartitionData) -> int:
        """Where the records end that a reader of this isolation level may read, as the leader reports it."""
        if self.isolation is IsolationLevel.READ_COMMITTED:
            return answer.last_stable_offset
        return answer.high_watermark


class Position(NamedTuple):
    """Where the next fetch of a partition begins."""

    tp: TopicPartition
    topic_id: bytes
    offset: int


def fetch_request(config: FetchConfig, positions: Iterable[Position]) -> FetchRequest:
    """One full fetch of several partitions of one leader."""
    topics: dict[str, FetchRequest.FetchTopic] = {}
    for tp, topic_id, offset in positions:
        if tp.topic not in topics:
            topics[tp.topic] = FetchRequest.FetchTopic(topic=tp.topic, topic_id=topic_id, partitions=[])
        topics[tp.topic].partitions.append(
            FetchRequest.FetchPartition(
                partition=tp.partition,
                current_leader_epoch=NO_LEADER_EPOCH,
                fetch_offset=offset,
                partition_max_bytes=config.max_partition_bytes,
            )
        )
    return FetchRequest(
        max_wait_ms=config.max_wait_ms,
        min_bytes=config.min_bytes,
        max_bytes=config.max_bytes,
        isolation_level=config.isolation,
        session_epoch=_NO_SESSION_EPOCH,
        topics=list(topics.values()),
    )


class Spans(NamedTuple):
    """The whole batches of one answer, without those of aborted transactions, as spans that are not empty.

    ``next_offset`` is the offset behind all batches, or None if there is not even one whole batch.
    """

    spans: list[memoryview]
    next_offset: int | None


def spans_of(answer: FetchResponse.PartitionData, tp: TopicPartition) -> Spans:
    """Find the batches in a partition's answer. Raises ProtocolViolation."""
    records = answer.records if isinstance(answer.records, memoryview) else memoryview(b"")
    try:
        batches = whole_batches(records)
    except CorruptBatch as corrupt:
        raise ProtocolViolation(f"fetch of {tp}: {corrupt}") from corrupt
    aborted = [AbortedTransaction(t.producer_id, t.first_offset) for t in answer.aborted_transactions or ()]
    spans = committed(batches.data, aborted) if aborted else [batches.data]
    return Spans([span for span in spans if len(span)], batches.next_offset)


class PartitionRange(NamedTuple):
    """The offsets from ``start`` to ``end`` (exclusive) of one partition.

    ``topic_id`` is the id at planning time, so that a topic deleted and created again is not read instead.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = ZERO_UUID

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Fetched(NamedTuple):
    """Whole batches of one partition; the first and the last may reach beyond the requested range.

    ``next_offset`` is the offset to fetch next after the whole response, of which this may be a part.
    """

    range: PartitionRange
    batches: memoryview
    log_start_offset: int
    next_offset: int


class _Cursor:
    """The progress in one range."""

    __slots__ = ("node_id", "position", "range", "stalled_since")

    def __init__(self, partition_range: PartitionRange, now: float) -> None:
        self.range = partition_range
        self.position = partition_range.start
        self.stalled_since = now
        self.node_id = -1

    @property
    def finished(self) -> bool:
        return self.position >= self.range.end


class _Fetch(NamedTuple):
    connection: Connection
    cursors: list[_Cursor]


class Fetcher:
    """A reader of partition ranges.

    It opens its own connections, apart from the cluster's, since its requests stay in flight.
    """

    def __init__(self, cluster: Cluster, config: FetchConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._connections: dict[int, Connection] = {}

    def close(self) -> None:
        for node_id in list(self._connections):
            self._disconnect(node_id)

    def read(self, ranges: Iterable[PartitionRange]) -> Iterator[Fetched]:
        """Yield the batches of all ranges, in order within a partition, interleaved between partitions.

        Raises OffsetOutOfRange, UnknownPartition and other ServerErrors when retries don't help. A range that
        makes no progress for ``default.api.timeout.ms`` fails.
        """
        now = time.monotonic()
        idle = deque(cursor for cursor in (_Cursor(r, now) for r in ranges) if not cursor.finished)
        in_flight: dict[int, _Fetch] = {}
        failures = 0
        try:
            while idle or in_flight:
                try:
                    self._send_fetches(idle, in_flight)
                    node_id = _first_readable(in_flight)
                    fetch = in_flight.pop(node_id)
                    idle.extend(fetch.cursors)
                    arrived = self._take(fetch.connection.receive(FetchResponse), fetch.cursors, node_id)
                    failures = 0
                except ClientError as error:
                    self._abandon(idle, in_flight)
                    self.close()
                    failures += 1
                    self._wait_or_raise(error, idle, failures)
                    continue
                idle = deque(cursor for cursor in idle if not cursor.finished)
                self._send_fetches(idle, in_flight)
                yield from arrived
        finally:
            self._abandon(idle, in_flight)

    # Requests

    def _send_fetches(self, idle: deque[_Cursor], in_flight: dict[int, _Fetch]) -> None:
        """Send one fetch to every broker that leads idle cursors and has no fetch in flight."""
        if not idle:
            return
        by_partition = {cursor.range.topic_partition: cursor for cursor in idle}
        for node_id, partitions in self._cluster.leaders(by_partition).items():
            if node_id in in_flight:
                continue
            cursors = [by_partition[tp] for tp in partitions]
            connection = self._connection(node_id)
            connection.send(self._request(cursors))
            in_flight[node_id] = _Fetch(connection, cursors)
            for cursor in cursors:
                idle.remove(cursor)

    def _request(self, cursors: list[_Cursor]) -> FetchRequest:
        positions = []
        for cursor in cursors:
            topic_id = cursor.range.topic_id
            if topic_id == ZERO_UUID:
                topic_id = self._cluster.metadata.topics[cursor.range.topic].topic_id
            positions.append(Position(cursor.range.topic_partition, topic_id, cursor.position))
        return fetch_request(self._config, positions)

    # Responses

    def _take(self, response: FetchResponse, cursors: list[_Cursor], node_id: int) -> list[Fetched]:
        """Advance the cursors and collect their batches; raise an error only if no batch arrived."""
        if response.error_code:
            raise error_from(response.error_code, f"fetch from broker {node_id}")
        by_partition = {cursor.range.topic_partition: cursor for cursor in cursors}
        names = {cursor.range.topic_id: cursor.range.topic for cursor in cursors}
        is_empty = not any(p.records for topic in response.responses for p in topic.partitions)
        arrived: list[Fetched] = []
        failure: ServerError | None = None
        for topic in response.responses:
            name = (
                topic.topic
                or names.get(topic.topic_id)
                or self._cluster.metadata.topic_named_by(topic.topic_id)
            )
            for answer in topic.partitions:
                cursor = by_partition.get(TopicPartition(name or "", answer.partition_index))
                if cursor is None:
                    continue
                if answer.error_code:
                    failure = self._error(answer.error_code, cursor, node_id)
                else:
                    arrived.extend(self._advance(cursor, answer, is_empty))
        if failure is not None and not arrived:
            raise failure
        return arrived

    def _advance(
        self, cursor: _Cursor, answer: FetchResponse.PartitionData, is_empty: bool
    ) -> Iterator[Fetched]:
        found = spans_of(answer, cursor.range.topic_partition)
        committed_end = self._config.end_in(answer)
        if found.next_offset is not None:
            cursor.position = found.next_offset
            cursor.stalled_since = time.monotonic()
        elif is_empty and committed_end >= cursor.range.end:
            # Compaction removed the rest of the range.
            cursor.position = cursor.range.end
        elif time.monotonic() - cursor.stalled_since > self._cluster.config.api_timeout_ms / 1000:
            raise RequestTimedOut(
                f"{cursor.range.topic_partition} ends at offset {committed_end}, expected it to reach "
                f"{cursor.range.end} within {self._cluster.config.api_timeout_ms} ms"
            )
        for span in found.spans:
            yield Fetched(cursor.range, span, answer.log_start_offset, cursor.position)

    def _error(self, code: int, cursor: _Cursor, node_id: int) -> ServerError:
        tp = cursor.range.topic_partition
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return OffsetOutOfRange(tp.topic, tp.partition, cursor.position)
        self._cluster.forget([tp.topic])
        return error_from(code, f"fetch of {tp} at offset {cursor.position} from broker {node_id}")

    # Failures

    def _wait_or_raise(self, error: ClientError, idle: Iterable[_Cursor], failures: int) -> None:
        """Sleep before the next attempt, or raise the error if a retry cannot help."""
        if not error.retriable:
            raise error
        timeout_s = self._cluster.config.api_timeout_ms / 1000
        wait_s = self._cluster.policy.backoff_s(failures)
        if any(time.monotonic() + wait_s - cursor.stalled_since > timeout_s for cursor in idle):
            raise error
        time.sleep(wait_s)
        self._cluster.refresh({cursor.range.topic for cursor in idle})
        for cursor in idle:
            known = self._cluster.metadata.topics.get(cursor.range.topic)
            if known is None or cursor.range.topic_id not in (ZERO_UUID, known.topic_id):
                raise UnknownPartition(
                    cursor.range.topic, cursor.range.partition, self._cluster.config.servers_text
                ) from error

    def _abandon(self, idle: deque[_Cursor], in_flight: dict[int, _Fetch]) -> None:
        """Cancel the requests in flight: close their connections and return their cursors to ``idle``."""
        for node_id, fetch in in_flight.items():
            idle.extend(fetch.cursors)
            self._disconnect(node_id)
        in_flight.clear()

    def _connection(self, node_id: int) -> Connection:
        if node_id not in self._connections:
            self._connections[node_id] = self._cluster.open_connection(node_id)
        return self._connections[node_id]

    def _disconnect(self, node_id: int) -> None:
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()


def _first_readable(in_flight: dict[int, _Fetch]) -> int:
    """The broker whose response can be received first, or the only broker in ``in_flight``."""
    if len(in_flight) == 1:
        return next(iter(in_flight))
    ready = [node_id for node_id, fetch in in_flight.items() if fetch.connection.has_decrypted]
    while not ready:
        poller = select.poll()
        nodes = {fetch.connection.fileno(): node_id for node_id, fetch in in_flight.items()}
        for descriptor in nodes:
            poller.register(descriptor, select.POLLIN)
        ready = [nodes[descriptor] for descriptor, _ in poller.poll(1000)]
        overdue = [node_id for node_id, fetch in in_flight.items() if fetch.connection.overdue]
        ready = ready or overdue
    return ready[0]
