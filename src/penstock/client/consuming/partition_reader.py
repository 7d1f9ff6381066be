"""Reads records of partitions from positions that the owner moves, pauses and drops at any time.

One fetch to each broker is in flight while the owner works on earlier records.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.client.batches import headers
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.connection import Connection
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import (
    ClientError,
    OffsetOutOfRange,
    ProtocolViolation,
    ServerError,
    UnknownPartition,
    error_from,
)
from penstock.client.reading.fetcher import FetchConfig, Position, fetch_request, spans_of
from penstock.protocol.batch import crc_is_valid
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchResponse
from penstock.protocol.records import Headers, decode_batch

_WAKE_BYTES: Final = 4096


class ConsumedRecord(NamedTuple):
    """A record of a partition.

    ``timestamp_ms`` is -1 if it has none; ``timestamp_type`` is 0 for the time at which it was made, and
    1 for the time at which the broker appended it.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(slots=True)
class _Reading:
    """The state of one partition. ``position`` is the next offset for the owner, before what is buffered."""

    position: int
    next_fetch: int
    buffered: deque[ConsumedRecord] = field(default_factory=deque)
    is_paused: bool = False
    is_asked: bool = False
    """Whether a fetch from ``next_fetch`` is in flight."""
    failures: int = 0
    """How often in a row the partition was found to have no leader."""
    look_at_s: float = 0.0
    """When to look for a leader again (monotonic)."""


class PartitionReader:
    """The reader of a set of partitions, for one thread except `wake`.

    ``reset`` returns the offset from which to go on after the position was outside of the log.
    """

    def __init__(
        self, cluster: Cluster, config: FetchConfig, reset: Callable[[OffsetOutOfRange], int]
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._reset = reset
        self._readings: dict[TopicPartition, _Reading] = {}
        self._connections: dict[int, Connection] = {}
        self._in_flight: dict[int, dict[TopicPartition, _Reading]] = {}
        self._missed = False
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)

    def close(self) -> None:
        self._disconnect()
        self._waker.close()
        self._woken.close()

    def wake(self) -> None:
        """Let `wait` return at once, from any thread."""
        with contextlib.suppress(OSError):  # closed, or full of earlier wake-ups
            self._waker.send(b"\0")

    # The partitions

    @property
    def partitions(self) -> set[TopicPartition]:
        return set(self._readings)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these positions, and no others."""
        self._readings = {tp: _Reading(offset, offset) for tp, offset in positions.items()}

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions too, which are not read yet."""
        self._readings |= {tp: _Reading(offset, offset) for tp, offset in positions.items()}

    def position(self, tp: TopicPartition) -> int:
        """The offset of the next record of a partition. Raises KeyError for a partition that is not read."""
        return self._readings[tp].position

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on from another offset. Raises KeyError for a partition that is not read."""
        # A fetch in flight belongs to the old object, whose answer is dropped.
        self._readings[tp] = _Reading(offset, offset, is_paused=self._readings[tp].is_paused)

    def pause(self, partitions: Collection[TopicPartition], *, is_paused: bool = True) -> None:
        """Return no records of these partitions, or return them again. Raises KeyError as `seek` does."""
        for tp in partitions:
            self._readings[tp].is_paused = is_paused

    # Records

    def take(self, limit: int) -> list[ConsumedRecord]:
        """Return at most ``limit`` records that have arrived, and move the positions behind them."""
        found: list[ConsumedRecord] = []
        for tp, reading in list(self._readings.items()):
            buffered = reading.buffered
            if reading.is_paused or not buffered or len(found) == limit:
                continue
            # The other partitions come first next time.
            self._readings[tp] = self._readings.pop(tp)
            while buffered and len(found) < limit:
                found.append(buffered.popleft())
                reading.position = found[-1].offset + 1
            if not buffered:
                reading.position = reading.next_fetch
        return found

    def wait(self, timeout_s: float) -> None:
        """Fetch, and return once a response was handled, `wake` was called, or the time is over.

        Raises ClientError: everything continues at the next call if it is retriable.
        """
        try:
            self.ask()
            for node_id in self._answered(timeout_s):
                self._receive(node_id)
        except ServerError:  # an answer, after which the connection can be used
            raise
        except ClientError:
            self._disconnect()
            raise

    def ask(self) -> None:
        """Send a fetch to every broker that has none in flight and leads partitions that are wanted.

        Partitions without a leader are tried again later. If nothing else is read, this raises the reason.
        Raises ClientError, as `wait` does.
        """
        now_s = time.monotonic()
        wanted = {
            tp: each
            for tp, each in self._readings.items()
            if not (each.is_paused or each.is_asked or each.buffered or each.look_at_s > now_s)
        }
        if not wanted:
            return
        by_node, failures = self._cluster.find_leaders(wanted)
        for tp, failure in failures.items():
            wanted[tp].failures += 1
            wanted[tp].look_at_s = now_s + self._cluster.policy.backoff_s(wanted[tp].failures)
            self._missed |= isinstance(failure, UnknownPartition)
        for node_id, partitions in by_node.items():
            if node_id in self._in_flight:
                continue
            topics = self._cluster.metadata.topics
            positions = [Position(tp, topics[tp.topic].topic_id, wanted[tp].next_fetch) for tp in partitions]
            if node_id not in self._connections:
                self._connections[node_id] = self._cluster.open_connection(node_id)
            self._connections[node_id].send(fetch_request(self._config, positions))
            self._in_flight[node_id] = {tp: wanted[tp] for tp in partitions}
            for tp in partitions:
                wanted[tp].is_asked = True
                wanted[tp].failures = 0
        if not self._in_flight:
            for failure in failures.values():
                raise failure

    def take_missed(self) -> bool:
        """Return whether partitions were found not to exist since the last call."""
        missed, self._missed = self._missed, False
        return missed

    def _answered(self, timeout_s: float) -> list[int]:
        """Wait for responses, and return the brokers that have one or are overdue."""
        waiting = {self._connections[node_id]: node_id for node_id in self._in_flight}
        ready = [node_id for connection, node_id in waiting.items() if connection.has_decrypted]
        poller = select.poll()
        poller.register(self._woken, select.POLLIN)
        nodes = {connection.fileno(): node_id for connection, node_id in waiting.items()}
        for descriptor in nodes:
            poller.register(descriptor, select.POLLIN)
        found = [descriptor for descriptor, _ in poller.poll(0 if ready else timeout_s * 1000)]
        if self._woken.fileno() in found:
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(_WAKE_BYTES)
        ready += [nodes[descriptor] for descriptor in found if descriptor in nodes]
        ready += [node_id for connection, node_id in waiting.items() if connection.overdue]
        return list(dict.fromkeys(ready))

    def _receive(self, node_id: int) -> None:
        response = self._connections[node_id].receive(FetchResponse)
        asked = self._in_flight.pop(node_id)
        for reading in asked.values():
            reading.is_asked = False
        if response.error_code:
            raise error_from(response.error_code, f"fetch from broker {node_id}")
        failure: ServerError | None = None
        for topic in response.responses:
            name = topic.topic or self._cluster.metadata.topic_named_by(topic.topic_id)
            for answer in topic.partitions:
                tp = TopicPartition(name or "", answer.partition_index)
                current = self._readings.get(tp)
                if current is not None and current is asked.get(tp):
                    failure = self._handle(tp, current, answer, node_id) or failure
        if failure is not None:
            raise failure

    def _handle(
        self, tp: TopicPartition, reading: _Reading, answer: FetchResponse.PartitionData, node_id: int
    ) -> ServerError | None:
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.seek(tp, self._reset(OffsetOutOfRange(tp.topic, tp.partition, reading.next_fetch)))
            return None
        if answer.error_code:
            self._cluster.forget([tp.topic])
            return error_from(
                answer.error_code, f"fetch of {tp} at {reading.next_fetch} from broker {node_id}"
            )
        found = spans_of(answer, tp)
        for span in found.spans:
            if self._config.check_crcs:
                _check_crcs(tp, span)
            reading.buffered.extend(_records(tp, span, reading.next_fetch))
        if found.next_offset is not None:
            reading.next_fetch = found.next_offset
            if not reading.buffered:
                reading.position = found.next_offset
        return None

    def _disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        for asked in self._in_flight.values():
            for reading in asked.values():
                reading.is_asked = False
        self._in_flight.clear()


def _check_crcs(tp: TopicPartition, span: memoryview) -> None:
    for position, header in headers(span):
        if not crc_is_valid(span, header, position):
            raise ProtocolViolation(f"the checksum of the batch at offset {header.base_offset} of {tp} fails")


def _records(tp: TopicPartition, span: memoryview, first: int) -> Iterator[ConsumedRecord]:
    for position, header in headers(span):
        if header.is_control:
            continue
        for record in decode_batch(span, position):
            if record.offset >= first:
                yield ConsumedRecord(
                    *tp,
                    record.offset,
                    record.timestamp,
                    header.timestamp_type,
                    record.key,
                    record.value,
                    record.headers,
                )
