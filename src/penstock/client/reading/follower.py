"""Follow growing partitions: deliver record batches as soon as their transactions are committed.

One fetch is in flight at each broker all the time; the broker answers when it has records. Partitions can be
added and dropped while others are followed.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.connection import Connection
from penstock.client.connections.metadata import TopicMetadata, TopicPartition
from penstock.client.errors import (
    ClientError,
    OffsetOutOfRange,
    ServerError,
    UnknownPartition,
    error_from,
)
from penstock.client.reading.fetcher import FetchConfig, Position, fetch_request, spans_of
from penstock.client.reading.offsets import EARLIEST, IsolationLevel, list_offsets
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ZERO_UUID, FetchRequest, FetchResponse

log = logging.getLogger(__name__)

_CLOSED_S: Final = 10.0
_WAKINGS_MAX: Final = 4096
_IDLE_S: Final = 0.05
_ATTEMPT_MS: Final = 1_000
"""The timeout of one attempt. Attempts are repeated forever, and `close` waits for the current one."""

# Intervals of metadata refreshes: to find new partitions, and to find topics that do not exist yet.
_LOOK_S: Final = 30.0
_LOOK_FOR_MISSING_S: Final = 0.5

Choice = Callable[[str, int], Collection[int]]
"""``(topic, its number of partitions) -> the partitions to follow``."""
_TOPIC_IS_GONE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)


class Committed(NamedTuple):
    """The result of one fetch for one partition: whole batches without those of aborted transactions.

    ``next_offset`` is the next offset to fetch; ``stable_end`` is where committed records ended at that time.
    """

    spans: list[memoryview]
    next_offset: int
    stable_end: int


class Start(NamedTuple):
    """Where the reading of a partition begins, unless the topic with this id is gone by then."""

    topic_id: bytes
    offset: int


class Taker(Protocol):
    """The receiver of followed batches. Its methods are called in the follower's thread."""

    def counted(self, partitions: Mapping[str, int]) -> None:
        """Receive the number of partitions of each topic that exists.

        It falls before `dropped` is called for the partitions that are gone, and grows after `begin`.
        """

    def dropped(self, tp: TopicPartition) -> None:
        """Note that a partition is no longer followed."""

    def begin(self, tp: TopicPartition, offset: int) -> None:
        """Start reading at this offset: for the first time, or again because the log was replaced.

        It is not called for a partition that begins at the `Start` which the follower was given.
        """

    def take(self, arrived: Mapping[TopicPartition, Committed]) -> None:
        """Receive the batches of one response."""

    def failed(self, error: BaseException) -> None:
        """Note that the follower has stopped for good."""


@dataclass(slots=True)
class _Cursor:
    offset: int
    topic_id: bytes
    node_id: int | None = None
    """The broker that the current fetch was sent to."""
    empty_end: int = -1
    """Where committed records ended when the last response had none; -1 otherwise."""


class Follower:
    """A thread that fetches without end.

    Args:
        config: the cluster; the follower retries retriable failures forever.
        fetch: the fetch settings; ``isolation.level`` is always ``read_committed``.
        topics: the topics to follow; they need not exist yet.
        choice: selects the partitions to follow.
        starts: where to begin. Other partitions are read from their beginning, and so are those of a topic
            that was deleted and created again since then.
        rest_s: pause before the next fetch to a broker once its partitions are read to the end, so that many
            small batches arrive together. The first records after an idle period arrive at once.
    """

    def __init__(
        self,
        config: ClientConfig,
        fetch: FetchConfig,
        topics: Collection[str],
        choice: Choice,
        taker: Taker,
        *,
        name: str,
        starts: Mapping[TopicPartition, Start] | None = None,
        rest_s: float = 0.0,
    ) -> None:
        self._rest_s = rest_s
        self._rests_until: dict[int, float] = {}
        self._cluster = Cluster(replace(config, api_timeout_ms=min(config.api_timeout_ms, _ATTEMPT_MS)))
        self._fetch = replace(fetch, isolation_level="read_committed")
        self._topics = frozenset(topics)
        self._choice = choice
        self._taker = taker
        self._is_chosen = False
        self._look_at = 0.0
        self._cursors = {tp: _Cursor(start.offset, start.topic_id) for tp, start in (starts or {}).items()}
        self._counts: Mapping[str, int] = {}
        self._restarted: set[TopicPartition] = set()
        """Partitions that the taker restarted, and that are not followed again yet."""
        self._connections: dict[int, Connection] = {}
        self._in_flight: dict[int, list[TopicPartition]] = {}
        self._failures = 0
        self.trouble: str | None = None
        """The error of the last attempt; None if it succeeded."""
        self._stopped = threading.Event()
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Make the thread end, without waiting for the fetch in flight."""
        self._stopped.set()
        self._wake()

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self.stop()
        if self._thread.ident is None:
            self._end()
        elif threading.current_thread() is not self._thread:
            self._thread.join(_CLOSED_S)

    def choose(self, choice: Choice) -> None:
        """Follow these partitions from now on; new ones are read from their beginning."""
        self._choice = choice
        self._is_chosen = True
        self._wake()

    def _wake(self) -> None:
        """Interrupt the thread's wait for a broker."""
        # The thread has ended, or the socket's buffer is full of earlier wake-ups.
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    # The thread

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    self._step()
                except ClientError as error:
                    self._recover(error)
        except BaseException as error:
            log.exception("follower stopped servers=%s", self._cluster.config.servers_text)
            self._taker.failed(error)
        finally:
            self._end()

    def _end(self) -> None:
        self._disconnect_all()
        self._cluster.close()
        self._waker.close()
        self._woken.close()

    def _step(self) -> None:
        self._agree()
        if not self._cursors:
            self._stopped.wait(_IDLE_S)
            return
        self._ask()
        node_id = self._answered()
        if node_id is None:
            return
        asked = self._in_flight.pop(node_id)
        response = self._connections[node_id].receive(FetchResponse)
        arrived, failure = self._read(response, asked, node_id)
        for tp in asked:
            if self._is_asked(tp, node_id):
                self._cursors[tp].node_id = None
        for tp, found in arrived.items():
            self._cursors[tp].offset = found.next_offset
        if any(each.spans for each in arrived.values()) and all(map(_is_at_end, arrived.values())):
            self._rests_until[node_id] = time.monotonic() + self._rest_s
        # The next fetch is in flight while this response is processed.
        self._ask()
        self._taker.take(arrived)
        if failure is not None:
            raise failure
        self._failures = 0
        self.trouble = None

    def _agree(self) -> None:
        """Follow newly chosen partitions and drop the others, after `choose` or a refresh interval."""
        now = time.monotonic()
        if now < self._look_at and not self._is_chosen:
            return
        self._is_chosen = False
        self._look_at = 0.0  # until this has succeeded
        choice = self._choice
        found = self._cluster.refresh(self._topics).topics
        counts = {name: len(found[name].partitions) for name in self._topics if name in found}
        wanted = {
            TopicPartition(name, number) for name, count in counts.items() for number in choice(name, count)
        }
        # A topic that was deleted and exists again may have fewer partitions.
        returned = {tp for tp in self._restarted if tp.topic in counts}
        dropped = (self._cursors.keys() | returned) - wanted
        if dropped:
            self._count(
                {name: min(counts[name], known) for name, known in self._counts.items() if name in counts}
            )
        for tp in dropped:
            self._cursors.pop(tp, None)
            self._taker.dropped(tp)
        self._restarted -= returned
        for tp in self._gone(found):
            del self._cursors[tp]
        new = sorted(wanted - self._cursors.keys())
        listed = list_offsets(self._cluster, dict.fromkeys(new, EARLIEST), IsolationLevel.READ_COMMITTED)
        if new:
            # Fetches in flight do not include the new partitions and may last.
            self._disconnect_all()
        for tp in new:
            self._cursors[tp] = _Cursor(listed[tp].offset, found[tp.topic].topic_id)
            self._taker.begin(tp, listed[tp].offset)
        self._count(counts)
        self._look_at = now + (_LOOK_S if len(counts) == len(self._topics) else _LOOK_FOR_MISSING_S)

    def _count(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        self._taker.counted(counts)

    def _ask(self) -> None:
        idle = [tp for tp, cursor in self._cursors.items() if cursor.node_id is None]
        if not idle:
            return
        now = time.monotonic()
        for node_id, partitions in self._cluster.leaders(idle).items():
            if node_id in self._in_flight or self._rests_until.get(node_id, 0.0) > now:
                continue
            if node_id not in self._connections:
                self._connections[node_id] = self._cluster.open_connection(node_id)
            self._connections[node_id].send(self._request(partitions))
            self._in_flight[node_id] = partitions
            for tp in partitions:
                self._cursors[tp].node_id = node_id

    def _request(self, partitions: list[TopicPartition]) -> FetchRequest:
        cursors = [(tp, self._cursors[tp]) for tp in partitions]
        return fetch_request(self._fetch, [Position(tp, each.topic_id, each.offset) for tp, each in cursors])

    def _answered(self) -> int | None:
        """A broker with a response or a broken connection; None if there is none within a fetch's wait."""
        poller = select.poll()
        nodes = {self._connections[node_id].fileno(): node_id for node_id in self._in_flight}
        for descriptor in (self._woken.fileno(), *nodes):
            poller.register(descriptor, select.POLLIN)
        wait_ms = min([self._fetch.max_wait_ms + 100, *self._rests_ms()])
        found = [descriptor for descriptor, _ in poller.poll(wait_ms)]
        if self._woken.fileno() in found:
            self._woken.recv(_WAKINGS_MAX)
        ready = [nodes[descriptor] for descriptor in found if descriptor in nodes]
        ready += [node_id for node_id in self._in_flight if self._connections[node_id].overdue]
        return ready[0] if ready else None

    def _rests_ms(self) -> list[int]:
        """The remaining pauses of brokers in ms, rounded up."""
        now = time.monotonic()
        return [int((until - now) * 1000) + 1 for until in self._rests_until.values() if until > now]

    def _read(
        self, response: FetchResponse, asked: list[TopicPartition], node_id: int
    ) -> tuple[dict[TopicPartition, Committed], ServerError | None]:
        if response.error_code:
            raise error_from(response.error_code, f"fetch from broker {node_id}")
        names = {self._cursors[tp].topic_id: tp.topic for tp in asked if tp in self._cursors}
        arrived: dict[TopicPartition, Committed] = {}
        failure: ServerError | None = None
        is_empty = not any(p.records for topic in response.responses for p in topic.partitions)
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for answer in topic.partitions:
                tp = TopicPartition(name, answer.partition_index)
                if not self._is_asked(tp, node_id):
                    continue
                if answer.error_code:
                    failure = self._failure(answer.error_code, tp, node_id)
                else:
                    arrived[tp] = self._committed(tp, answer, is_empty)
        return arrived, failure

    def _is_asked(self, tp: TopicPartition, node_id: int) -> bool:
        """Whether this response still matters: the partition may have been dropped or restarted meanwhile."""
        cursor = self._cursors.get(tp)
        return cursor is not None and cursor.node_id == node_id

    def _failure(self, code: int, tp: TopicPartition, node_id: int) -> ServerError:
        offset = self._cursors[tp].offset
        self._cluster.forget([tp.topic])
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return OffsetOutOfRange(tp.topic, tp.partition, offset)
        if code in _TOPIC_IS_GONE:
            return UnknownPartition(tp.topic, tp.partition, self._cluster.config.servers_text, retriable=True)
        return error_from(code, f"fetch of {tp} at offset {offset} from broker {node_id}")

    def _committed(
        self, tp: TopicPartition, answer: FetchResponse.PartitionData, is_empty: bool
    ) -> Committed:
        cursor = self._cursors[tp]
        found = spans_of(answer, tp)
        following = cursor.offset if found.next_offset is None else found.next_offset
        # Compaction may remove all records up to the end. A response without records reports the end of
        # committed records; if the next response is empty too, nothing is left before that end.
        if is_empty:
            following = max(following, cursor.empty_end)
        cursor.empty_end = answer.last_stable_offset if is_empty else -1
        return Committed(found.spans, following, answer.last_stable_offset)

    # Failures

    def _recover(self, error: ClientError) -> None:
        """Cancel the requests in flight, and restart partitions whose log was replaced."""
        self._disconnect_all()
        if isinstance(error, OffsetOutOfRange):
            log.warning("reading a partition again from its beginning error=%s", error)
            self._restart({TopicPartition(error.topic, error.partition)})
            return
        # A starting broker may not know a topic for a moment: only metadata proves that the topic is deleted.
        if not error.retriable and not isinstance(error, UnknownPartition):
            raise error
        self._failures += 1
        self.trouble = str(error)
        if self._failures == 1 or self._failures % 20 == 0:
            log.warning("fetch failed, retrying error=%s", error)
        self._stopped.wait(self._cluster.policy.backoff_s(min(self._failures, 10)))
        self._drop_gone()

    def _restart(self, partitions: set[TopicPartition]) -> None:
        for tp in partitions:
            self._cursors.pop(tp, None)
            self._taker.begin(tp, 0)
        self._restarted |= partitions
        self._look_at = 0.0

    def _drop_gone(self) -> None:
        """Restart partitions of deleted topics and of topics recreated under the same name with a new id."""
        try:
            known = self._cluster.refresh(self._topics).topics
        except ClientError:
            return  # the next step will meet the same error
        gone = self._gone(known)
        if gone:
            self._restart(gone)

    def _gone(self, known: Mapping[str, TopicMetadata]) -> set[TopicPartition]:
        """The followed partitions whose topic was deleted, whether or not another one has its name now."""
        return {
            tp
            for tp, cursor in self._cursors.items()
            if tp.topic not in known or cursor.topic_id not in (ZERO_UUID, known[tp.topic].topic_id)
        }

    def _disconnect_all(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._in_flight.clear()
        for cursor in self._cursors.values():
            cursor.node_id = None


def _is_at_end(found: Committed) -> bool:
    return found.next_offset >= found.stable_end
