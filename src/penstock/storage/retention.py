"""Which segments of a log may go: below its start offset, over its size, or past their time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.storage.config import LogConfig
from penstock.storage.names import TopicPartition
from penstock.storage.segment import Segment
from penstock.storage.segments import Segments

logger = logging.getLogger(__name__)


def deletable_segments(
    name: TopicPartition,
    segments: Segments,
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> list[Segment]:
    """The oldest segments that retention allows to go, from the first on; possibly all of them.

    Never one that reaches beyond the high watermark, nor an empty active one. A compacted topic without
    `delete` loses only what lies below its start offset.
    """
    following = [*segments.base_offsets[1:], log_end_offset]
    conditions: list[Callable[[Segment, int], bool]] = [
        lambda segment, next_offset: segment is not segments.active and next_offset <= log_start_offset
    ]
    if config.deletes:
        if config.retention_bytes >= 0:
            conditions.append(_over_size(segments, config.retention_bytes))
        if config.retention_ms >= 0:
            conditions.append(lambda segment, _: now_ms - segment.largest_timestamp > config.retention_ms)
    deletable = []
    for segment, next_offset in zip(segments, following, strict=True):
        # each condition sees each segment, as the one on size counts what goes for other reasons too
        judgements = [condition(segment, next_offset) for condition in conditions]
        empty = segment is segments.active and segment.size == 0
        if empty or next_offset > high_watermark or not any(judgements):
            break
        deletable.append(segment)
    if deletable:
        logger.info("%s: deleting segments %s", name, ", ".join(str(s.base_offset) for s in deletable))
    return deletable


def _over_size(segments: Segments, retention_bytes: int) -> Callable[[Segment, int], bool]:
    """True as long as the log without the segments judged so far and this one still has its retained size."""
    excess = sum(segment.size for segment in segments) - retention_bytes

    def over_size(segment: Segment, _: int) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return over_size
