"""Selects segments to delete: those below the start offset, beyond the retained size, or past their time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.storage.config import LogConfig
from penstock.storage.names import TopicPartition
from penstock.storage.segments.segment import Segment
from penstock.storage.segments.segment_list import Segments

log = logging.getLogger(__name__)


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
    """The oldest segments that retention allows to delete, from the first on; possibly all of them.

    Segments that reach beyond the high watermark and an empty active segment always stay. A compacted topic
    without `delete` only loses segments below its start offset.
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
        # evaluate all conditions, because the one on size also counts segments deleted for other reasons
        judgements = [condition(segment, next_offset) for condition in conditions]
        empty = segment is segments.active and segment.size == 0
        if empty or next_offset > high_watermark or not any(judgements):
            break
        deletable.append(segment)
    if deletable:
        log.info("deleting segments log=%s base_offsets=%s", name, [s.base_offset for s in deletable])
    return deletable


def _over_size(segments: Segments, retention_bytes: int) -> Callable[[Segment, int], bool]:
    """Make a condition that is true while the log without this segment keeps at least `retention_bytes`.

    The condition counts all segments passed to it before as removed.
    """
    excess = sum(segment.size for segment in segments) - retention_bytes

    def over_size(segment: Segment, _: int) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return over_size
