"""Read growing partitions in the caller's thread, from given offsets on.

A `Tail` serves a caller that polls, while a `Follower` delivers in a thread of its own. Partitions fail and
recover apart from each other: one whose leader does not answer does not delay the others.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.connection import Connection
from penstock.client.connections.metadata import NO_LEADER, TopicPartition
from penstock.client.errors import ClientError, UnknownPartition, error_from
from penstock.client.reading.fetcher import FetchConfig, Position, fetch_request, spans_of
from penstock.client.reading.offsets import list_offsets
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ZERO_UUID, FetchResponse

_ATTEMPT_MS: Final = 1_000
"""The timeout of one attempt. Attempts are repeated forever, and `poll` returns between them."""


class Arrived(NamedTuple):
    """The result of one fetch for one partition: whole batches without those of aborted transactions.

    ``offset`` is the one that was asked for; the first batch may begin before it. ``is_at_end`` says that
    the leader had nothing behind these batches for this reader.
    """

    spans: list[memoryview]
    offset: int
    is_at_end: bool


@dataclass(slots=True)
class _Cursor:
    offset: int
    """The next offset to fetch, or `EARLIEST` or `LATEST` until the leader was asked for it."""
    topic_id: bytes = ZERO_UUID
    is_asked: bool = False
    empty_end: int = -1
    """Where the records ended when the last response had none; -1 otherwise."""
    failures: int = 0
    rests_until_s: float = 0.0


class Tail:
    """A reader of partitions that grow. A context manager; the end of the block closes its connections.

    Args:
        config: the cluster; the tail retries retriable failures forever.
        fetch: the fetch settings.
        offsets: where each partition begins; `EARLIEST` and `LATEST` are allowed.
        out_of_range: where a partition continues whose log does not hold the offset: `EARLIEST` or `LATEST`.
    """

    def __init__(
        self,
        config: ClientConfig,
        fetch: FetchConfig,
        offsets: Mapping[TopicPartition, int],
        out_of_range: int,
    ) -> None:
        self._cluster = Cluster(replace(config, api_timeout_ms=min(config.api_timeout_ms, _ATTEMPT_MS)))
        self._fetch = fetch
        self._out_of_range = out_of_range
        self._cursors = {tp: _Cursor(offset) for tp, offset in offsets.items()}
        self._connections: dict[int, Connection] = {}
        self._in_flight: dict[int, list[TopicPartition]] = {}

    def __enter__(self) -> Tail:
        return self

    def __exit__(self, *_error: object) -> None:
        for connection in self._connections.values():
            connection.close()
        self._cluster.close()

    def poll(self, timeout_s: float) -> dict[TopicPartition, Arrived]:
        """Return the next response, or nothing if none arrives in time.

        Raises UnknownPartition once a topic is deleted, and other ClientErrors that a retry cannot help.
        """
        self._ask()
        node_id = self._answered(timeout_s)
        if node_id is None:
            return {}
        asked = self._in_flight.pop(node_id)
        for tp in asked:
            self._cursors[tp].is_asked = False
        try:
            response = self._connections[node_id].receive(FetchResponse)
            if response.error_code:
                raise error_from(response.error_code, f"fetch from broker {node_id}")
        except ClientError as error:
            self._failed(node_id, asked, error)
            return {}
        arrived = self._read(response, asked, node_id)
        self._ask()  # the next fetch is in flight while the caller works on this response
        return arrived

    # Requests

    def _ask(self) -> None:
        """Send a fetch to each broker that leads idle partitions and has none in flight."""
        now = time.monotonic()
        idle = [tp for tp, each in self._cursors.items() if not each.is_asked and each.rests_until_s <= now]
        if not idle:
            return
        try:
            by_node = self._by_leader(idle)
        except ClientError as error:
            self._rest(idle, error)
            return
        for node_id, partitions in by_node.items():
            if node_id in self._in_flight:
                continue
            try:
                self._resolve(partitions)
                if node_id not in self._connections:
                    self._connections[node_id] = self._cluster.open_connection(node_id)
                cursors = [(tp, self._cursors[tp]) for tp in partitions]
                positions = [Position(tp, each.topic_id, each.offset) for tp, each in cursors]
                self._connections[node_id].send(fetch_request(self._fetch, positions))
            except ClientError as error:
                self._failed(node_id, partitions, error)
                continue
            self._in_flight[node_id] = partitions
            for tp in partitions:
                self._cursors[tp].is_asked = True

    def _by_leader(self, partitions: list[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Group the partitions that have a leader by its node; the others rest."""
        topics = self._cluster.topics({tp.topic for tp in partitions})
        by_node: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            topic, cursor = topics.get(tp.topic), self._cursors[tp]
            found = topic.partitions.get(tp.partition) if topic is not None else None
            if topic is None or found is None or cursor.topic_id not in (ZERO_UUID, topic.topic_id):
                raise UnknownPartition(tp.topic, tp.partition, self._cluster.config.servers_text)
            cursor.topic_id = topic.topic_id
            if found.leader_id == NO_LEADER:
                self._rest([tp], error_from(ErrorCode.LEADER_NOT_AVAILABLE, str(tp)))
            else:
                by_node.setdefault(found.leader_id, []).append(tp)
        return by_node

    def _resolve(self, partitions: list[TopicPartition]) -> None:
        """Look up the offsets of partitions that begin at the start or at the end of the log."""
        asked = {tp: self._cursors[tp].offset for tp in partitions if self._cursors[tp].offset < 0}
        for tp, listed in list_offsets(self._cluster, asked, self._fetch.isolation).items():
            self._cursors[tp].offset = listed.offset

    # Responses

    def _answered(self, timeout_s: float) -> int | None:
        """A broker with a response or a broken connection; None if there is none in time."""
        for node_id in self._in_flight:
            if self._connections[node_id].has_decrypted or self._connections[node_id].overdue:
                return node_id
        poller = select.poll()
        nodes = {self._connections[node_id].fileno(): node_id for node_id in self._in_flight}
        for descriptor in nodes:
            poller.register(descriptor, select.POLLIN)
        ready = poller.poll(timeout_s * 1000)
        return nodes[ready[0][0]] if ready else None

    def _read(
        self, response: FetchResponse, asked: list[TopicPartition], node_id: int
    ) -> dict[TopicPartition, Arrived]:
        names = {self._cursors[tp].topic_id: tp.topic for tp in asked}
        is_empty = not any(p.records for topic in response.responses for p in topic.partitions)
        arrived: dict[TopicPartition, Arrived] = {}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for answer in topic.partitions:
                tp = TopicPartition(name, answer.partition_index)
                if tp not in self._cursors:
                    continue
                cursor = self._cursors[tp]
                if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    cursor.offset = self._out_of_range
                elif answer.error_code:
                    where = f"fetch of {tp} at offset {cursor.offset} from broker {node_id}"
                    self._rest([tp], error_from(answer.error_code, where))
                else:
                    arrived[tp] = self._advance(tp, cursor, answer, is_empty)
        return arrived

    def _advance(
        self, tp: TopicPartition, cursor: _Cursor, answer: FetchResponse.PartitionData, is_empty: bool
    ) -> Arrived:
        found, end, asked = spans_of(answer, tp), self._fetch.end_in(answer), cursor.offset
        if found.next_offset is not None:
            cursor.offset = found.next_offset
        elif is_empty:
            # Compaction may remove all records up to the end. If two responses in a row have no record,
            # nothing is left before the end that the first one reported.
            cursor.offset = max(cursor.offset, cursor.empty_end)
        cursor.empty_end = end if is_empty else -1
        cursor.failures = 0
        return Arrived(found.spans, asked, cursor.offset >= end)

    # Failures

    def _failed(self, node_id: int, partitions: Iterable[TopicPartition], error: ClientError) -> None:
        """Drop the connection to a broker, and let the partitions rest that it leads."""
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()
        self._rest(partitions, error)

    def _rest(self, partitions: Iterable[TopicPartition], error: ClientError) -> None:
        """Wait before the next attempt, with new metadata; raise the error if a retry cannot help."""
        if not error.retriable:
            raise error
        now = time.monotonic()
        for tp in partitions:
            cursor = self._cursors[tp]
            cursor.failures += 1
            cursor.rests_until_s = now + self._cluster.policy.backoff_s(cursor.failures)
            self._cluster.forget([tp.topic])
