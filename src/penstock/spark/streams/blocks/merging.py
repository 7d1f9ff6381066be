"""Merge what the tasks of one batch write to a topic that the application reads back, by stream time.

Each task holds the records of its own partition of a batch, which may span hours. If the tasks' records
followed each other in the topic, its reader would see all hours of one task, then all hours of the next, and
would find the latter late. Kafka Streams has no such batches: its tasks write side by side as time advances.

Each record therefore has the stream time of the task that wrote it: the greatest timestamp that the task had
sent to the topic in this batch (`StreamTimes`). `split` divides a task's records by partition, and `arrange`
merges those of all tasks by this time. A task's own order is kept whatever the timestamps. Records with equal
times are in the order of the tasks, so that a repeated batch writes the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.protocol.columns import group_by_partition
from penstock.spark.streams.blocks.packing import Binary, Block
from penstock.spark.streams.blocks.partitioning import partitions_of
from penstock.topology.records import NO_HEADERS, Headers

_ROWS_MAX: Final = 16_384
"""The number of rows in a merged block, whose keys or values must not exceed 2 GiB."""


class StreamTimes:
    """The stream times that the tasks of one batch have reached, by their place and the topic."""

    def __init__(self) -> None:
        self._reached: dict[tuple[str, int, str], int] = {}

    def added_to(self, block: Block) -> Block:
        """Return the outputs with their times; the blocks of one task must come in order."""
        task = block.topic, block.partition, block.targets[0]
        times = np.maximum.accumulate(block.timestamps)
        times = np.maximum(times, self._reached.get(task, times[0]))
        self._reached[task] = int(times[-1])
        return block._replace(times=times)


def split(block: Block, count: int) -> Iterator[tuple[int, Block]]:
    """Yield the outputs for each of the topic's ``count`` partitions, in order.

    A record without a key goes to the partition with the number of the task's own.
    """
    counts, keyless = np.full(block.rows, count), np.full(block.rows, block.partition)
    partitions = partitions_of(block.keys, counts, block.partitions, keyless)
    placed = block._replace(partitions=partitions)
    for partition, picked in group_by_partition(partitions.data, count):
        yield partition, placed.take(np.frombuffer(picked, np.int64))


def arrange(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks of a batch in the order of their tasks, and merge the outputs that have times.

    All blocks with times for one partition of a topic must be among them.
    """
    merged: dict[tuple[str, int], list[Block]] = {}
    for block in sorted(blocks, key=lambda block: block.position):
        if block.times is None:
            yield block
        else:
            assert block.partitions is not None, "split sets the partition"
            merged.setdefault((block.targets[0], int(block.partitions[0])), []).append(block)
    for some in merged.values():
        yield from _merge(some)


def _merge(blocks: Sequence[Block]) -> Iterator[Block]:
    if len(blocks) == 1:
        yield blocks[0]
        return
    order = np.argsort(np.concatenate([block.times for block in blocks]), kind="stable")
    timestamps = np.concatenate([block.timestamps for block in blocks])
    offsets = np.concatenate([block.offsets for block in blocks])
    keys = _concatenated(block.keys for block in blocks)
    values = _concatenated(block.values for block in blocks)
    headers: list[Headers] | None = None
    if any(block.headers for block in blocks):
        headers = [row for block in blocks for row in block.headers or [NO_HEADERS] * block.rows]
    partitions = blocks[0].partitions
    assert partitions is not None, "split sets the partition"
    for start in range(0, len(order), _ROWS_MAX):
        rows = order[start : start + _ROWS_MAX]
        yield blocks[0]._replace(
            timestamps=timestamps[rows],
            offsets=offsets[rows],
            keys=_picked(keys, rows),
            values=_picked(values, rows),
            partitions=np.full(len(rows), partitions[0], np.int32),
            headers=None if headers is None else [headers[row] for row in rows.tolist()],
            times=None,
        )


def _concatenated(columns: Iterable[Binary]) -> pa.LargeBinaryArray:
    return pa.concat_arrays([column.to_arrow().cast(pa.large_binary()) for column in columns])


def _picked(column: pa.LargeBinaryArray, rows: np.ndarray) -> Binary:
    return Binary.of_arrow(column.take(pa.array(rows)).cast(pa.binary()))
