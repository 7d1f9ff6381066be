"""Helpers for the tests of storage: numbered batches, logs that open with one line, and their content."""

from dataclasses import dataclass, field
from pathlib import Path

from penstock.protocol import batch
from penstock.protocol.records import Record, decode_batch, encode_batch, encode_end_txn_marker
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import REAL_FILES, FileSystem
from penstock.storage.partition.log import AppendInfo, Log
from penstock.storage.producers.staged_append import Origin

START_MS = 1_700_000_000_000


@dataclass
class Clock:
    now_ms: int = START_MS

    def __call__(self) -> int:
        return self.now_ms


def values_batch(values: list[bytes], timestamp: int = START_MS, **options: object) -> bytearray:
    """One batch with a record for each value, a millisecond apart."""
    records = [Record(i, timestamp + i, b"key", value, []) for i, value in enumerate(values)]
    return bytearray(encode_batch(records, **options))  # type: ignore[arg-type]


def append(log: Log, data: bytes | bytearray, epoch: int = 0, origin: Origin = Origin.CLIENT) -> AppendInfo:
    """Append complete batches unchanged, control batches included."""
    headers = [header for _, header in batch.iter_headers(data)]
    return log.append(memoryview(bytearray(data)), headers, epoch, origin=origin)


def append_values(
    log: Log, *values: bytes, timestamp: int = START_MS, epoch: int = 0, **options: object
) -> AppendInfo:
    return append(log, values_batch(list(values), timestamp, **options), epoch)


def append_marker(
    log: Log,
    producer_id: int,
    producer_epoch: int,
    *,
    committed: bool,
    coordinator_epoch: int = 0,
    timestamp: int = START_MS,
    epoch: int = 0,
    transaction_version: int = 0,
) -> AppendInfo:
    marker = encode_end_txn_marker(
        committed=committed,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
    )
    headers = [header for _, header in batch.iter_headers(marker)]
    return log.append(
        bytearray(marker), headers, epoch, origin=Origin.COORDINATOR, transaction_version=transaction_version
    )


def read_all(log: Log, max_bytes: int = 1 << 20) -> list[tuple[int, bytes | None]]:
    """The (offset, value) of every record from the log start on, read as a consumer does."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset
    while (piece := log.read(offset, max_bytes)) is not None:
        data = piece.read()
        assert len(data) == len(piece)
        end = 0
        for position, header in batch.iter_headers(data):
            assert batch.crc_is_valid(data, header, position)
            end = position + header.size_bytes
            if header.is_control:
                continue
            found += [(r.offset, r.value) for r in decode_batch(data, position) if r.offset >= offset]
        assert end == len(data), "a slice holds whole batches"
        offset = header.next_offset
    return found


@dataclass
class LogBench:
    """A directory in which a test opens a log repeatedly."""

    directory: Path
    config: LogConfig = field(default_factory=LogConfig)
    clock: Clock = field(default_factory=Clock)
    files: FileSystem = REAL_FILES
    recovery_point: int = 0

    def open(self, *, clean: bool = False, log_start_offset: int = 0) -> Log:
        return Log.open(
            self.directory,
            "flights",
            0,
            self.config,
            clean=clean,
            recovery_point=self.recovery_point,
            log_start_offset=log_start_offset,
            clock=self.clock,
            files=self.files,
        )

    def file(self, base_offset: int, suffix: str) -> Path:
        return self.directory / f"{base_offset:020d}{suffix}"
