"""Computes how much of a log may be cleaned, how dirty it is, and whether a clean is due."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.storage.partition.log import Log
from penstock.storage.segments.segment import Segment

log = logging.getLogger(__name__)

_NEVER_MS: Final = 2**63 - 1


class CleanableOffsets(NamedTuple):
    """The dirty range; `is_reset` if the checkpoint was invalid and must be written again."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    is_reset: bool


class LogToClean(NamedTuple):
    """A log to be cleaned and its dirty range, as found at one moment, in whole segments."""

    log: Log
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """The time by which the log exceeds `max.compaction.lag.ms`, 0 if it does not."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        if self.compaction_delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable_offsets(
    partition_log: Log, checkpoint: int | None, high_watermark: int, now_ms: int
) -> CleanableOffsets:
    """Return the range of offsets that may be cleaned. Raises OSError.

    It begins at `checkpoint`, where the last clean ended. It ends before the first of: the active segment,
    the last stable offset, and the first segment younger than `min.compaction.lag.ms`.
    """
    first_dirty_offset, is_reset = _first_dirty_offset(partition_log, checkpoint)
    first_uncleanable_offset = min(
        partition_log.last_stable_offset(high_watermark), partition_log.segments.active.base_offset
    )
    lag_ms = partition_log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in _non_active_from(partition_log, first_dirty_offset):
            if segment.largest_timestamp > now_ms - lag_ms:
                first_uncleanable_offset = min(first_uncleanable_offset, segment.base_offset)
                break
    return CleanableOffsets(first_dirty_offset, max(first_dirty_offset, first_uncleanable_offset), is_reset)


def _first_dirty_offset(partition_log: Log, checkpoint: int | None) -> tuple[int, bool]:
    start_offset = partition_log.log_start_offset
    if checkpoint is None:
        return start_offset, False
    if checkpoint < start_offset:
        if not partition_log.config.deletes:
            log.warning(
                "cleaner checkpoint is below the log start, so all of the log is dirty "
                "log=%s checkpoint=%d log_start_offset=%d",
                partition_log.name,
                checkpoint,
                start_offset,
            )
        return start_offset, True
    if checkpoint > partition_log.log_end_offset:
        log.warning(
            "cleaner checkpoint is above the log end, so all of the log is dirty "
            "log=%s checkpoint=%d log_end_offset=%d",
            partition_log.name,
            checkpoint,
            partition_log.log_end_offset,
        )
        return start_offset, True
    return checkpoint, False


def examine(partition_log: Log, offsets: CleanableOffsets, now_ms: int) -> LogToClean:
    """Measure the size and delay of what `cleanable_offsets` found. Raises OSError."""
    first_dirty_offset, uncleanable_offset, _ = offsets
    following = _non_active_from(partition_log, uncleanable_offset)
    first_uncleanable_offset = (following[0] if following else partition_log.segments.active).base_offset
    dirty_from = min(first_dirty_offset, first_uncleanable_offset)
    return LogToClean(
        partition_log,
        first_dirty_offset,
        first_uncleanable_offset,
        _size(segment for segment in partition_log.segments if segment.base_offset < first_dirty_offset),
        _size(partition_log.segments.between(dirty_from, first_uncleanable_offset)),
        _compaction_delay_ms(partition_log, first_dirty_offset, now_ms),
    )


def _compaction_delay_ms(partition_log: Log, first_dirty_offset: int, now_ms: int) -> int:
    """The time by which the oldest dirty segment exceeds `max.compaction.lag.ms`."""
    if partition_log.config.max_compaction_lag_ms == _NEVER_MS:
        return 0
    timestamps = [
        segment.first_batch_timestamp for segment in _non_active_from(partition_log, first_dirty_offset)
    ]
    oldest = min((timestamp for timestamp in timestamps if timestamp > 0), default=_NEVER_MS)
    return max(now_ms - partition_log.config.max_compaction_lag_ms - oldest, 0)


def _non_active_from(partition_log: Log, offset: int) -> tuple[Segment, ...]:
    """The segments from the one that holds `offset` on, without the active segment."""
    active = partition_log.segments.active
    return () if offset > active.base_offset else partition_log.segments.between(offset, active.base_offset)


def _size(segments: Iterable[Segment]) -> int:
    return sum(segment.size for segment in segments)
