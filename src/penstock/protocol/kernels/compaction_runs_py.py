"""Compaction over runs of batches.

If batches are small, a call for each of them costs more than the work. A run consists of batches that can be
handled with their own bytes and the map alone: they have the current format, are valid, not compressed, and
not of an aborted transaction, and their offsets are in the expected range. It ends before the first other
batch, which the caller examines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from penstock.protocol import batch
from penstock.protocol.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    NO_TIMESTAMP,
    SMALLEST_RECORD_BYTES,
    BatchHeader,
    Buffer,
    CorruptBatch,
    MalformedRecords,
    crc_is_valid,
    parse_header,
)
from penstock.protocol.kernels.compaction_py import (
    OffsetMap,
    compacted_records,
    index_records,
    judge_records,
    rebuild_records,
)
from penstock.protocol.records import ControlRecordType, assemble_batch

_CONTROL_KEY: Final = Struct(">hh")

KEPT_IN_EMPTY: Final = batch.TIMESTAMP_TYPE_MASK | batch.TRANSACTIONAL_MASK | batch.CONTROL_MASK
"""The attributes that a batch keeps when it loses its records."""
KEPT_WHEN_REBUILT: Final = KEPT_IN_EMPTY | batch.COMPRESSION_MASK
_OF_TRANSACTIONS: Final = batch.TRANSACTIONAL_MASK | batch.CONTROL_MASK
"""The attributes of batches that belong to transactions."""

ProducerIds: TypeAlias = set[int]
"""The producer ids of transactions, in a set that a run can read."""


class Run(NamedTuple):
    """Consecutive batches in `window`, from the batch boundary `start` up to `stop`.

    Their offsets must increase from `lowest_offset` on and stay below `limit_offset`. No batch below
    `committed_below` belongs to an aborted transaction.
    """

    window: Buffer
    start: int
    stop: int
    lowest_offset: int
    limit_offset: int
    committed_below: int


def _plain_batches(run: Run) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Iterate over batches as (end position, header, records section), up to the first that is not plain."""
    view = memoryview(run.window)
    position, lowest_offset = run.start, run.lowest_offset
    while run.stop - position >= HEADER_SIZE:
        try:
            header = parse_header(view, position)
        except CorruptBatch:
            return
        end = position + header.size_bytes
        if (
            header.magic != CURRENT_MAGIC
            or header.compression
            or end > run.stop
            or not 0 <= header.count <= (header.size_bytes - HEADER_SIZE) // SMALLEST_RECORD_BYTES
            or not lowest_offset <= header.base_offset <= header.last_offset < run.limit_offset
            or (header.attributes & _OF_TRANSACTIONS and header.last_offset >= run.committed_below)
            or (header.is_transactional and not header.has_producer_id)
            or not crc_is_valid(view, header, position)
        ):
            return
        yield end, header, view[position + HEADER_SIZE : end]
        position, lowest_offset = end, header.next_offset


def _marker_type(header: BatchHeader, section: Buffer) -> int | None:
    """The outcome of a transaction in a control batch; None if the batch is of another kind or invalid."""
    if header.count != 1 or not header.is_transactional:
        return None
    data = bytes(section)
    try:
        (record,) = compacted_records(data, header)
    except MalformedRecords:
        return None
    if record.key_end - record.key_start < _CONTROL_KEY.size:
        return None
    version, kind = _CONTROL_KEY.unpack_from(data, record.key_start)
    is_known = version >= 0 and kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT)
    return int(kind) if is_known else None


def index_run(offsets: OffsetMap, run: Run, start_offset: int) -> tuple[int, int]:
    """Map the keys of a run's batches from `start_offset` on.

    Returns (position after the last batch mapped, the lowest offset that may follow). A batch ends the run if
    the map is full or its records cannot be parsed; some of its keys may be mapped by then.
    """
    position, lowest_offset = run.start, run.lowest_offset
    for end, header, section in _plain_batches(run):
        try:
            if header.is_control:
                if _marker_type(header, section) is None:
                    break
            elif not index_records(offsets, section, header, start_offset):
                break
        except MalformedRecords:
            break
        if header.last_offset >= start_offset:
            offsets.latest_offset = header.last_offset
        position, lowest_offset = end, header.next_offset
    return position, lowest_offset


class IndexMarks:
    """The index entries of a growing segment: about one per `interval_bytes`, at the start of a batch."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.size = 0
        """The size of all batches added, in bytes."""
        self.largest_timestamp = NO_TIMESTAMP
        self.largest_timestamp_offset = base_offset
        self._interval_bytes = interval_bytes
        self._bytes_since_entry = 0
        self._entries: list[tuple[int, int, int, int]] = []

    def add(self, last_offset: int, max_timestamp: int, size_bytes: int) -> None:
        """Add the next batch."""
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp, self.largest_timestamp_offset = max_timestamp, last_offset
        if self._bytes_since_entry > self._interval_bytes:
            self._bytes_since_entry = 0
            self._entries.append(
                (last_offset, self.size, self.largest_timestamp, self.largest_timestamp_offset)
            )
        self._bytes_since_entry += size_bytes
        self.size += size_bytes

    def take_entries(self) -> list[tuple[int, int, int, int]]:
        """Return the entries since the last call: (last offset, position, largest timestamp, its offset)."""
        entries, self._entries = self._entries, []
        return entries


class FilteredRun(NamedTuple):
    """The result of filtering a run: the remaining bytes, the position reached, and counts of records."""

    data: bytearray
    position: int
    lowest_offset: int
    messages_read: int
    messages_written: int
    keyless: int


class RunFilter:
    """Filters runs of batches by the rules of compaction: see `storage.compaction.batch_filter`.

    `last_records` maps each producer id to the offset of its last data, None if there is only a marker, and
    to its epoch. The header of that batch must stay, as must that of the batch that ends at `up_to_offset`.
    Tombstones get `new_horizon_ms`, until which they stay (KIP-534); so do markers of transactions without
    records. `committed` contains the producers of which a batch has been read, but not the marker yet.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        last_records: Mapping[int, tuple[int | None, int]],
        committed: ProducerIds,
        *,
        now_ms: int,
        new_horizon_ms: int,
        up_to_offset: int,
    ) -> None:
        self._offsets = offsets
        self._last_records = dict(last_records)
        self._committed = committed
        self._now_ms = now_ms
        self._new_horizon_ms = new_horizon_ms
        self._up_to_offset = up_to_offset

    def filter(self, run: Run, marks: IndexMarks) -> FilteredRun:
        """Filter the run up to a batch that cannot be parsed; the batches that stay are added to `marks`."""
        out = bytearray()
        position, lowest_offset = run.start, run.lowest_offset
        messages_read = messages_written = keyless_found = 0
        for end, header, section in _plain_batches(run):
            horizon_ms = header.delete_horizon_ms
            count, is_needless = header.count, False
            if header.is_control:
                kind = _marker_type(header, section)
                if kind is None:
                    break
                is_needless = self._is_marker_needless(kind, header.producer_id)
                if is_needless and horizon_ms is not None and horizon_ms <= self._now_ms:
                    count = 0
                keep, kept, has_tombstone, keyless = bytearray(b"\1"), count, False, 0
            else:
                try:
                    keep, kept, has_tombstone, keyless = judge_records(
                        self._offsets, section, header, horizon_ms is None or self._now_ms < horizon_ms
                    )
                except MalformedRecords:
                    break
                if header.is_transactional:
                    self._committed.add(header.producer_id)
            gets_horizon = (has_tombstone or is_needless) and horizon_ms is None
            remaining: Buffer = b""
            max_timestamp = header.max_timestamp
            if kept == count > 0 and not gets_horizon:
                remaining = memoryview(run.window)[position:end]
            elif kept:
                base_timestamp = self._new_horizon_ms if gets_horizon else horizon_ms
                remaining, max_timestamp = _rebuilt_batch(section, header, keep, kept, base_timestamp)
            elif self._keeps_header(header):
                attributes = header.attributes & KEPT_IN_EMPTY
                remaining = assemble_batch(
                    header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0), b""
                )
            if remaining:
                out += remaining
                marks.add(header.last_offset, max_timestamp, len(remaining))
            position, lowest_offset = end, header.next_offset
            messages_read += count
            messages_written += kept
            keyless_found += keyless
        return FilteredRun(out, position, lowest_offset, messages_read, messages_written, keyless_found)

    def _keeps_header(self, header: BatchHeader) -> bool:
        if header.next_offset == self._up_to_offset:
            return True
        last = self._last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        last_data_offset, epoch = last
        if last_data_offset is not None:
            return header.last_offset == last_data_offset
        return header.is_control and header.producer_epoch == epoch

    def _is_marker_needless(self, kind: int, producer_id: int) -> bool:
        """Whether no record of the marker's transaction was read; an aborted one has none in the run."""
        if kind != ControlRecordType.COMMIT:
            return True
        has_batches = producer_id in self._committed
        self._committed.discard(producer_id)
        return not has_batches


def _rebuilt_batch(
    section: Buffer, header: BatchHeader, keep: Buffer, kept: int, base_timestamp: int | None
) -> tuple[bytearray, int]:
    """Return (an uncompressed batch of the records marked in `keep`, its largest timestamp)."""
    records, first, latest = rebuild_records(section, header, keep, base_timestamp)
    attributes = header.attributes & KEPT_WHEN_REBUILT
    if base_timestamp is not None:
        attributes |= batch.DELETE_HORIZON_MASK
    changed = header._replace(attributes=attributes, base_timestamp=first, max_timestamp=latest, count=kept)
    return assemble_batch(changed, records), latest
