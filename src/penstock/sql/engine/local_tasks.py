"""A topology in this process: for one reader, for as long as he reads, and with nothing kept."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import count

from penstock.protocol.murmur2 import partition_for_key
from penstock.topology.context import Input
from penstock.topology.graph import Topology
from penstock.topology.records import Output
from penstock.topology.task import Task


class LocalTasks:
    """All tasks of a topology. ``partitions``: of the topics that it reads. Belongs to one thread at a time.
    Raises CoPartitioningError.
    """

    def __init__(self, topology: Topology, partitions: Mapping[str, int]) -> None:
        self._topology = topology
        self._counts = topology.partition_counts(partitions)
        self._parts = topology.source_topics()
        self._repartitions = {topology.topic(name) for name in topology.repartitions}
        self._undealt = count()
        self._offsets = {topic: count() for topic in self._repartitions}
        now_ms = time.time_ns() // 1_000_000
        self.tasks: dict[tuple[int, int], Task] = {
            (part.id, number): Task(
                topology, part, number, partition_counts=self._counts, wall_clock_ms=now_ms
            )
            for part in topology.sub_topologies
            for number in range(topology.task_count(part, self._counts))
        }

    def process(self, rows: Iterable[Input]) -> list[Output]:
        """Process records in order, each with what it causes behind repartition topics; what else was
        written. Raises RecordFailed where one fails.
        """
        written: list[Output] = []
        for row in rows:
            waiting = [row]
            while waiting:
                topic, partition, *_ = each = waiting.pop(0)
                task = self.tasks[self._parts[topic].id, partition]
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
        """Let time pass without a record."""
        now_ms = time.time_ns() // 1_000_000
        written: list[Output] = []
        for task in self.tasks.values():
            task.tick(wall_clock_ms=now_ms)
            outputs = task.take_outputs()
            written += [each for each in outputs if each[0] not in self._repartitions]
            written += self.process([self._dealt(each) for each in outputs if each[0] in self._repartitions])
        return written
