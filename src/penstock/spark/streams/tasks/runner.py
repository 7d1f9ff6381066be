"""The tasks of one partition in one batch: load the state, process blocks of records, return output blocks.

Independent of Spark: `penstock.spark.streams.query.operator` passes the blocks and the pages of state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from penstock.client.connections.metadata import TopicPartition
from penstock.spark.streams.blocks.dropped import dropped_block
from penstock.spark.streams.blocks.merging import StreamTimes, split
from penstock.spark.streams.blocks.packing import Binary, Block, Kind, Position, in_order, outputs_by_topic
from penstock.spark.streams.blocks.rows import PackedRow
from penstock.spark.streams.planning.plan import StreamsPlan, clock_name
from penstock.spark.streams.state.log import Changes, Delta, GroupState, Pages, append, load
from penstock.spark.streams.state.times import METADATA_BYTES_MAX, restore_times, times_block, to_metadata
from penstock.topology.graph import SubTopology
from penstock.topology.stores.ordered_bytes import OrderedBytes
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec
from penstock.topology.tasks.task import CLOCKS, Task

log = logging.getLogger(__name__)

_TIME_BYTES: Final = 8


class TaskRunner:
    """The tasks of all partitions that this process has seen, for one plan and query."""

    def __init__(self, plan: StreamsPlan) -> None:
        self._plan = plan
        self._states: dict[int, GroupState] = {}
        self._tasks: dict[int, dict[int, Task]] = {}

    def run(
        self,
        partition: int,
        packed: Iterable[bytes],
        pages: Pages,
        global_stores: Mapping[str, Any] | None = None,
    ) -> list[PackedRow]:
        """Process one batch of one partition and return rows of blocks for the sink, in order.

        The row's group is the partition's own. For a topic that the application reads back it is that of the
        topic's partition, so that one task of the sink has what all partitions write to it.

        The state is then in ``pages``. Raises RecordFailed, StateDamaged, DamagedBlock, and any exception of
        user code of the process API.
        """
        by_kind: dict[Kind, list[Block]] = {kind: [] for kind in Kind}
        clock_ms = 0
        for data in packed:
            block = Block.unpack(data)
            by_kind[block.kind].append(block)
            clock_ms = max(clock_ms, block.clock_ms)
        # The maps in memory are in an unknown state until the batch is in the pages.
        known, tasks = self._states.pop(partition, None), self._tasks.pop(partition, {})
        state, is_same = load(pages, known, self._new_map)
        if not is_same:
            tasks = {}
        outputs = sorted(by_kind[Kind.OUTPUTS], key=lambda block: block.position) + by_kind[Kind.DROPPED]
        restored = self._restore(by_kind[Kind.RESTORE], state)
        restored |= self._restore_times(by_kind[Kind.TIMES], state)
        if restored:
            tasks = {}
        deltas = {name: Changes.of(state.maps[name].take_delta()) for name in restored}
        for part in self._plan.tasks_behind:
            if partition < self._plan.task_counts[part.id]:
                task = tasks.get(part.id) or self._task(part, partition, state, global_stores, clock_ms)
                tasks[part.id] = task
                outputs += self._process(task, by_kind[Kind.RECORDS], clock_ms, deltas)
        append(pages, state, deltas, rewrite=restored)
        self._states[partition], self._tasks[partition] = state, tasks
        return list(self._rows(partition, outputs))

    def _rows(self, partition: int, outputs: Iterable[Block]) -> Iterator[PackedRow]:
        plan, times = self._plan, StreamTimes()
        for block in outputs:
            if block.kind is not Kind.OUTPUTS or block.targets[0] not in plan.read_back:
                yield plan.groups[partition], block.pack()
            elif block.rows:
                for number, some in split(times.added_to(block), plan.partition_counts[block.targets[0]]):
                    yield plan.groups[number], some.pack()

    def _process(
        self, task: Task, records: list[Block], clock_ms: int, deltas: dict[str, Changes]
    ) -> Iterator[Block]:
        part, partition = task.part, task.partition
        task.tick(wall_clock_ms=clock_ms)
        task.process_all(in_order(self._of(part, records)))
        origin = Position(f"{part.id}", partition, -1)
        yield from outputs_by_topic(task.take_outputs(), None, origin, clock_ms)
        for name, delta in task.take_deltas().items():
            changes = Changes.of(delta)
            if name == CLOCKS:
                deltas[clock_name(part)] = changes
                yield from self._times(task, clock_ms)
                continue
            deltas[name] = changes
            spec = self._plan.stores[name]
            if spec.logged:
                topic = self._plan.topology.changelog_topic(name)
                block = changelog_block(spec, topic, partition, delta, changes, clock_ms)
                if block is not None:
                    yield block
        dropped = task.take_dropped()
        if dropped:
            yield dropped_block(dropped, partition, clock_ms)

    def _times(self, task: Task, clock_ms: int) -> Iterator[Block]:
        for topic, part in self._plan.timed.items():
            if part.id == task.part.id:
                place = TopicPartition(topic, task.partition)
                metadata = to_metadata(task.maps[CLOCKS])
                if len(metadata) > METADATA_BYTES_MAX:
                    log.warning("times too large to commit partition=%s bytes=%d", place, len(metadata))
                else:
                    yield times_block(self._plan.topology.application, place, metadata, clock_ms)

    def _of(self, part: SubTopology, blocks: list[Block]) -> list[Block]:
        """Return the blocks with records for one part's tasks.

        A block is for one part, or for several that read repartition topics.
        """
        topics = {topic for topic, reader in self._plan.part_of.items() if reader.id == part.id}
        found = []
        for block in blocks:
            if topics.issuperset(block.targets):
                found.append(block)
            elif not topics.isdisjoint(block.targets):
                found.append(block.only(topics))
        return found

    def _task(
        self,
        part: SubTopology,
        partition: int,
        state: GroupState,
        global_stores: Mapping[str, Any] | None,
        clock_ms: int,
    ) -> Task:
        stores = {spec.name: state.maps[spec.name] for spec in part.stores if spec.name in state.maps}
        times = state.maps.get(clock_name(part))
        if times is not None:
            stores[CLOCKS] = times
        task = Task(
            self._plan.topology,
            part,
            partition,
            stores=stores,
            global_stores=global_stores,
            partition_counts=self._plan.partition_counts,
            wall_clock_ms=clock_ms,
        )
        for name, entries in task.maps.items():
            state.maps[clock_name(part) if name == CLOCKS else name] = entries
        return task

    def _new_map(self, name: str) -> OrderedBytes:
        spec = self._plan.stores.get(name)
        return OrderedBytes() if spec is None else spec.new_map()

    def _restore(self, blocks: list[Block], state: GroupState) -> set[str]:
        """Apply records of changelogs to the stores, and return the names of the stores that had any."""
        restored: set[str] = set()
        for block in sorted(blocks, key=lambda block: block.position):
            spec = self._plan.store_of_changelog[block.topic]
            entries = state.maps.setdefault(spec.name, spec.new_map())
            restored.add(spec.name)
            for _, _, _, timestamp_ms, key, value, _ in block.inputs():
                if key is None:
                    continue  # not a record of a store: those have keys
                stored_key, stored = spec.from_changelog(key, value, timestamp_ms)
                if stored is None:
                    entries.delete(stored_key)
                else:
                    entries.put(stored_key, stored)
        return restored

    def _restore_times(self, blocks: list[Block], state: GroupState) -> set[str]:
        """Restore the times, and return the names that they are kept under. Raises DamagedTimes."""
        restored: set[str] = set()
        for block in blocks:
            name = clock_name(self._plan.timed[block.targets[0]])
            restore_times(block, state.maps.setdefault(name, OrderedBytes()))
            restored.add(name)
        return restored


def changelog_block(
    spec: StoreSpec, topic: str, partition: int, delta: Delta, changes: Changes, clock_ms: int
) -> Block | None:
    """Convert the changes of a store, which are passed in both forms, to records of its changelog."""
    if type(spec) is KeyValueSpec:
        return _key_value_changelog(topic, partition, changes, clock_ms)
    records = [
        record for key, value in delta.items() if (record := spec.to_changelog(key, value)) is not None
    ]
    if not records:
        return None
    keys, values, timestamps = zip(*records, strict=True)
    times = np.array([clock_ms if time is None else time for time in timestamps], np.int64)
    return _changelog(topic, partition, Binary.of(keys), Binary.of(values), times, clock_ms)


def _key_value_changelog(topic: str, partition: int, changes: Changes, clock_ms: int) -> Block:
    """Do what `KeyValueSpec.to_changelog` does, for the usual store, without a call for each change.

    A stored value is the record's timestamp, followed by the value that the changelog has.
    """
    stored = changes.values
    present = np.flatnonzero(stored.lengths >= 0)
    begins = stored.ends[present].astype(np.int64)
    data = np.frombuffer(stored.data, np.uint8)
    of_heads = (begins[:, None] + np.arange(_TIME_BYTES)).ravel()
    times = np.full(len(stored.lengths), clock_ms, np.int64)
    times[present] = data[of_heads].view(">i8")
    is_value = np.ones(len(data), bool)
    is_value[of_heads] = False
    lengths = stored.lengths.copy()
    lengths[present] -= _TIME_BYTES
    values = Binary(lengths, data[is_value].tobytes())
    return _changelog(topic, partition, changes.keys, values, times, clock_ms)


def _changelog(
    topic: str, partition: int, keys: Binary, values: Binary, times: np.ndarray, clock_ms: int
) -> Block:
    rows = len(times)
    return Block(
        Kind.OUTPUTS,
        clock_ms,
        "",
        partition,
        (topic,),
        times,
        np.full(rows, -1, np.int64),
        keys,
        values,
        None,
        np.full(rows, partition, np.int32),
    )
