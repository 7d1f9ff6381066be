"""Records the transactions that end in a log's segments, and finds aborted ones for readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter

from penstock.storage.producer_state import ProducerState
from penstock.storage.segment import Segment
from penstock.storage.segment_file import FileSlice
from penstock.storage.segments import Segments
from penstock.storage.staged_append import StagedAppend
from penstock.storage.transaction_index import AbortedTransaction


def note_append(state: ProducerState, staged: Iterable[StagedAppend], segment: Segment) -> None:
    """Apply staged appends, now written to `segment`, to `state`, and index their aborted transactions.

    Raises OSError; the index is then incomplete, so that readers would treat aborted records as committed.
    """
    ended = []
    for pending in staged:
        state.apply(pending)
        ended += pending.completed
    for completed in sorted(ended, key=attrgetter("last_offset")):
        last_stable_offset = state.complete(completed)
        if completed.aborted:
            segment.transaction_index.append(
                AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
                )
            )


def aborted_transactions(
    segments: Segments, start_offset: int, up_to_offset: int, found: FileSlice | None
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


def _end_of(found: FileSlice, segments: Sequence[Segment], up_to_offset: int) -> int:
    """An offset above all batches in `found`, as low as can be found cheaply."""
    if found.is_cut:
        return found.read_next_offset()
    for segment, following in pairwise(segments):
        if segment.file is found.file:
            return following.base_offset
    return up_to_offset
