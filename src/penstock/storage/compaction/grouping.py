"""Groups the segments that a clean merges into one, so that segments do not become ever smaller."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from penstock.storage.config import LogConfig
from penstock.storage.segments.segment import Segment
from penstock.storage.segments.sparse_indexes import MAX_RELATIVE_OFFSET

SEGMENTS_MAX: Final = 64
"""Limit for a group, as the event loop renames the files of a group in one turn. Kafka has no such limit."""


def group_by_size(
    segments: Sequence[Segment], config: LogConfig, first_uncleanable_offset: int
) -> list[list[Segment]]:
    """Group adjacent segments whose log, indexes and offsets each fit into one segment.

    A segment ends at the base offset of the next one; the last segment ends at `first_uncleanable_offset`.
    """
    groups: list[list[Segment]] = []
    for segment, following in zip_longest(segments, segments[1:]):
        end_offset = first_uncleanable_offset if following is None else following.base_offset
        if groups and _fits(groups[-1], segment, end_offset, config):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(group: Sequence[Segment], segment: Segment, end_offset: int, config: LogConfig) -> bool:
    together = (*group, segment)
    return (
        len(group) < SEGMENTS_MAX
        and sum(s.size for s in together) <= config.segment_bytes
        and sum(s.offset_index.size_bytes for s in together) <= config.segment_index_bytes
        and sum(s.time_index.size_bytes for s in together) <= config.segment_index_bytes
        and (segment.size == 0 or end_offset - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET)
    )
