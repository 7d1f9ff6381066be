"""The segments that retention deletes or keeps, and when."""

from dataclasses import replace

import pytest
from log_building import START_MS, LogBench, append_values, read_all, values_batch

from penstock.storage.config import LogConfig
from penstock.storage.partition.log import Log

HOUR_MS = 3_600_000
BATCH_BYTES = len(values_batch([b"x" * 100]))


@pytest.fixture
def log(bench: LogBench) -> Log:
    """A log of six segments of two batches each, an hour between batches; nothing is retained by default."""
    bench.config = LogConfig(segment_bytes=2 * BATCH_BYTES, retention_ms=-1, file_delete_delay_ms=1000)
    log = bench.open()
    for i in range(12):
        append_values(log, b"x" * 100, timestamp=START_MS + i * HOUR_MS, epoch=i // 4)
    assert log.segments.base_offsets == [0, 2, 4, 6, 8, 10]
    return log


def retain(
    log: Log, now_ms: int = START_MS, high_watermark: int | None = None, **config: object
) -> list[int]:
    log.update_config(replace(log.config, **config))  # type: ignore[arg-type]
    log.delete_old_segments(now_ms, high_watermark)
    return log.segments.base_offsets


def test_no_limit_keeps_all(log: Log) -> None:
    assert retain(log, START_MS + 10**12) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("hours", range(14))
def test_by_time_of_the_newest_record(log: Log, hours: int) -> None:
    """A segment is deleted once its newest record has expired; the active one is rolled first."""
    now_ms = START_MS + hours * HOUR_MS
    bases = retain(log, now_ms, retention_ms=2 * HOUR_MS - 1)
    gone = [base for base in range(0, 12, 2) if now_ms - (START_MS + (base + 1) * HOUR_MS) > 2 * HOUR_MS - 1]
    assert bases == ([base for base in range(0, 12, 2) if base not in gone] or [12])
    assert log.log_start_offset == bases[0]
    assert log.log_end_offset == 12


@pytest.mark.parametrize("keep", range(0, 13 * BATCH_BYTES, BATCH_BYTES // 2))
def test_by_size(log: Log, keep: int) -> None:
    """The oldest segments are deleted as long as the rest has at least the retained size."""
    bases = retain(log, retention_bytes=keep)
    if keep > 0:
        assert log.size_bytes >= min(keep, 12 * BATCH_BYTES)
        assert log.size_bytes - 2 * BATCH_BYTES < keep or bases[0] == 10
    else:
        assert bases == [12]


def test_what_goes_for_another_reason_counts_for_the_size(log: Log) -> None:
    log.delete_records_before(6)
    assert retain(log, retention_bytes=8 * BATCH_BYTES) == [6, 8, 10]


def test_never_above_the_high_watermark(log: Log) -> None:
    assert retain(log, high_watermark=5, retention_bytes=0) == [4, 6, 8, 10]
    assert log.log_start_offset == 4


def test_below_the_start_offset_for_compacted_topics_too(log: Log) -> None:
    log.delete_records_before(5)
    assert read_all(log)[0][0] == 5
    compacted = {"cleanup_policy": frozenset(("compact",)), "retention_bytes": 0, "retention_ms": 0}
    assert retain(log, START_MS + 10**12, **compacted) == [4, 6, 8, 10]
    assert log.log_start_offset == 5
    assert log.leader_epochs.entries == [(1, 5), (2, 8)]


def test_files_are_renamed_at_once_and_removed_later(log: Log, bench: LogBench) -> None:
    retain(log, retention_bytes=9 * BATCH_BYTES)
    assert not bench.file(0, ".log").exists()
    assert bench.file(0, ".log.deleted").exists()
    assert bench.file(0, ".index.deleted").exists()
    log.remove_deleted_files(bench.clock() + 999)
    assert bench.file(0, ".log.deleted").exists()
    log.remove_deleted_files(bench.clock() + 1000)
    assert not list(bench.directory.glob("*.deleted"))


def test_a_deleted_start_survives_a_restart(log: Log, bench: LogBench) -> None:
    retain(log, retention_bytes=5 * BATCH_BYTES)
    content = read_all(log)
    log.close()
    again = bench.open(clean=True)
    assert again.log_start_offset == log.log_start_offset
    assert read_all(again) == content


def test_records_without_time_go_by_the_files_own(bench: LogBench) -> None:
    bench.config = LogConfig(retention_ms=HOUR_MS)
    log = bench.open()
    append_values(log, b"t", timestamp=-1)
    modified_ms = int(bench.file(0, ".log").stat().st_mtime * 1000)
    assert retain(log, modified_ms + HOUR_MS) == [0]
    assert retain(log, modified_ms + HOUR_MS + 1) == [1]
