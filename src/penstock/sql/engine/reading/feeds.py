"""Topics as all their readers in this process share them: each record is fetched and decoded once.

A `Feed` follows a topic that has readers, starting at the topic's end. Each reader keeps its own offsets and
takes a `Chunk` from there: a recent one from the feed's cache, or, if the reader lags, one that is fetched
from the log at that moment. The log itself is the buffer of a slow reader, so nothing is queued for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import FetchConfig, Fetched, Fetcher, PartitionRange
from penstock.client.reading.follower import Committed, Follower, Start
from penstock.client.reading.offsets import EARLIEST, LATEST, IsolationLevel, list_offsets
from penstock.protocol.batch import Buffer
from penstock.protocol.records import Record, decode_batches
from penstock.topology.records import Input
from penstock.topology.tasks.common_reading import CommonReading, Read

Offsets = dict[TopicPartition, int]

KEPT_BYTES: Final = 16 << 20
"""Limit on the recent records that each topic's feed keeps in memory for readers that lag only a little."""
_RECORD_OVERHEAD_BYTES: Final = 400
"""The memory of a record's Python objects, in addition to its bytes."""
_CHUNK_OVERHEAD_BYTES: Final = 1_000
_LANES_MAX: Final = 4
_ATTEMPT_MS: Final = 1_000
"""Limit on one attempt to fetch, because a reader that waits for it occupies a worker thread."""
_FETCH_BYTES: Final = 2 << 20
_FETCH: Final = FetchConfig(
    max_wait_ms=500, isolation_level="read_committed", max_bytes=_FETCH_BYTES, max_partition_bytes=256 << 10
)
_PARTITION_BYTES: Final = range(32 << 10, 512 << 10)


@dataclass
class Chunk:
    """Committed records of a partition with offsets from ``first`` on, up to ``next_offset``."""

    tp: TopicPartition
    first: int
    next_offset: int
    records: list[Input]
    size_bytes: int = 0
    _read: dict[bytes, list[Read]] = field(default_factory=dict)
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def read(self, common: CommonReading) -> Sequence[Read]:
        """Read the records' contents, once for all readers whose `CommonReading` is equal."""
        with self._reading:
            found = self._read.get(common.made_of)
            if found is None:
                found = self._read[common.made_of] = common.read(self.records)
            return found


def _chunk(tp: TopicPartition, first: int, next_offset: int, spans: Collection[Buffer]) -> Chunk:
    records = [_input(tp, each) for span in spans for each in decode_batches(span) if first <= each.offset]
    size = sum(map(len, spans)) + _RECORD_OVERHEAD_BYTES * len(records) + _CHUNK_OVERHEAD_BYTES
    return Chunk(tp, first, next_offset, records, size)


def _input(tp: TopicPartition, record: Record) -> Input:
    headers = tuple((name, value) for name, value in record.headers)
    return (tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value, headers)


class Bounds(NamedTuple):
    """The partitions of some topics: where to start reading each, and the end of its committed records."""

    places: Offsets
    ends: Offsets
    topic_ids: Mapping[str, bytes]


class Follows(Protocol):
    """The callbacks of a topic's reader. The feed calls them in its own thread."""

    def arrived(self) -> None:
        """Handle the arrival of more records."""

    def restarted(self, tp: TopicPartition, offset: int) -> None:
        """Continue at ``offset``: the records read so far are no longer part of the partition's log."""

    def failed(self, error: BaseException) -> None:
        """Handle that the topic can't be followed."""


class Feeds:
    """The feeds of one cluster. Any thread may call it."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._cluster = Cluster(config)
        self._asking = threading.Lock()
        self._feeds: dict[tuple[str, bytes], Feed] = {}
        """By topic and id: a topic that is replaced gets another feed for those who start to read it then."""
        self._lock = threading.Lock()

    def bounds(self, topics: Mapping[str, bool]) -> Bounds:
        """Ask the brokers for the bounds of these topics.

        ``topics`` maps each name to whether it is read from its end instead of its beginning. Raises
        ClientError.
        """
        with self._asking:
            self._cluster.refresh(topics)
            found = self._cluster.require_topics(topics)
            partitions = [
                TopicPartition(name, number) for name, each in found.items() for number in each.partitions
            ]
            ends = self._listed(partitions, LATEST)
            begins = self._listed([tp for tp in partitions if not topics[tp.topic]], EARLIEST)
        return Bounds(ends | begins, ends, {name: each.topic_id for name, each in found.items()})

    def _listed(self, partitions: Collection[TopicPartition], timestamp: int) -> Offsets:
        asked = dict.fromkeys(partitions, timestamp)
        listed = list_offsets(self._cluster, asked, IsolationLevel.READ_COMMITTED)
        return {tp: each.offset for tp, each in listed.items()}

    def join(self, bounds: Bounds, reader: Follows) -> dict[str, Feed]:
        """Register a reader with the feeds of its topics until it calls `leave`."""
        with self._lock:
            for key in bounds.topic_ids.items():
                if key not in self._feeds:
                    self._feeds[key] = Feed(self._config, *key, bounds.ends)
                self._feeds[key].readers.add(reader)
            return {key[0]: self._feeds[key] for key in bounds.topic_ids.items()}

    def leave(self, reader: Follows) -> None:
        """Remove a reader from its feeds, and close each feed that has no readers left."""
        left: list[Feed] = []
        with self._lock:
            for key, feed in list(self._feeds.items()):
                feed.readers.discard(reader)
                if not feed.readers:
                    left.append(self._feeds.pop(key))
        for feed in left:
            feed.close()

    def close(self) -> None:
        with self._lock:
            feeds = list(self._feeds.values())
            self._feeds.clear()
        with self._asking:
            self._cluster.close()
        for feed in feeds:
            feed.close()


class Feed:
    """The shared reading of one topic. `Feeds` adds and removes its readers.

    It follows the topic's partitions from ``ends`` on. If the topic no longer has this id, because it was
    deleted and created again, readers are restarted at the beginning.
    """

    def __init__(self, config: ClientConfig, topic: str, topic_id: bytes, ends: Offsets) -> None:
        self._config = replace(config, api_timeout_ms=min(config.api_timeout_ms, _ATTEMPT_MS))
        self._topic = topic
        self.readers: set[Follows] = set()
        self.ends = {tp: end for tp, end in ends.items() if tp.topic == topic}
        """The known end of each partition's committed records."""
        self._kept: OrderedDict[tuple[TopicPartition, int], Chunk] = OrderedDict()
        self._kept_bytes = 0
        self._keeping = threading.Lock()
        self._lanes: list[Lane] = []
        self._fetching = threading.Lock()
        self._starts = {tp: Start(topic_id, end) for tp, end in self.ends.items()}
        self._follower: Follower | None = None
        self._is_closed = False

    def start(self) -> None:
        """Follow the topic, unless it is followed already."""
        with self._fetching:
            if self._follower is None and not self._is_closed:
                self._follower = Follower(
                    self._config,
                    _FETCH,
                    [self._topic],
                    lambda topic, count: range(count),
                    self,
                    name=f"{self._topic} feed",
                    starts=self._starts,
                )
                self._follower.start()

    def close(self) -> None:
        """Close without waiting for the follower's thread, which ends with its current fetch."""
        with self._fetching:
            self._is_closed = True
            self._close_lanes()
        if self._follower is not None:
            self._follower.stop()

    # For readers

    def chunk(self, tp: TopicPartition, wanted: Mapping[TopicPartition, tuple[int, int]]) -> Chunk | None:
        """The chunk that contains a reader's next offset in a partition; None once the feed is closed.

        ``wanted`` has the next offset and the end of each partition that the reader still has to read. Raises
        ClientError.
        """
        place = wanted[tp][0]
        found = self._found(tp, place)
        if found is not None:
            return found
        with self._fetching:
            found = self._found(tp, place)  # another reader may have fetched it meanwhile
            if found is None and not self._is_closed:
                found = self._fetched(tp, wanted)
        return found

    def _found(self, tp: TopicPartition, place: int) -> Chunk | None:
        with self._keeping:
            if (tp, place) in self._kept:
                self._kept.move_to_end((tp, place))
                return self._kept[tp, place]
            kept = (each for each in self._kept.values() if each.tp == tp)
            return next((each for each in kept if each.first < place < each.next_offset), None)

    def _keep(self, chunk: Chunk) -> None:
        with self._keeping:
            before = self._kept.pop((chunk.tp, chunk.first), None)
            self._kept_bytes += chunk.size_bytes - (0 if before is None else before.size_bytes)
            self._kept[chunk.tp, chunk.first] = chunk
            while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= self._kept.popitem(last=False)[1].size_bytes

    def _fetched(self, tp: TopicPartition, wanted: Mapping[TopicPartition, tuple[int, int]]) -> Chunk | None:
        place = wanted[tp][0]
        lane = next((each for each in self._lanes if each.places.get(tp) == place), None)
        if lane is None:
            lane = Lane(self._config, wanted)
            self._lanes.append(lane)
            if len(self._lanes) > _LANES_MAX:
                self._lanes.pop(0).close()
        found = None
        try:
            for found in lane.chunks_until(tp):
                self._keep(found)
        except BaseException:
            lane.places.clear()
            raise
        finally:
            if not lane.places:
                self._lanes.remove(lane)
                lane.close()
        return found

    def _close_lanes(self) -> None:
        for lane in self._lanes:
            lane.close()
        self._lanes.clear()

    # The follower's callbacks

    def counted(self, partitions: Mapping[str, int]) -> None:
        """Do nothing: `begin` follows for each new partition."""

    def begin(self, tp: TopicPartition, offset: int) -> None:
        known = self.ends.get(tp)
        self.ends[tp] = offset
        if known is None:
            self._notify_readers()
            return
        with self._fetching, self._keeping:
            self._close_lanes()
            self._kept.clear()
            self._kept_bytes = 0
        for reader in list(self.readers):
            reader.restarted(tp, offset)

    def dropped(self, tp: TopicPartition) -> None:
        self.ends.pop(tp, None)
        for reader in list(self.readers):
            reader.restarted(tp, 0)

    def take(self, arrived: Mapping[TopicPartition, Committed]) -> None:
        is_more = False
        for tp, found in arrived.items():
            first = self.ends.get(tp, 0)
            if found.next_offset > first:
                self._keep(_chunk(tp, first, found.next_offset, found.spans))
                self.ends[tp] = found.next_offset
                is_more = True
        if is_more:
            self._notify_readers()

    def failed(self, error: BaseException) -> None:
        for reader in list(self.readers):
            reader.failed(error)

    def _notify_readers(self) -> None:
        for reader in list(self.readers):
            reader.arrived()


class Lane:
    """A fetch of the range between each partition's position and its end, for lagging readers.

    Readers at the same positions share a lane. It belongs to one thread at a time.
    """

    def __init__(self, config: ClientConfig, wanted: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self.places = {tp: first for tp, (first, _) in wanted.items()}
        """The first offset of each partition's next chunk; partitions read to their end are absent."""
        self._ends = {tp: end for tp, (_, end) in wanted.items()}
        self._cluster = Cluster(config)
        share = min(max(_FETCH_BYTES // len(wanted), _PARTITION_BYTES.start), _PARTITION_BYTES.stop)
        fetch = FetchConfig(
            isolation_level="read_committed", max_bytes=_FETCH_BYTES, max_partition_bytes=share
        )
        self._fetcher = Fetcher(self._cluster, fetch)
        self._arriving: Iterator[Fetched] = self._fetcher.read(
            PartitionRange(*tp, first, end) for tp, (first, end) in wanted.items()
        )

    def chunks_until(self, tp: TopicPartition) -> Iterator[Chunk]:
        """Yield the next chunks of any partitions, up to and including the next one of ``tp``.

        Raises ClientError.
        """
        while tp in self.places:
            found = next(self._arriving, None)
            if found is None:
                yield from [self._last(each) for each in sorted(self.places, key=lambda each: each == tp)]
                return
            at = found.range.topic_partition
            made = _chunk(at, self.places[at], 0, [found.batches])
            if made.records:  # otherwise the batches held only transaction markers
                made.next_offset = made.records[-1][2] + 1
                self._move(at, made.next_offset)
                yield made
                if at == tp:
                    return

    def _move(self, tp: TopicPartition, offset: int) -> None:
        if offset < self._ends[tp]:
            self.places[tp] = offset
        else:
            del self.places[tp]

    def _last(self, tp: TopicPartition) -> Chunk:
        """An empty chunk up to the partition's end, after the last record."""
        return _chunk(tp, self.places.pop(tp), self._ends[tp], [])

    def close(self) -> None:
        self._fetcher.close()
        self._cluster.close()
