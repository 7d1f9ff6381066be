"""The source of the query: a ``penstock`` source whose tasks pack the records, plus data for each batch.

Its offsets are those of `penstock.spark.source.stream`, with three more keys, which begin with an @ so that
other readers of offsets skip them:

    @clock     the wall-clock time of the batch that ends here; it stays the same if the batch runs again
    @restore   the offsets up to which changelogs were read in the first batch, which does nothing else
    @tables    the offsets up to which the workers read global tables for this batch, with the topics' ids
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from penstock.client.admin.topics import delete_records
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import ConsumerGroup
from penstock.client.reading.fetcher import PartitionRange
from penstock.client.reading.offsets import EARLIEST, LATEST, IsolationLevel, list_offsets
from penstock.spark.source.checkpointed import Checkpointed, JsonOffsets, ids_of
from penstock.spark.source.offsets import Offsets, from_json, to_json
from penstock.spark.source.planning import share_whole
from penstock.spark.source.read import read_ranges
from penstock.spark.source.stream import StreamReader
from penstock.spark.source.tail import Ends
from penstock.spark.streams.blocks.layout import block_of
from penstock.spark.streams.blocks.packing import Kind, tick
from penstock.spark.streams.blocks.rows import ROWS, PackedRow, row_batches
from penstock.spark.streams.planning.plan import StreamsPlan, plan_from_text
from penstock.spark.streams.state.times import times_block
from penstock.spark.streams.tasks.worker import Worker, worker_for

CLOCK: Final = "@clock"
RESTORE: Final = "@restore"
TABLES: Final = "@tables"
_OURS: Final = (CLOCK, RESTORE, TABLES)
PURGE_INTERVAL_S: Final = 30.0
"""The interval of deletions, as in Kafka Streams (``repartition.purge.interval.ms``)."""


_TRANSACTION_POLL_S: Final = 0.05
_TRANSACTION_SLACK_S: Final = 10.0  # a coordinator checks for expired transactions every ten seconds


class ChangelogInUse(RuntimeError):
    """Another process writes to the application's changelogs."""


class Work(NamedTuple):
    """The work of one task in a batch.

    ``note`` has the offsets of global tables as JSON; ``times`` has metadata with the times of tasks
    (`penstock.spark.streams.state.times`).
    """

    clock_ms: int
    note: str
    ranges: tuple[PartitionRange, ...] = ()
    restored: tuple[PartitionRange, ...] = ()
    times: tuple[tuple[TopicPartition, str], ...] = ()
    ticks: bool = False


class WorkPartition(InputPartition):
    value: Work


class StreamsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one application, whose plan is passed as text."""

    def __init__(self, plan: str) -> None:
        self._plan_text = plan
        self._driver: SourceDriver | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_plan_text": self._plan_text, "_driver": None}

    @property
    def _here(self) -> SourceDriver:
        if self._driver is None:
            self._driver = SourceDriver(plan_from_text(self._plan_text))
        return self._driver

    def initialOffset(self) -> JsonOffsets:
        return self._here.inner.initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._here.inner.getDefaultReadLimit()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:
        return self._here.latest(start, limit)

    def reportLatestOffset(self) -> JsonOffsets | None:
        return self._here.inner.reportLatestOffset()

    def prepareForTriggerAvailableNow(self) -> None:
        self._here.stop_when_drained()

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        return [WorkPartition(work) for work in self._here.plan_batch(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return row_batches(rows_of(worker_for(self._plan_text), partition.value), ROWS)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()


class SourceDriver:
    """The source of one application, in the driver's process that Spark asks for offsets."""

    def __init__(self, plan: StreamsPlan, ends: Ends | None = None) -> None:
        self.plan = plan
        self.inner = StreamReader(plan.source, ends)
        self._cluster = Cluster(plan.source.client)
        topology = plan.topology
        self._repartitions = frozenset(map(topology.topic, topology.repartitions)) - plan.shuffled_topics
        self._final: Offsets | None = None
        self._was_asked = False
        self._purger = _Purger(plan) if self._repartitions else None

    def close(self) -> None:
        self.inner.stop()
        self._cluster.close()
        if self._purger is not None:
            self._purger.close()

    def stop_when_drained(self) -> None:
        """Stop after the records that exist now, and those that they cause in repartition topics."""
        self.inner.prepareForTriggerAvailableNow()
        self._final = from_json(self.inner.reportLatestOffset() or {})

    def latest(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:
        plain = _plain(start)
        is_first = RESTORE not in start
        if is_first:
            restored = self._changelog_ends()
            if restored:
                return self._with_clock(plain, start, restored)
        if self._purger is not None:
            self._purger.completed(from_json(plain), self._repartitions)
        within = self._within_final(plain)
        end = self.inner.latestOffset(within, limit)
        if not self._was_asked and not is_first and end == within:
            # The inner reader begins with an empty batch that fixes its start; restoring has done that.
            end = self.inner.latestOffset(within, limit)
        self._was_asked = True
        if self._final is not None:
            end = self._drained(plain, end)
        is_idle = end == plain and not is_first
        if is_idle and (self._final is not None or not self._is_tick_due(start)):
            return start
        return self._with_clock(end, start, {})

    def _with_clock(self, end: JsonOffsets, start: JsonOffsets, restored: Offsets) -> JsonOffsets:
        """Add the other keys, always in the same order, because Spark compares offsets as text."""
        now_ms = max(time.time_ns() // 1_000_000, self._clock_ms(start))
        whole: JsonOffsets = dict(end)
        whole[RESTORE] = start.get(RESTORE, to_json(restored))
        if self.plan.topology.globals:
            whole[TABLES] = self._table_ends().to_json()
        whole[CLOCK] = {"ms": now_ms}
        return whole

    @staticmethod
    def _clock_ms(offsets: JsonOffsets) -> int:
        return int(offsets.get(CLOCK, {}).get("ms", 0))

    def _is_tick_due(self, start: JsonOffsets) -> bool:
        return (
            bool(self.plan.clocked)
            and time.time_ns() // 1_000_000 - self._clock_ms(start) >= self.plan.tick_ms
        )

    # Reading to the end of the existing records

    def _within_final(self, start: JsonOffsets) -> JsonOffsets:
        """The start limited to the final offsets of repartition topics, at which the inner reader stops."""
        if self._final is None:
            return start
        clamped = dict(start)
        for topic in self._repartitions & clamped.keys():
            clamped[topic] = {
                number: min(offset, self._final.get(TopicPartition(topic, int(number)), offset))
                for number, offset in clamped[topic].items()
            }
        return clamped

    def _drained(self, start: JsonOffsets, end: JsonOffsets) -> JsonOffsets:
        if not self._repartitions:
            return end
        moved = dict(end)
        now = to_json(self._ends(self._repartitions))
        for topic in self._repartitions & moved.keys():
            moved[topic] = {
                number: max(offset, int(start.get(topic, {}).get(number, 0)), now[topic].get(number, 0))
                for number, offset in moved[topic].items()
            }
        return moved

    # Offsets of topics that the query does not read itself

    def _changelog_ends(self) -> Offsets:
        """Return the changelogs' ends if there is anything to restore.

        This is only called without a checkpoint, which would hold the state. Only the application writes to
        its changelogs, so an open transaction was left behind by a dead driver, or its end is in progress: it
        may contain changes that the group's offsets already include.
        """
        changelogs = self.plan.store_of_changelog
        give_up_s = time.monotonic() + self.plan.sink.transaction.timeout_ms / 1000 + _TRANSACTION_SLACK_S
        while (ends := self._ends(changelogs)) != (
            whole := self._ends(changelogs, IsolationLevel.READ_UNCOMMITTED)
        ):
            if time.monotonic() > give_up_s:
                behind = sorted(tp for tp, end in whole.items() if ends.get(tp) != end)
                raise ChangelogInUse(
                    f"a transaction is open in the changelogs {', '.join(map(str, behind))}: expected none, "
                    f"because no other instance of {self.plan.topology.application} may run"
                )
            time.sleep(_TRANSACTION_POLL_S)
        begins = list_offsets(self._cluster, dict.fromkeys(ends, EARLIEST))
        return ends if any(ends[tp] > begins[tp].offset for tp in ends) else {}

    def _ends(
        self, topics: Collection[str], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> Offsets:
        found = self._cluster.require_topics(topics) if topics else {}
        partitions = [
            TopicPartition(name, number) for name, topic in found.items() for number in topic.partitions
        ]
        listed = list_offsets(self._cluster, dict.fromkeys(partitions, LATEST), isolation)
        return {tp: at.offset for tp, at in listed.items()}

    def _table_ends(self) -> Checkpointed:
        tables = self.plan.topology.globals
        self._cluster.forget(tables)  # a topic may have been deleted and created again since the last batch
        return Checkpointed(self._ends(tables), ids_of(tables, self._cluster.metadata))

    # Planning a batch

    def plan_batch(self, start: JsonOffsets, end: JsonOffsets) -> list[Work]:
        clock_ms = self._clock_ms(end)
        note = _note(end)
        work = []
        if RESTORE in end and RESTORE not in start:
            work += self._restore(from_json(end[RESTORE]), clock_ms, note)
        for part in self.inner.partitions(_plain(start), _plain(end)):
            work.append(Work(clock_ms, note, part.value))
        if self.plan.clocked:
            work = [work[0]._replace(ticks=True), *work[1:]] if work else [Work(clock_ms, note, ticks=True)]
        return work

    def _restore(self, ends: Offsets, clock_ms: int, note: str) -> list[Work]:
        begins = list_offsets(self._cluster, dict.fromkeys(ends, EARLIEST))
        ranges = [
            PartitionRange(tp.topic, tp.partition, begins[tp].offset, end)
            for tp, end in sorted(ends.items())
            if begins[tp].offset < end
        ]
        tasks = share_whole(ranges, self.plan.source.max_partitions or len(ranges)) if ranges else []
        work = [Work(clock_ms, note, restored=tuple(task)) for task in tasks]
        times = self._times()
        return [Work(clock_ms, note, times=times), *work] if times else work

    def _times(self) -> tuple[tuple[TopicPartition, str], ...]:
        counts = self.plan.task_counts
        places = [
            TopicPartition(topic, partition)
            for topic, part in self.plan.timed.items()
            for partition in range(counts[part.id])
        ]
        group = ConsumerGroup(self._cluster, self.plan.topology.application)
        return tuple(sorted(self._cluster.retry(lambda: group.notes(places)).items()))


class _Purger:
    """Deletes processed records of repartition topics from time to time, in a thread."""

    def __init__(self, plan: StreamsPlan) -> None:
        self._client = plan.source.client
        self._thread = ThreadPoolExecutor(1, "penstock-purge")
        self._last_s = time.monotonic()
        self._running: Future[None] | None = None

    def completed(self, at: Offsets, topics: frozenset[str]) -> None:
        """Delete the records before the end of a completed batch. Raises an error of the last deletion."""
        if time.monotonic() - self._last_s < PURGE_INTERVAL_S or (self._running and not self._running.done()):
            return
        if self._running is not None:
            self._running.result()
        self._last_s = time.monotonic()
        before = {tp: offset for tp, offset in at.items() if tp.topic in topics and offset > 0}
        self._running = self._thread.submit(self._delete, before)

    def _delete(self, before: Offsets) -> None:
        with Cluster(self._client) as cluster:
            delete_records(cluster, before)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _plain(offsets: JsonOffsets) -> JsonOffsets:
    """The offsets without the keys that the inner reader does not know."""
    return {topic: kept for topic, kept in offsets.items() if topic not in _OURS}


def _note(end: JsonOffsets) -> str:
    tables = end.get(TABLES)
    return json.dumps(tables, separators=(",", ":")) if tables else ""


# Code that runs in the tasks


def rows_of(worker: Worker, work: Work) -> Iterator[PackedRow]:
    """Yield the rows of one task. Raises RecordFailed, TopologyChanged, DataLoss, ClientError."""
    plan = worker.plan
    if work.restored:
        for batch in read_ranges(plan.table_source, work.restored):
            block = block_of(batch, Kind.RESTORE, work.clock_ms)._replace(note=work.note)
            yield plan.groups[block.partition], block.pack()
    for place, metadata in work.times:
        times = times_block(plan.topology.application, place, metadata, work.clock_ms)
        yield plan.groups[place.partition], times._replace(note=work.note).pack()
    if work.ranges:
        stores = stores_of(worker, work)
        for batch in read_ranges(plan.source, work.ranges):
            yield from worker.map_side.rows(batch, work.clock_ms, stores, work.note)
    if work.ticks:
        count = max(plan.task_counts[part.id] for part in plan.clocked)
        for partition in range(count):
            yield plan.groups[partition], tick(partition, work.clock_ms, work.note).pack()


def stores_of(worker: Worker, work: Work) -> Mapping[str, Any] | None:
    """Return the stores of global tables, as the records of ``work`` may see them. Raises ClientError."""
    return worker.global_stores(Checkpointed.from_json(json.loads(work.note) if work.note else {}))
