"""The map side: it makes blocks of the records read, through the tasks of parts that keep no state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.protocol.columns import group_by_partition
from penstock.spark.streams.blocks.dropped import dropped_block
from penstock.spark.streams.blocks.layout import block_of
from penstock.spark.streams.blocks.packing import (
    NO_PARTITION,
    Binary,
    Block,
    Kind,
    outputs_by_topic,
    tick,
)
from penstock.spark.streams.blocks.partitioning import partitions_of
from penstock.spark.streams.blocks.rows import PackedRow
from penstock.spark.streams.planning.plan import StreamsPlan
from penstock.spark.workers.memory import seldom_collecting
from penstock.topology.graph import SubTopology
from penstock.topology.records import Headers, Input, Output
from penstock.topology.tasks.common_reading import CommonReading, Read
from penstock.topology.tasks.task import Task

Common = tuple[Sequence[Input], Sequence[Read]]
"""The records of a block, and what `CommonReading` made of each."""


class MapSide:
    """The map side of one plan; it keeps its tasks across batches."""

    def __init__(self, plan: StreamsPlan) -> None:
        self._plan = plan
        self._tasks: dict[tuple[int, int], Task] = {}
        self._readings: dict[str, CommonReading | None] = {}

    def rows(
        self,
        batch: pa.RecordBatch,
        clock_ms: int,
        global_stores: Mapping[str, Any] | None = None,
        note: str = "",
    ) -> Iterator[PackedRow]:
        """Yield what the records of one partition become; they have the columns of a block (`LAYOUT`).

        Raises RecordFailed, TopologyChanged.
        """
        block = block_of(batch, Kind.RECORDS, clock_ms)._replace(note=note)
        return self.block_rows(block, global_stores)

    def block_rows(
        self, block: Block, global_stores: Mapping[str, Any] | None = None, common: Common | None = None
    ) -> Iterator[PackedRow]:
        """Yield what a block becomes; ``common`` is what all readers that read the topic alike made of it."""
        plan = self._plan
        plan.require_partition(block.topic, block.partition)
        part = plan.part_of[block.topic]
        if part.id not in plan.mapped:
            yield plan.groups[block.partition], block.pack()
            return
        for group, made in self._run(part, block.partition, block, global_stores, common):
            yield group, made.pack()

    def reading(self, topic: str) -> CommonReading | None:
        """How a topic is read here, if other applications may read it alike."""
        if topic not in self._readings:
            part = self._plan.part_of[topic]
            is_here = part.id in self._plan.mapped
            self._readings[topic] = CommonReading.of(self._plan.topology, part, topic) if is_here else None
        return self._readings[topic]

    def frame_rows(
        self,
        name: str,
        place: int,
        records: Sequence[Output],
        clock_ms: int,
        global_stores: Mapping[str, Any] | None = None,
        note: str = "",
    ) -> Iterator[PackedRow]:
        """Yield what the rows become of a DataFrame that takes the place of the topic ``name``.

        The rows are in order; ``place`` is the number of the DataFrame's partition. Raises RecordFailed.
        """
        plan, part = self._plan, self._plan.part_of[name]
        empty = tick(place, clock_ms, note)._replace(kind=Kind.RECORDS, topic=name)
        for partition, block in self._to_tasks(records, np.arange(len(records)), empty):
            if part.id not in plan.mapped:
                yield plan.groups[partition], block.pack()
                continue
            for group, made in self._run(part, partition, block, global_stores):
                yield group, made.pack()

    def _run(
        self,
        part: SubTopology,
        partition: int,
        block: Block,
        global_stores: Mapping[str, Any] | None,
        common: Common | None = None,
    ) -> Iterator[tuple[int, Block]]:
        at = (part.id, partition)
        # A task must not be used again after an error, so it is not in the map while it runs.
        task = self._tasks.pop(at, None) or Task(
            self._plan.topology,
            part,
            partition,
            partition_counts=self._plan.partition_counts,
            global_stores=global_stores,
            wall_clock_ms=block.clock_ms,
        )
        with seldom_collecting():
            task.tick(wall_clock_ms=block.clock_ms)
            if common is None:
                counts = task.process_counting(block.inputs())
            else:
                counts = task.process_read(block.topic, *common)
            outputs = task.take_outputs()
        task.take_deltas()  # drops its times: nothing needs them without state
        dropped = task.take_dropped()
        if dropped:
            passing = self._plan.groups[partition % len(self._plan.groups)]
            yield passing, dropped_block(dropped, partition, block.clock_ms)
        self._tasks[at] = task
        if outputs:
            offsets = np.repeat(block.offsets, np.diff(np.array(counts), prepend=0))
            yield from self._share_out(outputs, offsets, block)

    def _share_out(
        self, outputs: list[Output], offsets: np.ndarray, block: Block
    ) -> Iterator[tuple[int, Block]]:
        plan, position = self._plan, block.position
        shuffled = [output[0] in plan.shuffled_topics for output in outputs] if plan.shuffled_topics else []
        if any(shuffled):
            rows = np.flatnonzero(shuffled)
            records = outputs if len(rows) == len(outputs) else [outputs[row] for row in rows.tolist()]
            for partition, made in self._to_tasks(records, offsets[rows], block):
                yield plan.groups[partition], made
            rows = np.flatnonzero(~np.array(shuffled))
            outputs, offsets = [outputs[row] for row in rows.tolist()], offsets[rows]
        for made in outputs_by_topic(outputs, offsets, position, block.clock_ms):
            yield plan.groups[block.partition % len(plan.groups)], made

    def _to_tasks(
        self, records: Sequence[Output], offsets: np.ndarray, block: Block
    ) -> Iterator[tuple[int, Block]]:
        """Yield records of repartition topics by the partition that each belongs to, in order."""
        topics, chosen, keys, values, timestamps, headers = zip(*records, strict=True)
        names = tuple(dict.fromkeys(topics))
        numbers = {name: number for number, name in enumerate(names)}
        target = np.array([numbers[topic] for topic in topics], np.uint16)
        key_column = Binary.of(keys)
        counts = np.array([self._plan.partition_counts[name] for name in names])[target]
        given = None
        if any(partition is not None for partition in chosen):
            given = np.array([NO_PARTITION if partition is None else partition for partition in chosen])
        partitions = partitions_of(key_column, counts, given, keyless=offsets)
        times = np.array(timestamps, np.int64)
        most = int(counts.max())
        for partition, picked in group_by_partition(partitions.data, most):
            rows = np.frombuffer(picked, np.int64)
            at = rows.tolist()
            some_headers: list[Headers] = [headers[row] for row in at]
            yield (
                partition,
                Block(
                    Kind.RECORDS,
                    block.clock_ms,
                    block.topic,
                    block.partition,
                    names,
                    times[rows],
                    offsets[rows],
                    Binary.of([keys[row] for row in at]),
                    Binary.of([values[row] for row in at]),
                    target[rows],
                    None,
                    some_headers if any(some_headers) else None,
                    block.note,
                ),
            )
