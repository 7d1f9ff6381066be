"""The tasks of a topology in this process: they serve one reader while it reads, and persist nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final

from penstock.protocol.murmur2 import partition_for_key
from penstock.sql.engine.reading.feeds import Chunk
from penstock.topology.graph import Topology
from penstock.topology.records import Input, Output
from penstock.topology.tasks.common_reading import CommonReading
from penstock.topology.tasks.task import Task

_ENTRY_OVERHEAD_BYTES: Final = 150
"""The memory of an entry in a map, in addition to the bytes of its key and value."""


class LocalTasks:
    """All tasks of one topology, each created with its first record.

    ``partitions`` has the number of partitions of each topic that the topology reads. The object belongs to
    one thread at a time. Raises CoPartitioningError if joined topics differ in their numbers of partitions.
    """

    def __init__(self, topology: Topology, partitions: Mapping[str, int]) -> None:
        self._topology = topology
        self._counts = topology.partition_counts(partitions)
        self._parts = topology.source_topics()
        self._repartitions = {topology.topic(name) for name in topology.repartitions}
        self._common: dict[str, CommonReading | None] = {}
        self._undealt = count()
        self._offsets = {topic: count() for topic in self._repartitions}
        self.tasks: dict[tuple[int, int], Task] = {}
        self._state_bytes = self._written_bytes = 0

    def _common_reading(self, topic: str) -> CommonReading | None:
        """The shared reading of a topic's records; None if each must be processed along with its effects."""
        if topic not in self._common:
            found = (
                None if self._repartitions else CommonReading.of(self._topology, self._parts[topic], topic)
            )
            self._common[topic] = found
        return self._common[topic]

    def _task(self, topic: str, partition: int) -> Task:
        part = self._parts[topic]
        found = self.tasks.get((part.id, partition))
        if found is None:
            found = self.tasks[part.id, partition] = Task(
                self._topology,
                part,
                partition,
                partition_counts=self._counts,
                wall_clock_ms=time.time_ns() // 1_000_000,
            )
        return found

    def process_chunk(self, chunk: Chunk, start: int, stop: int) -> None:
        """Process some records of a chunk, for a topology that writes nothing.

        Records that other readers read in the same way are read once for all.
        """
        rows = chunk.records[start:stop]
        common = self._common_reading(chunk.tp.topic)
        if common is None:
            self.process(rows)
        else:
            self._task(*chunk.tp).process_read(chunk.tp.topic, rows, chunk.read(common)[start:stop])

    def process(self, rows: Iterable[Input]) -> list[Output]:
        """Process records in order, each with all its effects behind repartition topics.

        Returns the outputs to other topics. Raises RecordFailed if a record can't be processed.
        """
        written: list[Output] = []
        for row in rows:
            waiting = [row]
            while waiting:
                topic, partition, *_ = each = waiting.pop(0)
                task = self._task(topic, partition)
                task.process(each)
                for output in task.take_outputs():
                    if output[0] in self._repartitions:
                        waiting.append(self._dealt(output))
                    else:
                        written.append(output)
        return written

    def _dealt(self, output: Output) -> Input:
        topic, partition, key, value, timestamp_ms, headers = output
        if partition is None:
            number = self._counts[topic]
            partition = next(self._undealt) % number if key is None else partition_for_key(key, number)
        return (topic, partition, next(self._offsets[topic]), timestamp_ms, key, value, headers)

    def tick(self) -> list[Output]:
        """Advance the wall clock without a record, and return the outputs to other topics."""
        now_ms = time.time_ns() // 1_000_000
        written: list[Output] = []
        for task in list(self.tasks.values()):
            task.tick(wall_clock_ms=now_ms)
            outputs = task.take_outputs()
            written += [each for each in outputs if each[0] not in self._repartitions]
            written += self.process([self._dealt(each) for each in outputs if each[0] in self._repartitions])
        return written

    def measured_state(self, limit_bytes: int) -> int:
        """The size of the state in bytes: an upper estimate, or a measurement once that exceeds the limit.

        Nothing logs the state's changes, so this also discards them; otherwise they would accumulate.
        """
        for task in self.tasks.values():
            for delta in task.take_deltas().values():
                self._written_bytes += _bytes_of(delta.items())
        if self._state_bytes + self._written_bytes > limit_bytes:
            maps = (each for task in self.tasks.values() for each in task.maps.values())
            self._state_bytes = sum(_bytes_of(each.data.items()) for each in maps)
            self._written_bytes = 0
        return self._state_bytes + self._written_bytes


def _bytes_of(entries: Iterable[tuple[bytes, bytes | None]]) -> int:
    return sum(len(key) + len(value or b"") + _ENTRY_OVERHEAD_BYTES for key, value in entries)
