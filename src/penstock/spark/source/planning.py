"""Plan the ranges that tasks read between a start and an end: new partitions, lost offsets, and the split.

Pure. Lost offsets count as data loss by the rules of Spark's own Kafka source.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from penstock.arrow.loss import LossRule
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import PartitionRange
from penstock.spark.source.offsets import Offsets

OPEN_BYTES: Final = 1 << 20
"""The cost of opening one more range in a task, as the bytes that it could read in that time."""
_SLACK: Final = 0.1  # of a task's capacity: a smaller part is not worth a cut
_TINY: Final = 1e-9


def plan_ranges(
    start: Offsets, end: Offsets, earliest: Callable[[Iterable[TopicPartition]], Offsets], loss: LossRule
) -> list[PartitionRange]:
    """Return the range of each partition that has something to read.

    ``earliest`` returns the first offsets of partitions in ``end`` that ``start`` lacks: these are new and
    read whole. It omits those that have already been deleted.
    """
    gone = sorted(start.keys() - end.keys())
    if gone:
        loss.report(f"partitions {', '.join(map(str, gone))} do not exist any more")
    added = sorted(end.keys() - start.keys())
    begins = earliest(added) if added else {}
    for tp in added:
        if tp not in begins:
            loss.report(f"the new partition {tp} does not exist any more")
        elif begins[tp] > 0:
            loss.report(f"the new partition {tp} begins at offset {begins[tp]} instead of 0")
    ranges = []
    for tp in sorted(end):
        first = start.get(tp, begins.get(tp, end[tp]))
        if end[tp] < first:
            loss.report(f"the end of {tp} went back from offset {first} to {end[tp]}")
        elif end[tp] > first:
            ranges.append(PartitionRange(tp.topic, tp.partition, first, end[tp]))
    return ranges


def split_ranges(
    ranges: list[PartitionRange], min_partitions: int | None, max_records: int | None
) -> list[PartitionRange]:
    """Split large ranges into at least ``min_partitions``, each with at most ``max_records`` offsets."""
    total = sum(r.end - r.start for r in ranges)
    parts: list[PartitionRange] = []
    for whole in ranges:
        size = whole.end - whole.start
        count = math.ceil(size / max_records) if max_records else 1
        if min_partitions and min_partitions > len(ranges):
            count = max(count, math.ceil(size / total * min_partitions))
        count = min(count, size)
        cuts = [whole.start + size * i // count for i in range(count + 1)]
        parts.extend(whole._replace(start=first, end=last) for first, last in pairwise(cuts))
    return parts


def limit_rows(start: Offsets, end: Offsets, begins: Mapping[TopicPartition, int], max_rows: int) -> Offsets:
    """Return an end about ``max_rows`` offsets after ``start``, divided in proportion to the partitions' lag.

    ``begins`` has the first offsets of partitions that ``start`` lacks. Rounding follows Spark's own source:
    each share is rounded down, but a partition with anything to read gets at least one offset, so that small
    partitions do not starve beside large ones. Many small partitions may together exceed the limit.
    """
    first = {tp: start.get(tp, begins.get(tp, 0)) for tp in end}
    sizes = {tp: end[tp] - first[tp] for tp in end if end[tp] > first[tp]}
    total = sum(sizes.values())
    if total <= max_rows:
        return dict(end)
    shares = {tp: max(1, int(max_rows * (size / total))) for tp, size in sizes.items()}
    return {tp: min(end[tp], first[tp] + shares[tp]) if tp in shares else end[tp] for tp in end}


class TriggerDelay:
    """``minOffsetsPerTrigger`` and ``maxTriggerDelay``: delay a batch until there is enough for it.

    As in Spark's own source, the first batch of a run starts at once, and under ``Trigger.AvailableNow`` a
    remainder that is too small for a batch stays for the next run. ``clock`` is in seconds.
    """

    def __init__(self, min_rows: int, max_delay_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._min_rows = min_rows
        self._max_delay_s = max_delay_ms / 1000
        self._clock = clock
        self._last_trigger_s: float | None = None

    def holds(self, start: Offsets, end: Offsets) -> bool:
        """Whether a batch from ``start`` to ``end`` has to wait; if not, the delay starts again."""
        now = self._clock()
        if self._last_trigger_s is not None and now - self._last_trigger_s < self._max_delay_s:
            new = sum(offset - start.get(tp, 0) for tp, offset in end.items())
            if new < self._min_rows:
                return True
        self._last_trigger_s = now
        return False


def share_by_size(
    ranges: Sequence[PartitionRange], bytes_per_offset: Mapping[TopicPartition, float], target_bytes: float
) -> list[list[PartitionRange]]:
    """Divide ranges into tasks of about ``target_bytes`` each: large ranges are cut, small ones share a task.

    The order is kept, so the offsets of a partition ascend over the tasks. ``bytes_per_offset`` is an
    estimate; a partition without one counts as the mean of the others. Every range costs `OPEN_BYTES` more,
    for the round trip before its first record arrives.
    """
    mean = statistics.fmean(bytes_per_offset.values()) if bytes_per_offset else 1.0
    weights = [max(bytes_per_offset.get(part.topic_partition, mean), _TINY) for part in ranges]
    total = sum(OPEN_BYTES + (r.end - r.start) * weight for r, weight in zip(ranges, weights, strict=True))
    count = max(1, math.ceil(total / target_bytes))
    capacity = (total + (count - 1) * OPEN_BYTES) / count  # each cut opens one more range
    tasks: list[list[PartitionRange]] = [[]]
    free = capacity
    for whole, weight in zip(ranges, weights, strict=True):
        rest = whole
        while rest.start < rest.end:
            offsets = rest.end - rest.start
            if OPEN_BYTES + offsets * weight > free + capacity * _SLACK:
                fit = int((free - OPEN_BYTES) / weight)
                is_worth_it = not tasks[-1] or fit * weight > capacity * _SLACK
                offsets = min(offsets, max(1, fit)) if is_worth_it else 0
            part = rest._replace(end=rest.start + offsets)
            rest = rest._replace(start=part.end)
            if offsets:
                tasks[-1].append(part)
                free -= OPEN_BYTES + offsets * weight
            if rest.start < rest.end:
                tasks.append([])
                free = capacity
    return [task for task in tasks if task]


def share_whole(ranges: Sequence[PartitionRange], max_tasks: int) -> list[list[PartitionRange]]:
    """Divide whole ranges into at most ``max_tasks`` tasks of neighbors, with similar numbers of offsets."""
    if len(ranges) <= max_tasks:
        return [[part] for part in ranges]
    total = sum(part.end - part.start for part in ranges)
    tasks: dict[int, list[PartitionRange]] = {}
    before = 0
    for part in ranges:
        middle = before + (part.end - part.start) / 2
        tasks.setdefault(int(middle * max_tasks / total), []).append(part)
        before += part.end - part.start
    return list(tasks.values())
