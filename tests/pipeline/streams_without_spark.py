"""The parts of an application that Spark runs, without Spark and without a broker: topics are lists."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from penstock.arrow.layout import HEADERS
from penstock.client.connections.metadata import TopicPartition
from penstock.protocol.murmur2 import partition_for_key
from penstock.spark.sink.options import parse_sink
from penstock.spark.source.options import parse_streaming
from penstock.spark.streams.blocks.dropped import dropped_in
from penstock.spark.streams.blocks.layout import LAYOUT, block_of
from penstock.spark.streams.blocks.merging import arrange
from penstock.spark.streams.blocks.packing import Block, Kind, tick
from penstock.spark.streams.planning.grouping import partition_of
from penstock.spark.streams.planning.plan import StreamsPlan, plan_from_text
from penstock.spark.streams.state.times import note_of_times, times_block
from penstock.spark.streams.tasks.map_side import MapSide
from penstock.spark.streams.tasks.runner import TaskRunner
from penstock.streams import App
from penstock.topology.records import Headers

Row = tuple[bytes | None, bytes | None, int, Headers]

SERVERS = {"bootstrap.servers": "127.0.0.1:9"}


class MemoryPages:
    """The state store of one partition."""

    def __init__(self) -> None:
        self.pages: dict[bytes, bytes] = {}
        self.read = 0

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.read += len(keys)
        return [self.pages.get(key) for key in keys]

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        self.pages.update(items)

    def remove(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            del self.pages[key]

    def segments(self, store: str) -> list[bytes]:
        return sorted(key for key in self.pages if key.startswith(store.encode() + b"\0"))


def plan_of(app: App, partitions: dict[str, int], shuffle_partitions: int = 2) -> StreamsPlan:
    """The plan as a worker receives it, after it was serialized."""
    topology = app.topology()
    plan = StreamsPlan(
        topology,
        partitions | topology.partition_counts(partitions),
        shuffle_partitions,
        parse_streaming(SERVERS | {"subscribe": "any"}),
        parse_sink(SERVERS),
    )
    return plan_from_text(plan.to_text())


class Simulation:
    """The topics, the state, and workers: any of them runs a partition's batch, sometimes two of them."""

    def __init__(
        self, app: App, partitions: dict[str, int], rng: random.Random | None = None, workers: int = 1
    ) -> None:
        self.app = app
        self._partitions = partitions
        self.plan = plan_of(app, partitions)
        self.logs: dict[tuple[str, int], list[Row]] = {}
        self.read: dict[tuple[str, int], int] = {}
        self.times: dict[TopicPartition, str] = {}
        self.pages: dict[int, MemoryPages] = {}
        self._rng = rng or random.Random(0)
        self._workers = [TaskRunner(self.plan) for _ in range(workers)]
        self._map_sides = [MapSide(self.plan) for _ in range(workers)]
        self.clock_ms = 1_000_000
        self.dropped: Counter[str] = Counter()

    def write(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> None:
        count = self.plan.partition_counts[topic]
        partition = 0 if key is None else partition_for_key(key, count)
        self.logs.setdefault((topic, partition), []).append((key, value, timestamp_ms, headers))

    def written(self, topic: str) -> list[tuple[bytes | None, bytes | None, int]]:
        """The records of all partitions of a topic, one partition after the other."""
        logs = sorted((number, log) for (name, number), log in self.logs.items() if name == topic)
        return [row[:3] for _, log in logs for row in log]

    def run(self, max_rows: int = 1 << 30) -> None:
        """Run batches until nothing is left to read."""
        while self.batch(max_rows):
            pass

    def batch(self, max_rows: int = 1 << 30) -> bool:
        rows: list[tuple[int, bytes]] = []
        topics = self.plan.part_of
        has_read = False
        for (topic, partition), log in sorted(self.logs.items()):
            start = self.read.get((topic, partition), 0)
            if topic in topics and start < len(log):
                end = min(len(log), start + self._rng.randint(1, max_rows))
                self.read[topic, partition] = end
                has_read = True
                rows += self._map(topic, partition, log, start, end)
        self.reduce(rows)
        return has_read

    def pass_time(self, by_ms: int) -> None:
        """Run a batch without records, for timers."""
        self.clock_ms += by_ms
        count = max(self.plan.task_counts[part.id] for part in self.plan.tasks_behind)
        self.reduce([(self.plan.groups[p], tick(p, self.clock_ms).pack()) for p in range(count)])

    def restored(self) -> Simulation:
        """A simulation that continues from here with a new checkpoint, after its first batch."""
        after = Simulation(self.app, self._partitions, self._rng, len(self._workers))
        after.logs, after.read, after.times, after.clock_ms = self.logs, self.read, self.times, self.clock_ms
        application = self.plan.topology.application
        blocks = [
            block_of(_arrow(topic, partition, log, 0, len(log)), Kind.RESTORE, 0)
            for (topic, partition), log in self.logs.items()
            if topic in self.plan.store_of_changelog
        ]
        blocks += [times_block(application, place, metadata, 0) for place, metadata in self.times.items()]
        after.reduce([(self.plan.groups[block.partition], block.pack()) for block in blocks])
        return after

    def _map(
        self, topic: str, partition: int, log: list[Row], start: int, end: int
    ) -> Iterable[tuple[int, bytes]]:
        cut = self._rng.randint(start, end)
        for first, last in ((start, cut), (cut, end)):
            if first < last:
                map_side = self._rng.choice(self._map_sides)
                yield from map_side.rows(_arrow(topic, partition, log, first, last), self.clock_ms)

    def reduce(self, rows: list[tuple[int, bytes]]) -> None:
        groups: dict[int, list[bytes]] = {}
        for group, data in rows:
            groups.setdefault(group, []).append(data)
        if not self.plan.has_shuffle:
            for packed in groups.values():
                self._publish(map(Block.unpack, packed))
            return
        sent: dict[int, list[bytes]] = {}
        for group, packed in groups.items():
            self._rng.shuffle(packed)
            pages = self.pages.setdefault(group, MemoryPages())
            if len(self._workers) > 1 and self._rng.random() < 0.3:
                lost = MemoryPages()
                lost.pages = dict(pages.pages)
                self._rng.choice(self._workers).run(partition_of(group), packed, lost)
            for goes_to, data in self._rng.choice(self._workers).run(partition_of(group), packed, pages):
                sent.setdefault(goes_to, []).append(data)
        for packed in sent.values():
            self._rng.shuffle(packed)
            self._publish(arrange(map(Block.unpack, packed)))

    def _publish(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            if block.kind is Kind.TIMES:
                _, place, self.times[place] = note_of_times(block)
            if block.kind is Kind.DROPPED:
                self.dropped.update(dropped_in(block))
            if block.kind is not Kind.OUTPUTS:
                continue
            numbers = np.full(block.rows, -1) if block.partitions is None else block.partitions
            for row, chosen in zip(block.inputs(), numbers.tolist(), strict=True):
                topic, _, _, timestamp_ms, key, value, headers = row
                count = self.plan.partition_counts.get(topic, 1)
                hashed = 0 if key is None else partition_for_key(key, count)
                at = (topic, chosen if chosen >= 0 else hashed)
                self.logs.setdefault(at, []).append((key, value, timestamp_ms, headers))


def _arrow(topic: str, partition: int, log: list[Row], start: int, end: int) -> pa.RecordBatch:
    keys, values, times, headers = zip(*log[start:end], strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array([topic] * len(keys)),
            pa.array([partition] * len(keys), pa.int32()),
            pa.array(range(start, end), pa.int64()),
            pa.array(times, pa.int64()).cast(pa.timestamp("ms", "UTC")),
            pa.array([[{"key": k, "value": v} for k, v in row] or None for row in headers], HEADERS),
        ],
        schema=LAYOUT.schema,
    )
