"""Helpers for the tests of compaction: keyed appends, successive cleans, and the content of a log."""

import random
from collections.abc import Callable, Iterable, Sequence

from log_building import START_MS, append

from penstock.protocol import batch
from penstock.protocol.records import Record, decode_batch, encode_batch
from penstock.storage.compaction.cleanable import LogToClean, cleanable_offsets, examine
from penstock.storage.compaction.cleaner import Cleaner, CleanResult
from penstock.storage.compaction.config import CleanerConfig
from penstock.storage.compaction.throttler import Throttler
from penstock.storage.disk.files import REAL_FILES, FileSystem
from penstock.storage.partition.log import Log
from penstock.storage.segments.cleaned_segment import CleanedSegment
from penstock.storage.segments.segment import Segment


def keyed_batch(
    pairs: Iterable[tuple[bytes | None, bytes | None]], timestamp: int = START_MS, **options: object
) -> bytearray:
    """One batch with a record for each (key, value); a value of None is a tombstone."""
    records = [Record(i, timestamp + i, key, value) for i, (key, value) in enumerate(pairs)]
    return bytearray(encode_batch(records, **options))  # type: ignore[arg-type]


def append_pairs(
    log: Log, *pairs: tuple[bytes | None, bytes | None], timestamp: int = START_MS, **options: object
) -> int:
    """Append one batch of (key, value). Returns its first offset."""
    return append(log, keyed_batch(pairs, timestamp, **options)).first_offset


class Undisturbed:
    """The environment of a clean that runs on the thread that owns the log."""

    def __init__(self, log: Log, before_install: Callable[[], None] = lambda: None) -> None:
        self.log = log
        self.before_install = before_install
        self.paused_s = 0.0

    def check(self) -> None:
        pass

    def pause(self, pause_s: float) -> None:
        self.paused_s += pause_s

    def install(self, cleaned: CleanedSegment, replaced: Sequence[Segment]) -> None:
        self.before_install()
        self.log.replace_segments(replaced, cleaned)


def to_clean(log: Log, now_ms: int, checkpoint: int | None = None) -> LogToClean:
    return examine(log, cleanable_offsets(log, checkpoint, log.log_end_offset, now_ms), now_ms)


def clean(
    log: Log,
    now_ms: int = START_MS,
    checkpoint: int | None = None,
    *,
    config: CleanerConfig | None = None,
    files: FileSystem = REAL_FILES,
    surroundings: Undisturbed | None = None,
) -> CleanResult:
    """Clean everything that may be cleaned now except the active segment."""
    cleaner = Cleaner(
        config or CleanerConfig(dedupe_buffer_size=4 << 20),
        Throttler(1e18, lambda: 0.0),
        files,
        random.Random(7),
        surroundings or Undisturbed(log),
    )
    return cleaner.clean(to_clean(log, now_ms, checkpoint), now_ms)


def headers_of(log: Log) -> list[batch.BatchHeader]:
    """The header of every batch, from the log start on, as a consumer reads them."""
    return [header for header, _ in _batches(log)]


def records_of(log: Log, *, control: bool = False) -> list[Record]:
    """Every record from the log start on; with `control`, those of markers instead."""
    return [
        record
        for header, data in _batches(log)
        if header.is_control == control
        for record in decode_batch(data)
        if record.offset >= log.log_start_offset
    ]


def _batches(log: Log) -> Iterable[tuple[batch.BatchHeader, bytes]]:
    offset = log.log_start_offset
    while (piece := log.read(offset, 1 << 20)) is not None:
        data = piece.read()
        for position, header in batch.iter_headers(data):
            assert batch.crc_is_valid(data, header, position)
            yield header, data[position : position + header.size_bytes]
            offset = header.next_offset


def table(records: Iterable[Record]) -> dict[bytes | None, bytes]:
    """The newest value of each key, without deleted keys."""
    newest = {record.key: record.value for record in records}
    return {key: value for key, value in newest.items() if value is not None}
