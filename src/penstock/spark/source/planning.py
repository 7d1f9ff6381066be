"""From a start and an end to the ranges that tasks read: what is new, what is gone, in how many parts.

Pure. What is missing counts as data loss by the rules of Spark's own Kafka source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from penstock.arrow.loss import LossRule
from penstock.client.fetcher import PartitionRange
from penstock.client.metadata import TopicPartition
from penstock.spark.source.offsets import Offsets


def plan_ranges(
    start: Offsets, end: Offsets, earliest: Callable[[Iterable[TopicPartition]], Offsets], loss: LossRule
) -> list[PartitionRange]:
    """The range of each partition that has something to read.

    ``earliest`` tells where partitions begin that ``end`` has and ``start`` has not: new ones, read whole.
    """
    gone = sorted(start.keys() - end.keys())
    if gone:
        loss.report(f"partitions {', '.join(map(str, gone))} do not exist any more")
    added = sorted(end.keys() - start.keys())
    begins = earliest(added) if added else {}
    for tp in added:
        if begins[tp] > 0:
            loss.report(f"the new partition {tp} begins at offset {begins[tp]} instead of 0")
    ranges = []
    for tp in sorted(end):
        first = start.get(tp, begins.get(tp, 0))
        if end[tp] < first:
            loss.report(f"the end of {tp} went back from offset {first} to {end[tp]}")
        elif end[tp] > first:
            ranges.append(PartitionRange(tp.topic, tp.partition, first, end[tp]))
    return ranges


def split_ranges(
    ranges: list[PartitionRange], min_partitions: int | None, max_records: int | None
) -> list[PartitionRange]:
    """Split large ranges so that there are at least ``min_partitions``, none of more than ``max_records``."""
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
    """An end at most ``max_rows`` offsets after ``start``, shared out in proportion to what there is.

    ``begins``: where partitions begin that ``start`` has not. Every call makes progress while there is data:
    rounding goes to the partitions with the largest remainders.
    """
    first = {tp: start.get(tp, begins.get(tp, 0)) for tp in end}
    sizes = {tp: end[tp] - first[tp] for tp in end if end[tp] > first[tp]}
    total = sum(sizes.values())
    if total <= max_rows:
        return dict(end)
    shares = {tp: size * max_rows // total for tp, size in sizes.items()}
    remainders = sorted(sizes, key=lambda tp: (-(sizes[tp] * max_rows % total), tp))
    for tp in remainders[: max_rows - sum(shares.values())]:
        shares[tp] += 1
    return {tp: first[tp] + shares[tp] if tp in shares else end[tp] for tp in end}
