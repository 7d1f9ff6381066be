"""Finds the aborted transactions of what a reader gets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from penstock.storage.segments.file_slice import FileSlice, IndexedSegment, IndexedSegments
from penstock.storage.segments.transaction_index import AbortedTransaction


def aborted_transactions(
    segments: IndexedSegments, start_offset: int, up_to_offset: int, found: FileSlice | None
) -> list[AbortedTransaction]:
    """The aborted transactions that have records in [start, up to), or in the slice `found` read there.

    The segments of `found` are used, because a clean may have removed the records and their index entries
    since. Raises OSError, and ValueError if an index is malformed.
    """
    read_from = segments if found is None or found.segments is None else found.segments
    candidates = read_from.from_offset(start_offset)
    if found is not None:
        up_to_offset = min(up_to_offset, _end_of(found, candidates, up_to_offset))
    aborted: list[AbortedTransaction] = []
    for segment in candidates:
        overlapping, is_complete = segment.transaction_index.overlapping(start_offset, up_to_offset)
        aborted += overlapping
        if is_complete:
            break
    return aborted


def _end_of(found: FileSlice, segments: Sequence[IndexedSegment], up_to_offset: int) -> int:
    """An offset above all batches in `found`, as low as can be found cheaply."""
    if found.is_cut:
        return found.read_next_offset()
    for segment, following in pairwise(segments):
        if segment.file is found.file:
            return following.base_offset
    return up_to_offset
