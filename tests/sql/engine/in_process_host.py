"""A host that runs queries in threads of this process, over real topics, as Spark does."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import count

from penstock.client.admin.topics import NewTopic, create_topics, delete_topics
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.producing.producer import Producer, ProducerConfig
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.reading.follower import Committed, Follower, Start
from penstock.protocol.murmur2 import partition_for_key
from penstock.protocol.records import Record, decode_batches, encode_batch
from penstock.spark.observing.query_metrics import QueryMetrics
from penstock.sql.engine.ground.cluster_topics import topics_read
from penstock.sql.engine.reading.feeds import Feeds
from penstock.sql.engine.reading.local_tasks import LocalTasks
from penstock.sql.engine.reading.topic_reader import counts_of
from penstock.sql.engine.running.host import QueryActivity, QueryFailure, QueryState, QueryStatus
from penstock.topology.graph import Topology
from penstock.topology.records import Input, Output

_BEGIN_TIMEOUT_S = 60.0


class _Tail:
    """A thread that passes new records of topics to ``take``, and ends when that returns False.

    The records of one response are sorted by time. ``topics`` says of each topic whether to begin at its end.
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
        feeds = Feeds(config)
        self._next, _, topic_ids = feeds.bounds(topics)
        feeds.close()
        self._follower = Follower(
            config,
            FetchConfig(),
            topics,
            lambda topic, count: range(count),
            self,
            name=name,
            starts={tp: Start(topic_ids[tp.topic], offset) for tp, offset in self._next.items()},
        )

    def start(self) -> None:
        """Start; return once the offset from which each partition is read is determined."""
        self._follower.start()
        self._begun.wait(_BEGIN_TIMEOUT_S)

    def close(self) -> None:
        self._is_over = True
        self._follower.close()

    # Callbacks of the follower

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
                rows += [
                    (*tp, each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
                    for each in decode_batches(span)
                    if each.offset >= first
                ]
            self._next[tp] = max(first, found.next_offset)
        try:
            if rows and not self._take(_in_order(rows)):
                self._is_over = True
        except Exception as error:
            self._is_over = True
            self._failed(error)

    def failed(self, error: BaseException) -> None:
        self._begun.set()
        self._failed(error)


class _Running:
    """One running topology: its records, state and outputs."""

    def __init__(self, config: ClientConfig, query_id: str, topology: Topology, paused: bool) -> None:
        self.topology = topology
        self.state = QueryState(QueryStatus.PAUSED)
        self._cluster = Cluster(config)
        topics = topics_read(topology)
        written = {each.topic for part in topology.sub_topologies for each in part.sinks}
        counts = counts_of(self._cluster, {*topics, *(written - topology.repartitions.keys())})
        internal = topology.internal_topics(counts).values()
        self.internal = [each.name for each in internal]
        create_topics(self._cluster, [NewTopic(each.name, each.partitions, each.config) for each in internal])
        self._tasks = LocalTasks(topology, counts)
        self._producer = Producer(self._cluster, ProducerConfig())
        self._undealt = count()
        self._may_run = threading.Event()
        self.read: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self._is_over = False
        if not paused:
            self.resume()
        self._tail = _Tail(config, topics, self._take, self._failed, name=query_id)
        self._tail.start()

    def pause(self) -> None:
        self._may_run.clear()
        self.state = QueryState(QueryStatus.PAUSED)

    def resume(self) -> None:
        self._may_run.set()
        self.state = QueryState(QueryStatus.RUNNING)

    def close(self) -> None:
        self._is_over = True
        self._may_run.set()
        self._tail.close()
        self._producer.close()
        self._cluster.close()

    def _failed(self, error: BaseException) -> None:
        self.state = QueryState(QueryStatus.ERROR, (QueryFailure(time.time_ns() // 1_000_000, str(error)),))

    def _take(self, rows: list[Input]) -> bool:
        self._may_run.wait()
        if self._is_over:
            return False
        for output in [*self._tasks.process(rows), *self._tasks.tick()]:
            self._write(output)
        self._log_changes()
        self._producer.flush()
        self.read.update(row[0] for row in rows)
        return True

    def _write(self, output: Output) -> None:
        topic, partition, key, value, timestamp_ms, headers = output
        if partition is None:
            number = len(self._cluster.require_topics([topic])[topic].partitions)
            partition = next(self._undealt) % number if key is None else partition_for_key(key, number)
        self._send(topic, partition, Record(0, timestamp_ms, key, value, headers))
        self.written[topic] += 1

    def _log_changes(self) -> None:
        for (_, partition), task in self._tasks.tasks.items():
            specs = {spec.name: spec for spec in task.part.stores}
            for name, delta in task.take_deltas().items():
                if name in specs and specs[name].logged:
                    topic = self.topology.changelog_topic(name)
                    for place, stored in delta.items():
                        made = specs[name].to_changelog(place, stored)
                        if made is not None:
                            now_ms = time.time_ns() // 1_000_000
                            at_ms = now_ms if made.timestamp_ms is None else made.timestamp_ms
                            self._send(topic, partition, Record(0, at_ms, made.key, made.value))

    def _send(self, topic: str, partition: int, record: Record) -> None:
        self._producer.send(topic, partition, bytearray(encode_batch([record])))


class InProcessHost:
    """A host whose ``added`` and ``removed`` record the engine's calls in order.

    While ``lets_go`` is not set, removed queries keep running, as they do on Spark until a batch has ended.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._config = ClientConfig.from_properties({"bootstrap.servers": bootstrap_servers})
        self._running: dict[str, _Running] = {}
        self._leaving: dict[str, _Running] = {}
        self._lock = threading.Lock()
        self.lets_go = threading.Event()
        self.lets_go.set()
        self.added: list[str] = []
        self.removed: list[str] = []
        self.retained: list[set[str]] = []
        self.metrics = QueryMetrics()

    def add(self, query_id: str, topology: Topology, *, paused: bool = False) -> None:
        with self._lock:
            old = self._running.pop(query_id, None)
            if old is not None:
                old.close()
            self.added.append(query_id)
            self._running[query_id] = _Running(self._config, query_id, topology, paused)

    def pause(self, query_id: str) -> None:
        self._running[query_id].pause()

    def resume(self, query_id: str) -> None:
        self._running[query_id].resume()

    def remove(self, query_id: str) -> None:
        with self._lock:
            self.removed.append(query_id)
            self._leaving[query_id] = self._running.pop(query_id)
        if self.lets_go.is_set():
            self._let_go()

    def _let_go(self) -> None:
        with self._lock:
            leaving, self._leaving = self._leaving, {}
        for each in leaving.values():
            each.close()
        with Cluster(self._config) as cluster:
            delete_topics(cluster, [name for each in leaving.values() for name in each.internal])

    def wait_until_gone(self, timeout_s: float) -> Collection[str]:
        if self._leaving and not self.lets_go.wait(timeout_s):
            return list(self._leaving)
        self._let_go()
        return ()

    def wait_until_buried(self, timeout_s: float) -> Collection[str]:
        return self.wait_until_gone(timeout_s)

    def retain(self, query_ids: Collection[str]) -> None:
        self.retained.append(set(query_ids))

    def states(self) -> Mapping[str, QueryState]:
        return {query_id: each.state for query_id, each in self._running.copy().items()}

    def activity(self) -> Mapping[str, QueryActivity]:
        return {
            query_id: QueryActivity(each.read.copy(), each.written.copy())
            for query_id, each in self._running.copy().items()
        }

    def close(self) -> None:
        with self._lock:
            for each in (*self._running.values(), *self._leaving.values()):
                each.close()
            self._running.clear()


def _in_order(rows: list[Input]) -> list[Input]:
    """Sort by time, but keep records of one partition in the order of its offsets, as on Spark."""
    so_far: dict[tuple[str, int], int] = {}
    timed = []
    for row in sorted(rows, key=lambda row: row[:3]):
        place = row[:2]
        so_far[place] = max(row[3], so_far.get(place, row[3]))
        timed.append((so_far[place], row))
    timed.sort(key=lambda each: each[0])
    return [row for _, row in timed]
