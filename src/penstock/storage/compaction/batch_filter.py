"""Filters batches during a clean; the result is byte for byte that of Apache Kafka (except for its codecs).

A batch that keeps all its records is copied. Any other batch is rebuilt: it keeps the offsets of its records,
its last offset, producer and sequence. Its base timestamp becomes that of its first remaining record, or the
delete horizon (KIP-534): the time from which tombstones, and markers of transactions without records, may be
removed. Some batches keep their header even without records: the last batch of each active producer, which
holds the producer's sequence and epoch, and the last batch of the cleaned part, which holds its end offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from penstock.protocol import batch
from penstock.protocol.batch import CURRENT_MAGIC, NO_TIMESTAMP, BatchHeader, Buffer, parse_header
from penstock.protocol.compression import compress
from penstock.protocol.kernels import kernel
from penstock.protocol.records import (
    Record,
    assemble_batch,
    decode_batch,
    encode_batch,
    known_codec,
    records_section,
)
from penstock.storage.compaction.stats import CleanerStats
from penstock.storage.compaction.transactions import CleanedTransactions
from penstock.storage.producers.producer_entry import ProducerEntry

DECOMPRESSED_BYTES_MAX: Final = 256 << 20
"""Limit for one decompressed batch. A larger one counts as a decompression bomb, and is kept as it is."""


class LastRecord(NamedTuple):
    """The position of a producer's last data; `last_data_offset` is None if its epoch has only a marker."""

    last_data_offset: int | None
    producer_epoch: int

    def is_in(self, header: BatchHeader) -> bool:
        if self.last_data_offset is not None:
            return header.last_offset == self.last_data_offset
        return header.is_control and header.producer_epoch == self.producer_epoch


def last_records(producers: Iterable[ProducerEntry]) -> dict[int, LastRecord]:
    """The last record of each producer id. May run in any thread: if appends go on, newer ones serve too."""
    found = {}
    for entry in producers:
        newest = entry.batches[-1:]
        found[entry.producer_id] = LastRecord(newest[0].last_offset if newest else None, entry.epoch)
    return found


class BatchFilter:
    """The filter for the batches of one clean, which it takes segment by segment.

    Batches of magic 0 and 1 have no delete horizon. The segment's age decides whether their tombstones stay,
    so the caller sets `keep_legacy_tombstones` for each segment.
    """

    def __init__(
        self,
        offsets: kernel.OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastRecord],
        stats: CleanerStats,
        *,
        now_ms: int,
        delete_retention_ms: int,
        up_to_offset: int,
    ) -> None:
        self.keep_legacy_tombstones = True
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._stats = stats
        self._now_ms = now_ms
        self._new_horizon_ms = now_ms + delete_retention_ms
        self._up_to_offset = up_to_offset
        self._runs = kernel.RunFilter(
            offsets,
            producers,
            transactions.committed,
            now_ms=now_ms,
            new_horizon_ms=self._new_horizon_ms,
            up_to_offset=up_to_offset,
        )

    def apply_to_run(self, run: kernel.Run, marks: kernel.IndexMarks) -> kernel.FilteredRun:
        """Filter the plain batches that come next; `apply` takes all others, and damaged ones."""
        filtered = self._runs.filter(run, marks)
        self._stats.messages_read += filtered.messages_read
        self._stats.messages_written += filtered.messages_written
        self._stats.invalid_messages_read += filtered.keyless
        return filtered

    def apply(self, header: BatchHeader, data: memoryview) -> tuple[BatchHeader, Buffer] | None:
        """Return the batch that replaces `data`, or None if nothing of it remains.

        Raises MalformedRecords, and OSError if the transaction index cannot be written.
        """
        needless_marker = False
        if header.is_control:
            needless_marker = self._transactions.is_marker_needless(header, data)
            horizon_ms = header.delete_horizon_ms
            discards = needless_marker and horizon_ms is not None and horizon_ms <= self._now_ms
        else:
            discards = self._transactions.is_aborted(header)
        keeps_header = self._keeps_header(header)
        if discards:
            return _emptied(header) if keeps_header else None
        if header.magic < CURRENT_MAGIC:
            return self._converted(header, data, keeps_header=keeps_header)
        section = records_section(data, header, 0, DECOMPRESSED_BYTES_MAX)
        if header.is_control:
            keep, kept, has_tombstone = bytearray(b"\1" * header.count), header.count, False
        else:
            keeps_tombstones = header.delete_horizon_ms is None or self._now_ms < header.delete_horizon_ms
            keep, kept, has_tombstone, keyless = kernel.judge_records(
                self._offsets, section, header, keeps_tombstones
            )
            self._stats.invalid_messages_read += keyless
        self._stats.messages_read += header.count
        self._stats.messages_written += kept
        if not kept:
            return _emptied(header) if keeps_header else None
        gets_horizon = (has_tombstone or needless_marker) and header.delete_horizon_ms is None
        if kept == header.count and not gets_horizon:
            return header, data
        return self._rebuilt(header, section, keep, kept, gets_horizon=gets_horizon)

    def _keeps_header(self, header: BatchHeader) -> bool:
        if header.next_offset == self._up_to_offset:
            return True
        last = self._producers.get(header.producer_id) if header.has_producer_id else None
        return last is not None and last.is_in(header)

    def _rebuilt(
        self, header: BatchHeader, section: Buffer, keep: Buffer, kept: int, *, gets_horizon: bool
    ) -> tuple[BatchHeader, Buffer]:
        base_timestamp = self._new_horizon_ms if gets_horizon else header.delete_horizon_ms
        records, first, latest = kernel.rebuild_records(section, header, keep, base_timestamp)
        attributes = header.attributes & kernel.KEPT_WHEN_REBUILT
        if base_timestamp is not None:
            attributes |= batch.DELETE_HORIZON_MASK
        changed = header._replace(
            attributes=attributes, base_timestamp=first, max_timestamp=latest, count=kept
        )
        return _assembled(changed, compress(known_codec(header), records))

    def _converted(
        self, header: BatchHeader, data: memoryview, *, keeps_header: bool
    ) -> tuple[BatchHeader, Buffer] | None:
        """Convert what remains of a message of magic 0 or 1 to a batch of the current format."""
        records = list(decode_batch(data, max_bytes=DECOMPRESSED_BYTES_MAX))
        remaining = [record for record in records if self._keeps(record)]
        self._stats.messages_read += len(records)
        self._stats.messages_written += len(remaining)
        if not remaining:
            return _emptied(header._replace(magic=CURRENT_MAGIC)) if keeps_header else None
        converted = encode_batch(
            remaining, remaining[0].offset, timestamp_type=header.timestamp_type, keep_offsets=True
        )
        changed = parse_header(converted)
        return self._rebuilt(
            changed._replace(attributes=changed.attributes | header.compression),
            records_section(converted, changed),
            b"\1" * len(remaining),
            len(remaining),
            gets_horizon=any(record.value is None for record in remaining),
        )

    def _keeps(self, record: Record) -> bool:
        if record.offset > self._offsets.latest_offset:
            return True
        if record.key is None:
            self._stats.invalid_messages_read += 1
            return False
        is_newest: bool = record.offset >= self._offsets.get(record.key)
        return is_newest and (record.value is not None or self.keep_legacy_tombstones)


def _emptied(header: BatchHeader) -> tuple[BatchHeader, Buffer]:
    """The batch reduced to its header: offsets, producer and sequence, but no records."""
    attributes = header.attributes & kernel.KEPT_IN_EMPTY
    return _assembled(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0), b"")


def _assembled(header: BatchHeader, records: Buffer) -> tuple[BatchHeader, Buffer]:
    data = assemble_batch(header, records)
    return header._replace(batch_length=len(data) - batch.LOG_OVERHEAD), data
