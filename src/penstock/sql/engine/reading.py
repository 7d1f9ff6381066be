"""Committed records of topics: up to where they end now, or on and on as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.fetcher import FetchConfig, Fetcher, PartitionRange
from penstock.client.follower import Committed, Follower
from penstock.client.metadata import TopicPartition
from penstock.client.offsets import EARLIEST, LATEST, IsolationLevel, list_offsets
from penstock.protocol.records import Record, decode_batches
from penstock.topology.context import Input
from penstock.topology.graph import Source, Topology

_BEGIN_TIMEOUT_S = 10.0
_FETCH = FetchConfig(isolation_level="read_committed")
#: What is followed is decoded as it is fetched, and held for as long as its reader is slow.
_FOLLOWED = FetchConfig(isolation_level="read_committed", max_bytes=2 << 20, max_partition_bytes=256 << 10)


def counts_of(cluster: Cluster, topics: Collection[str]) -> dict[str, int]:
    """How many partitions each topic has. Raises UnknownPartition."""
    return {name: len(each.partitions) for name, each in cluster.require_topics(topics).items()}


def topics_read(topology: Topology) -> dict[str, bool]:
    """The topics that a topology reads, and whether it begins at their end."""
    return {
        topic: node.reset == "latest"
        for node in topology.nodes.values()
        if isinstance(node, Source)
        for topic in node.topics
        if topic not in topology.repartitions
    }


def read_present(config: ClientConfig, topics: Collection[str]) -> Iterator[list[Input]]:
    """What the topics hold now, some records at a time: in order within a partition. Raises ClientError."""
    with Cluster(config) as cluster:
        numbers = counts_of(cluster, topics)
        every = [TopicPartition(name, number) for name, count in numbers.items() for number in range(count)]
        first = list_offsets(cluster, dict.fromkeys(every, EARLIEST))
        end = list_offsets(cluster, dict.fromkeys(every, LATEST), IsolationLevel.READ_COMMITTED)
        ranges = [PartitionRange(*tp, first[tp].offset, end[tp].offset) for tp in every]
        fetcher = Fetcher(cluster, _FETCH)
        try:
            for found in fetcher.read(ranges):
                tp, wanted = found.range.topic_partition, range(found.range.start, found.range.end)
                records = decode_batches(found.batches)
                yield [_input(tp, each) for each in records if each.offset in wanted]
        finally:
            fetcher.close()


def _input(tp: TopicPartition, record: Record) -> Input:
    headers = tuple((name, value) for name, value in record.headers)
    return (tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value, headers)


class Tail:
    """A thread that gives the records of topics to ``take`` as they come, those of one answer in the order of
    their times. ``topics`` says of each whether to begin at its end. ``take`` returns False to end it;
    ``failed`` hears what went wrong for good.
    """

    def __init__(
        self,
        config: ClientConfig,
        topics: Mapping[str, bool],
        take: Callable[[list[Input]], bool],
        failed: Callable[[BaseException], None],
        *,
        name: str,
    ) -> None:
        self._take = take
        self._failed = failed
        self._begun = threading.Event()
        self._is_over = False
        self._next: dict[TopicPartition, int] = {}
        from_end = [topic for topic, is_from_end in topics.items() if is_from_end]
        self._follower = Follower(
            config, _FOLLOWED, topics, lambda topic, count: range(count), self, name=name, from_end=from_end
        )

    def start(self) -> None:
        """Returns when it is settled where each partition is read from."""
        self._follower.start()
        self._begun.wait(_BEGIN_TIMEOUT_S)

    def close(self) -> None:
        self._is_over = True
        self._follower.close()

    # What the follower tells

    def counted(self, partitions: Mapping[str, int]) -> None:
        self._begun.set()

    def begin(self, tp: TopicPartition, offset: int) -> None:
        self._next[tp] = offset

    def dropped(self, tp: TopicPartition) -> None:
        self._next.pop(tp, None)

    def take(self, arrived: Mapping[TopicPartition, Committed]) -> None:
        if self._is_over:
            return
        rows: list[Input] = []
        for tp, found in arrived.items():
            first = self._next.get(tp, 0)
            for span in found.spans:
                rows += [_input(tp, each) for each in decode_batches(span) if each.offset >= first]
            self._next[tp] = max(first, found.next_offset)
        rows.sort(key=lambda row: (row[3], row[0], row[1], row[2]))
        try:
            if rows and not self._take(rows):
                self._is_over = True
        except Exception as error:
            self._is_over = True
            self._failed(error)

    def failed(self, error: BaseException) -> None:
        self._begun.set()
        self._failed(error)
