"""Topics as all who read them in this process share them: what one has fetched and decoded, all are given.

A topic that somebody reads is followed once, by a `Feed`, from where it ends. Who reads it has a place of his
own, and takes a `Chunk` from there: one that came lately, or one that is fetched now, since he is behind. So
the log is the buffer of who reads slowly, and nothing is kept for him.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.fetcher import FetchConfig, Fetched, Fetcher, PartitionRange
from penstock.client.follower import Committed, Follower
from penstock.client.metadata import TopicPartition
from penstock.client.offsets import EARLIEST, LATEST, IsolationLevel, list_offsets
from penstock.protocol.batch import Buffer
from penstock.protocol.records import Record, decode_batches
from penstock.topology.common_reading import CommonReading, Read
from penstock.topology.context import Input

Offsets = dict[TopicPartition, int]

#: Of each topic, the records that came last: whoever is not far behind takes them from here.
KEPT_BYTES: Final = 16 << 20
#: What a record's objects take beside its bytes.
_RECORD_OVERHEAD_BYTES: Final = 400
_CHUNK_OVERHEAD_BYTES: Final = 1_000
_LANES_MAX: Final = 4
#: How long one attempt to fetch may take; who waits for it holds a thread.
_ATTEMPT_MS: Final = 1_000
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
        """What the records say: found out once for all that read alike."""
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


class Follows(Protocol):
    """Who reads a topic hears of it here, in the feed's thread."""

    def arrived(self) -> None:
        """There is more to read."""

    def begun_anew(self, tp: TopicPartition, offset: int) -> None:
        """What had been read of a partition is not its log any more."""

    def failed(self, error: BaseException) -> None:
        """The topic can't be followed."""


class Feeds:
    """The feeds of one cluster, for all threads."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._cluster = Cluster(config)
        self._asking = threading.Lock()
        self._feeds: dict[str, Feed] = {}
        self._lock = threading.Lock()

    def bounds(self, topics: Mapping[str, bool]) -> tuple[Offsets, Offsets]:
        """Return where to read each partition of some topics from, and where its committed records end now.
        ``topics`` says which are read from their end, not from their beginning. Raises ClientError.
        """
        with self._asking:
            self._cluster.refresh(topics)
            found = self._cluster.require_topics(topics)
            partitions = [
                TopicPartition(name, number) for name, each in found.items() for number in each.partitions
            ]
            ends = self._listed(partitions, LATEST)
            begins = self._listed([tp for tp in partitions if not topics[tp.topic]], EARLIEST)
        return ends | begins, ends

    def _listed(self, partitions: Collection[TopicPartition], timestamp: int) -> Offsets:
        asked = dict.fromkeys(partitions, timestamp)
        listed = list_offsets(self._cluster, asked, IsolationLevel.READ_COMMITTED)
        return {tp: each.offset for tp, each in listed.items()}

    def join(self, topics: Collection[str], reader: Follows) -> dict[str, Feed]:
        """The feeds of some topics, until the reader does `leave` them."""
        with self._lock:
            for name in topics:
                feed = self._feeds.get(name)
                if feed is None:
                    feed = self._feeds[name] = Feed(self._config, name)
                feed.readers.add(reader)
            return {name: self._feeds[name] for name in topics}

    def leave(self, reader: Follows) -> None:
        """A feed that nobody reads ends."""
        left: list[Feed] = []
        with self._lock:
            for name, feed in list(self._feeds.items()):
                feed.readers.discard(reader)
                if not feed.readers:
                    left.append(self._feeds.pop(name))
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
    """One topic. `Feeds` says who reads it."""

    def __init__(self, config: ClientConfig, topic: str) -> None:
        self._config = replace(config, api_timeout_ms=min(config.api_timeout_ms, _ATTEMPT_MS))
        self._topic = topic
        self.readers: set[Follows] = set()
        #: Where the committed records of each partition end, as far as it is known.
        self.ends: dict[TopicPartition, int] = {}
        self._kept: OrderedDict[tuple[TopicPartition, int], Chunk] = OrderedDict()
        self._kept_bytes = 0
        self._keeping = threading.Lock()
        self._lanes: list[Lane] = []
        self._fetching = threading.Lock()
        self._follower: Follower | None = None
        self._is_closed = False

    def start(self) -> None:
        """Follow the topic, if it is not followed yet."""
        with self._fetching:
            if self._follower is None and not self._is_closed:
                self._follower = Follower(
                    self._config,
                    _FETCH,
                    [self._topic],
                    lambda topic, count: range(count),
                    self,
                    name=f"{self._topic} feed",
                    from_end=[self._topic],
                )
                self._follower.start()

    def close(self) -> None:
        """Nothing waits for the thread: it ends with the fetch that is under way."""
        with self._fetching:
            self._is_closed = True
            self._close_lanes()
        if self._follower is not None:
            self._follower.stop()

    # For readers

    def chunk(self, tp: TopicPartition, wanted: Mapping[TopicPartition, tuple[int, int]]) -> Chunk | None:
        """The records of a partition from a reader's place on; None once the feed is closed.

        ``wanted``: of all the partitions that he will ask for, where he is and where they end. Raises
        ClientError.
        """
        place = wanted[tp][0]
        found = self._found(tp, place)
        if found is not None:
            return found
        with self._fetching:
            found = self._found(tp, place)  # somebody else may have fetched it meanwhile
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

    # What the follower tells

    def counted(self, partitions: Mapping[str, int]) -> None:
        """New partitions begin by themselves."""

    def begin(self, tp: TopicPartition, offset: int) -> None:
        known = self.ends.get(tp)
        self.ends[tp] = offset
        if known is None:
            self._tell()
            return
        with self._fetching, self._keeping:
            self._close_lanes()
            self._kept.clear()
            self._kept_bytes = 0
        for reader in list(self.readers):
            reader.begun_anew(tp, offset)

    def dropped(self, tp: TopicPartition) -> None:
        self.ends.pop(tp, None)

    def take(self, arrived: Mapping[TopicPartition, Committed]) -> None:
        is_more = False
        for tp, found in arrived.items():
            first = self.ends.get(tp, 0)
            if found.next_offset > first:
                self._keep(_chunk(tp, first, found.next_offset, found.spans))
                self.ends[tp] = found.next_offset
                is_more = True
        if is_more:
            self._tell()

    def failed(self, error: BaseException) -> None:
        for reader in list(self.readers):
            reader.failed(error)

    def _tell(self) -> None:
        for reader in list(self.readers):
            reader.arrived()


class Lane:
    """Fetches what lies between places of partitions and their ends, for whoever is at these places. Belongs
    to one thread at a time.
    """

    def __init__(self, config: ClientConfig, wanted: Mapping[TopicPartition, tuple[int, int]]) -> None:
        #: Where the next chunk of each partition begins; those that are read to their end are left out.
        self.places = {tp: first for tp, (first, _) in wanted.items()}
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
        """The next chunks of any partitions, up to the next one of this. Raises ClientError."""
        while tp in self.places:
            found = next(self._arriving, None)
            if found is None:
                yield from [self._last(each) for each in sorted(self.places, key=lambda each: each == tp)]
                return
            at = found.range.topic_partition
            made = _chunk(at, self.places[at], 0, [found.batches])
            if made.records:  # else markers of transactions alone
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
        """No records are left up to the end."""
        return _chunk(tp, self.places.pop(tp), self._ends[tp], [])

    def close(self) -> None:
        self._fetcher.close()
        self._cluster.close()
