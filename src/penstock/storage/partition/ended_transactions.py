"""Records the transactions that end with an append: in the producer state, and aborted ones in the index."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from penstock.storage.producers.producer_state import ProducerState
from penstock.storage.producers.staged_append import StagedAppend
from penstock.storage.segments.segment import Segment
from penstock.storage.segments.transaction_index import AbortedTransaction


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
