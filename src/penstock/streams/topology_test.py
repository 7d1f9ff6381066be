"""TopologyTest: runs an application in milliseconds, without a broker and without Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from penstock.protocol.murmur2 import partition_for_key
from penstock.streams.app import App
from penstock.streams.durations import Duration, Time, duration_ms, time_ms
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Sink, Source, SubTopology, Topology
from penstock.topology.records import NO_HEADERS, Headers, Output, Record
from penstock.topology.serdes import Serde
from penstock.topology.stores.global_tables import follow
from penstock.topology.tasks.task import Task


class TopologyTest:
    """A test driver: it feeds records to an application, advances time, and reads its outputs and stores.

    It drives the same tasks that run on Spark, record by record. Each record, together with everything that
    it causes behind repartition topics, is finished before the next one starts. Every result can be read;
    Spark too writes each update.

    Args:
        app: the application, with all operations added.
        partitions: the number of partitions of the topics: one number for all, or a mapping by topic (topics
            that it does not list have 1).
        start: the initial time of day, and the timestamp of records that are piped without one.

    >>> from penstock.streams import App, TopologyTest, string, long
    >>> app = App("clicks", key=string, value=long)
    >>> app.stream("clicks").group_by_key().count(store="counts").to_stream().to("counts-by-user")
    >>> test = TopologyTest(app)
    >>> test.input("clicks").pipe("ann", 7)
    >>> test.input("clicks").pipe("ann", 8, timestamp=1000)
    >>> test.output("counts-by-user").read_all()
    [Record('ann', 1, 0), Record('ann', 2, 1000)]
    >>> test.store("counts").get("ann")
    2
    """

    def __init__(self, app: App, *, partitions: int | Mapping[str, int] = 1, start: Time = 0) -> None:
        self._topology: Topology = app.topology()
        self._wall_clock_ms = time_ms(start)
        by_topic = {} if isinstance(partitions, int) else dict(partitions)
        usual = partitions if isinstance(partitions, int) else 1
        read = {
            topic
            for part in self._topology.sub_topologies
            for topic in part.source_topics
            if topic not in self._topology.repartitions
        }
        counts = self._topology.partition_counts({topic: by_topic.get(topic, usual) for topic in read})
        written = {
            node.topic
            for node in self._topology.nodes.values()
            if isinstance(node, Sink) and isinstance(node.topic, str)
        }
        for topic in map(self._topology.topic, written):
            counts.setdefault(topic, by_topic.get(topic, usual))
        self._counts = counts
        self._usual_count = usual
        self._parts = self._topology.source_topics()
        self._tasks: dict[tuple[int, int], Task] = {}
        self._global_maps = {table.topic: table.store.new_map() for table in self._topology.globals.values()}
        self._global_stores = {
            table.store.name: table.store.open(self._global_maps[table.topic])
            for table in self._topology.globals.values()
        }
        self._ends: dict[tuple[str, int], int] = {}
        self._written: dict[str, deque[Output]] = {}
        self._undealt = 0
        for part in self._topology.sub_topologies:
            for partition in range(self._topology.task_count(part, counts)):
                self._task(part, partition)

    # in and out

    def input(
        self, topic: str, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None
    ) -> InputTopic:
        """Return a topic to write to. Serdes default to those of the topic's source.

        Raises TopologyError if no stream or table reads the topic.
        """
        if topic in self._topology.globals:
            spec = self._topology.globals[topic].store
            return InputTopic(self, self._pipe, topic, key or spec.key, value or spec.value)
        for node in self._topology.nodes.values():
            if isinstance(node, Source) and topic in map(self._topology.topic, node.topics):
                return InputTopic(self, self._pipe, topic, key or node.key, value or node.value)
        raise TopologyError(
            f"no stream or table reads topic {topic}; topics that are read: {sorted(self._parts)}"
        )

    def output(
        self, topic: str, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None
    ) -> OutputTopic:
        """Return a topic to read from. Serdes default to those of its sink, or else records are bytes."""
        for node in self._topology.nodes.values():
            if not isinstance(node, Sink) or not isinstance(node.topic, str):
                continue
            if self._topology.topic(node.topic) == topic:
                key, value = key or node.key, value or node.value
        return OutputTopic(self._written.setdefault(topic, deque()), key, value)

    def store(self, name: str, partition: int | None = None) -> Any:
        """Return the store of this name. ``partition`` may be omitted if the store has only one."""
        if name in self._global_stores:
            return self._global_stores[name]
        found = {
            number: task.stores[name] for (_, number), task in self._tasks.items() if name in task.stores
        }
        if not found:
            known = sorted({store for task in self._tasks.values() for store in task.stores})
            raise TopologyError(f"no store is named {name}; the stores are {known}")
        if partition is None and len(found) > 1:
            raise TopologyError(f"store {name} has {len(found)} partitions: expected partition=…")
        return found[partition or 0]

    # time

    @property
    def now_ms(self) -> int:
        """The time of day, in milliseconds since 1970."""
        return self._wall_clock_ms

    def advance_time(self, by: Duration) -> None:
        """Advance the time of day, which fires wall-clock timers."""
        self._wall_clock_ms += duration_ms(by)
        self._tick(None)

    def advance_stream_time(self, to: Time) -> None:
        """Advance stream time in every task without a record: windows close, and stream-time timers fire."""
        self._tick(time_ms(to))

    def _tick(self, stream_time_ms: int | None) -> None:
        for task in self._tasks.values():
            task.tick(stream_time_ms=stream_time_ms, wall_clock_ms=self._wall_clock_ms)
            self._deliver(task.take_outputs())

    # running

    def _pipe(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        if topic not in self._counts:
            self._counts[topic] = self._usual_count
        count = self._counts[topic]
        if partition is None:
            if key is None:
                partition, self._undealt = self._undealt % count, self._undealt + 1
            else:
                partition = partition_for_key(key, count)
        if not 0 <= partition < count:
            raise TopologyError(f"topic {topic} has partitions 0 to {count - 1}, not {partition}")
        offset = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = offset + 1
        row = (topic, partition, offset, timestamp_ms, key, value, headers)
        if topic in self._global_maps:
            follow(self._global_maps[topic], [row])
        part = self._parts.get(topic)
        if part is not None:
            task = self._task(part, partition)
            task.process(row)
            self._deliver(task.take_outputs())

    def _deliver(self, outputs: list[Output]) -> None:
        for output in outputs:
            topic, partition, key, value, timestamp_ms, headers = output
            self._written.setdefault(topic, deque()).append(output)
            self._pipe(topic, partition, key, value, timestamp_ms, headers)

    def _task(self, part: SubTopology, partition: int) -> Task:
        at = (part.id, partition)
        if at not in self._tasks:
            self._tasks[at] = Task(
                self._topology,
                part,
                partition,
                global_stores=self._global_stores,
                partition_counts=self._counts,
                wall_clock_ms=self._wall_clock_ms,
            )
        return self._tasks[at]


class InputTopic:
    """A topic that the application reads."""

    def __init__(
        self,
        test: TopologyTest,
        pipe: Callable[[str, int | None, bytes | None, bytes | None, int, Headers], None],
        topic: str,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
    ) -> None:
        self._test = test
        self._pipe = pipe
        self._topic = topic
        self._key = key
        self._value = value

    def pipe(
        self,
        key: Any,
        value: Any,
        *,
        timestamp: Time | None = None,
        headers: Headers = NO_HEADERS,
        partition: int | None = None,
    ) -> None:
        """Let the application process one record. Raises RecordFailed if it fails and the policy stops."""
        self.pipe_bytes(
            None if key is None else self._key.serialize(key) if self._key else key,
            None if value is None else self._value.serialize(value) if self._value else value,
            timestamp=timestamp,
            headers=headers,
            partition=partition,
        )

    def pipe_bytes(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp: Time | None = None,
        headers: Headers = NO_HEADERS,
        partition: int | None = None,
    ) -> None:
        """Let the application process one record of raw bytes, which need not be valid for any serde."""
        timestamp_ms = self._test.now_ms if timestamp is None else time_ms(timestamp)
        self._pipe(self._topic, partition, key, value, timestamp_ms, headers)


class OutputTopic:
    """A topic that the application writes. Reading removes records from the front."""

    def __init__(self, records: deque[Output], key: Serde[Any] | None, value: Serde[Any] | None) -> None:
        self._records = records
        self._key = key
        self._value = value

    def __len__(self) -> int:
        """The number of unread records."""
        return len(self._records)

    def read(self) -> Record[Any, Any] | None:
        """Return the next record, or None."""
        if not self._records:
            return None
        _, _, key, value, timestamp_ms, headers = self._records.popleft()
        return Record(_read(self._key, key), _read(self._value, value), timestamp_ms, headers)

    def read_all(self) -> list[Record[Any, Any]]:
        """Return all unread records."""
        found = []
        while (record := self.read()) is not None:
            found.append(record)
        return found

    def read_values(self) -> list[tuple[Any, Any]]:
        """Return key and value of all unread records."""
        return [(record.key, record.value) for record in self.read_all()]

    def read_table(self) -> dict[Any, Any]:
        """Return the last value of each key among the unread records, without deleted keys."""
        table: dict[Any, Any] = {}
        for record in self.read_all():
            if record.value is None:
                table.pop(record.key, None)
            else:
                table[record.key] = record.value
        return table


def _read(serde: Serde[Any] | None, data: bytes | None) -> Any:
    return data if serde is None or data is None else serde.deserialize(data)
