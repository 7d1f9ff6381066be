"""Replays the producers of the batches in a log: all of them, or those after the newest snapshot."""

from __future__ import annotations

import logging

from penstock.protocol.batch import BatchHeader, CorruptBatch, MalformedRecords
from penstock.protocol.records import EndTxnMarker, decode_batch, decode_end_txn_marker
from penstock.storage.producers.producer_state import ProducerState
from penstock.storage.segments.scan import headers as scan_headers
from penstock.storage.segments.segment import Segment
from penstock.storage.segments.segment_list import Segments

log = logging.getLogger(__name__)


def rebuild_producers(
    state: ProducerState,
    segments: Segments,
    end_offset: int,
    now_ms: int,
    expiration_ms: int,
    *,
    skip_without_snapshot: bool = False,
) -> None:
    """Rebuild `state` for all records below `end_offset`, and take a snapshot there. Raises OSError."""
    had_snapshot = bool(state.snapshots)
    first_offset = segments.first.base_offset if len(segments) else end_offset
    state.load(first_offset, end_offset, now_ms, expiration_ms)
    if had_snapshot or not skip_without_snapshot:
        for segment in segments.from_offset(state.end_offset) if len(segments) else ():
            try:
                _replay_headers(state, segment, end_offset)
            except CorruptBatch as error:
                log.error(
                    "segment damaged, producers may be missing file=%s error=%s", segment.file.path, error
                )
    state.end_offset = end_offset
    state.take_snapshot()


def _replay_headers(state: ProducerState, segment: Segment, end_offset: int) -> None:
    start = segment.offset_index.lookup(state.end_offset).position
    for position, header in scan_headers(segment.file, start, segment.size):
        if header.base_offset >= end_offset:
            return
        if header.last_offset >= state.end_offset:
            data = b""
            if header.is_control and header.has_producer_id:
                data = segment.file.pread(header.size_bytes, position)
            for completed in state.replay(header, transaction_marker(header, data)):
                state.complete(completed)


def transaction_marker(header: BatchHeader, data: bytes | memoryview) -> EndTxnMarker | None:
    """The marker in a producer's control batch; None for other batches and those emptied by compaction."""
    if not (header.is_control and header.has_producer_id):
        return None
    try:
        record = next(decode_batch(data), None)
        return decode_end_txn_marker(record) if record else None
    except MalformedRecords:
        return None
