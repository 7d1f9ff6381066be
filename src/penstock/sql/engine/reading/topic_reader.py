"""A reader of the committed records of some topics, up to their current ends or continuously.

Among several partitions, the reader continues with the one whose next record has the earliest timestamp, as
Kafka Streams does. So of the records that are known, the earlier ones come first, and each partition keeps
its order.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, OffsetOutOfRange
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.reading.feeds import Bounds, Chunk, Feed, Feeds
from penstock.sql.engine.reading.workers import Job, Workers
from penstock.topology.records import Input

log = logging.getLogger(__name__)

_TURN_RECORDS: Final = 500
"""Limit on the records of one reader before the next reader has its turn."""
_RUN_RECORDS: Final = 100
"""Limit on the records between two checks that the taker has room for their results."""
_RETRY_S: Final = 0.2


def counts_of(cluster: Cluster, topics: Collection[str]) -> dict[str, int]:
    """The number of partitions of each topic. Raises UnknownPartition."""
    return {name: len(each.partitions) for name, each in cluster.require_topics(topics).items()}


class Taker(Protocol):
    """The receiver of records, called by one thread at a time. Its `failed` receives what it raises."""

    def has_room(self) -> bool:
        """Whether it accepts more records now. `Reader.wake` makes the reader ask again."""

    def take(self, chunk: Chunk, start: int, stop: int) -> bool:
        """Process some records of a chunk, and return whether more are wanted."""

    def turn_over(self) -> None:
        """Handle the end of the reader's turn, which had some records or none."""

    def finished(self) -> None:
        """Handle that all records up to the ends of the topics at the start were read."""

    def failed(self, error: BaseException) -> None:
        """Handle that no more records will follow."""


class Reader(Job):
    """A job that passes the records of topics to a taker, until it is closed.

    With ``follows`` it continues beyond the ends in ``bounds``. `start` begins; any thread may `close` it.
    """

    def __init__(
        self,
        feeds: Feeds,
        workers: Workers,
        taker: Taker,
        bounds: Bounds,
        *,
        follows: bool,
    ) -> None:
        super().__init__()
        self._feeds = feeds
        self._workers = workers
        self._taker = taker
        self._bounds = bounds
        self._places = dict(bounds.places)
        """The first offset after the records that are held, for each partition."""
        self._ends = dict(bounds.ends)
        """Up to these ends, records are read in the order of their timestamps across all topics."""
        self._follows = follows
        self._followed: Mapping[str, Feed] = {}
        self._held: dict[TopicPartition, _Held] = {}
        self._heads: list[tuple[int, TopicPartition]] = []
        """The timestamp of the next record of each chunk that is held, the earliest first."""
        self._restarted: dict[TopicPartition, int] = {}
        self._is_over = False
        self._lock = threading.Lock()

    def start(self) -> None:
        self._followed = self._feeds.join(self._bounds, self)
        if self._follows:
            for feed in self._followed.values():
                feed.start()
        self.wake()

    def wake(self) -> None:
        self._workers.wake(self)

    def close(self) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        self._feeds.leave(self)

    # The feeds' callbacks

    def arrived(self) -> None:
        self.wake()

    def restarted(self, tp: TopicPartition, offset: int) -> None:
        with self._lock:
            self._restarted[tp] = offset
        self.wake()

    def failed(self, error: BaseException) -> None:
        if not self._is_over:
            self.close()
            self._taker.failed(error)

    # One turn

    def step(self) -> float | None:
        try:
            return self._turn()
        except OffsetOutOfRange as error:
            self.failed(_lost(error))
        except ClientError as error:
            if error.retriable:
                log.info(
                    "reading will be retried topics=%s error=%s", ", ".join(self._bounds.topic_ids), error
                )
                return _RETRY_S
            self.failed(error)
        except Exception as error:
            self.failed(error)
        return None

    def _turn(self) -> float | None:
        if not self._followed:
            return None  # a feed called `arrived` before `start` was done; `start` wakes this again
        self._restart_partitions()
        self._hold_all()
        left = _TURN_RECORDS
        while left > 0 and self._heads and not self._is_over and self._taker.has_room():
            left -= self._run(min(left, _RUN_RECORDS))
        if self._is_over:
            return None
        self._taker.turn_over()
        if not self._follows and not self._heads:
            self.close()
            self._taker.finished()
        return 0.0 if left <= 0 else None

    def _run(self, most: int) -> int:
        """Pass on some records of the partition that is next, and return how many."""
        _, tp = heappop(self._heads)
        held = self._held[tp]
        records, start = held.chunk.records, held.next
        stop, last = start + 1, min(held.stop, start + most)
        before_ms = self._heads[0][0] if self._heads else None
        while stop < last and (before_ms is None or records[stop][3] <= before_ms):
            stop += 1
        held.next = stop
        if stop < held.stop:
            heappush(self._heads, (records[stop][3], tp))
        else:
            del self._held[tp]
        if not self._taker.take(held.chunk, start, stop):
            self.close()
        elif stop == held.stop:
            self._hold(tp)
        return stop - start

    def _hold_all(self) -> None:
        if self._follows:
            for feed in self._followed.values():
                for tp in list(feed.ends):
                    self._places.setdefault(tp, 0)  # a new partition
        for tp in self._places:
            if tp not in self._held:
                self._hold(tp)

    def _hold(self, tp: TopicPartition) -> None:
        """Hold the next chunk of a partition that has a record to read, if any. Raises ClientError."""
        feed = self._followed[tp.topic]
        while (place := self._places[tp]) < (end := self._end(tp)) and not self._is_over:
            wanted = {
                each: (at, until)
                for each, at in self._places.items()
                if each.topic == tp.topic and at < (until := self._end(each))
            }
            chunk = feed.chunk(tp, wanted | {tp: (place, end)})
            if chunk is None:
                return
            # A chunk may go beyond the end that this reader knows. Its further records are read afterwards.
            self._places[tp] = min(chunk.next_offset, end)
            start = bisect_left(chunk.records, place, key=_offset)
            stop = bisect_left(chunk.records, end, key=_offset)
            if start < stop:
                self._held[tp] = _Held(chunk, start, stop)
                heappush(self._heads, (chunk.records[start][3], tp))
                return

    def _end(self, tp: TopicPartition) -> int:
        end = self._ends.get(tp, 0)
        return max(end, self._followed[tp.topic].ends.get(tp, 0)) if self._follows else end

    def _restart_partitions(self) -> None:
        with self._lock:
            restarted, self._restarted = self._restarted, {}
        if restarted:
            self._places |= restarted
            self._ends = {tp: end for tp, end in self._ends.items() if tp not in restarted}
            self._held = {tp: held for tp, held in self._held.items() if tp not in restarted}
            self._heads = [each for each in self._heads if each[1] not in restarted]
            heapify(self._heads)


@dataclass(slots=True)
class _Held:
    """A chunk whose records from ``next`` up to ``stop`` were not passed on yet."""

    chunk: Chunk
    next: int
    stop: int


def _offset(record: Input) -> int:
    return record[2]


def _lost(error: OffsetOutOfRange) -> EngineError:
    return EngineError(
        f"the records of {error.topic}-{error.partition} from offset {error.offset} on were deleted before "
        "this query read them: expected a client that reads faster, or a topic with a longer retention",
        ErrorCode.SERVER_ERROR,
    )
