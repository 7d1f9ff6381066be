"""Keeps the records that a task has sent, until their offsets can be stored (Connect's SubmittedRecords).

A partition's offset can be stored once its record and all records before it, of the same partition, are
acknowledged. Partitions do not wait for each other. For one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.connect.data.records import Offset, Partition, SourceRecord


@dataclass(slots=True, eq=False)
class SubmittedRecord:
    """A record on its way to its topic. Its offset is asked for only if it is stored."""

    record: SourceRecord
    is_acknowledged: bool = False


class SubmittedRecords:
    """The records of a task that are on their way, by their partitions."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, deque[SubmittedRecord]] = {}
        self._last: tuple[Partition, deque[SubmittedRecord]] | None = None
        """The partition of the newest record with its queue: most records have the partition of the last."""

    def submit(self, record: SourceRecord) -> SubmittedRecord:
        """Add a record behind the others of its partition."""
        submitted = SubmittedRecord(record)
        partition = record.source_partition
        if self._last is None or self._last[0] is not partition:
            self._last = partition, self._queues.setdefault(_hashable(partition), deque())
        self._last[1].append(submitted)
        return submitted

    def withdraw(self, submitted: SubmittedRecord) -> None:
        """Remove the newest record of its partition, which could not be sent."""
        key = _hashable(submitted.record.source_partition)
        queue = self._queues[key]
        assert queue[-1] is submitted, "a newer record of the partition was sent"
        queue.pop()
        if not queue:
            self._forget(key)

    def take(self) -> list[tuple[Partition, Offset]]:
        """Return the newest offset of each partition that can be stored now, and forget its records."""
        found = []
        for key, queue in list(self._queues.items()):
            last: SubmittedRecord | None = None
            while queue and queue[0].is_acknowledged:
                last = queue.popleft()
            if last is not None:
                found.append((last.record.source_partition, last.record.source_offset))
            if not queue:
                self._forget(key)
        return found

    def _forget(self, key: Hashable) -> None:
        del self._queues[key]
        self._last = None


def _hashable(partition: Mapping[str, Any]) -> Hashable:
    """Return equal keys for equal partitions; 1, 1.0 and True differ."""
    try:
        key = frozenset((name, type(value), value) for name, value in partition.items())
        hash(key)
    except TypeError:  # the offset store names the value when it refuses the partition
        return repr(sorted(partition.items(), key=lambda item: str(item[0])))
    return key
