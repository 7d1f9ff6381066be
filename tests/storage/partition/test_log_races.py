"""Deletions of files by the event loop while a worker uses them, forced at the worst moment."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from log_building import START_MS, Clock, LogBench, append_values, read_all

from penstock.storage.config import LogConfig
from penstock.storage.directories.config import LogManagerConfig
from penstock.storage.directories.log_manager import LogManager
from penstock.storage.disk.files import FileSystem
from penstock.storage.partition.log import Log
from waiting import wait_until

TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))
SMALL_SEGMENTS = LogConfig(segment_bytes=2000)


class InterruptedFiles(FileSystem):
    """Files that run a planned callback once during a call on a path, and record syncs."""

    def __init__(self) -> None:
        self.before_open: dict[Path, Callable[[], object]] = {}
        self.after_rename: dict[Path, Callable[[], object]] = {}
        self.synced: list[str] = []

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:  # type: ignore[override]
        self.before_open.pop(path, lambda: None)()
        return FileSystem.open(path, flags, mode)

    def rename(self, source: Path, target: Path) -> None:  # type: ignore[override]
        FileSystem.rename(source, target)
        self.after_rename.pop(source, lambda: None)()

    def sync_path(self, path: Path) -> None:
        self.synced.append(path.name)
        super().sync_path(path)


@pytest.fixture
def files(bench: LogBench) -> InterruptedFiles:
    bench.files = files = InterruptedFiles()
    bench.config = SMALL_SEGMENTS
    return files


def log_of_segments(bench: LogBench, count: int) -> Log:
    """A log of this many segments as after a crash: nothing flushed, no file open."""
    log = bench.open()
    while len(log.segments) < count:
        append_values(log, b"x" * 100, timestamp=START_MS + log.log_end_offset)
    return bench.open()


def drop_first_segment(log: Log) -> None:
    log.delete_records_before(log.segments.base_offsets[1])
    assert log.delete_old_segments(START_MS) == 1


def test_retention_takes_a_segment_that_is_about_to_be_flushed(
    bench: LogBench, files: InterruptedFiles
) -> None:
    log = log_of_segments(bench, 3)
    files.before_open[log.segments.first.file.path] = lambda: drop_first_segment(log)
    log.flush()
    assert log.failure is None
    assert log.recovery_point == log.log_end_offset


def test_retention_takes_a_segment_in_which_a_time_is_looked_for(
    bench: LogBench, files: InterruptedFiles
) -> None:
    log = log_of_segments(bench, 3)
    second = log.segments.base_offsets[1]
    files.before_open[log.segments.first.file.path] = lambda: drop_first_segment(log)
    found = log.offset_for_timestamp(START_MS)
    assert found is not None
    assert found.offset == second


def test_a_topic_is_deleted_while_its_log_is_flushed(tmp_path: Path) -> None:
    files = InterruptedFiles()
    manager = LogManager([tmp_path], node_id=1, clock=Clock(), files=files)
    log = manager.create("flights", TOPIC_ID, 0, SMALL_SEGMENTS)
    append_values(log, b"x")
    files.after_rename[log.directory] = log.flush
    manager.delete("flights", 0)
    assert log.failure == "the topic is deleted"
    manager.close()


def test_a_topic_is_deleted_while_its_leader_epochs_are_written(tmp_path: Path) -> None:
    files, told = InterruptedFiles(), []
    manager = LogManager(
        [tmp_path], node_id=1, clock=Clock(), files=files, io_error=lambda log, error: told.append(error)
    )
    log = manager.create("flights", TOPIC_ID, 0, SMALL_SEGMENTS)
    append_values(log, b"x")
    files.before_open[log.directory / "leader-epoch-checkpoint.tmp"] = lambda: manager.delete("flights", 0)
    log.flush()
    assert log.deleted
    assert told == [], "a file that is gone with its topic is no failed disk"
    manager.close()


def test_the_indexes_of_a_segment_flushed_while_active_are_synced(
    bench: LogBench, files: InterruptedFiles
) -> None:
    log = bench.open()
    append_values(log, b"x")
    log.flush()
    log.roll()
    files.synced.clear()
    log.flush()
    assert {f"{0:020d}.index", f"{0:020d}.timeindex"} <= set(files.synced)


def test_a_log_that_is_being_closed_takes_no_appends(bench: LogBench, files: InterruptedFiles) -> None:
    log = bench.open()
    append_values(log, b"a")
    refusals = []

    def append_too_late() -> None:
        try:
            append_values(log, b"b")
        except Exception as error:
            refusals.append(error)

    files.before_open[bench.file(0, ".index")] = append_too_late
    log.close()
    assert len(refusals) == 1
    assert read_all(bench.open(clean=True)) == [(0, b"a")]


class SlowManager(LogManager):
    """A manager whose only worker waits for the test; it counts the started removals of files."""

    def __init__(self, directory: Path) -> None:
        config = LogManagerConfig(num_recovery_threads_per_data_dir=1)
        super().__init__([directory], node_id=1, clock=Clock(), config=config)
        self.go_on = threading.Event()
        self.removals = 0
        self._background.run(self._stand_still)

    def _stand_still(self) -> None:
        self.go_on.wait(60)

    def remove_deleted_files(self, now_ms: int) -> None:
        self.removals += 1
        super().remove_deleted_files(now_ms)


def test_the_log_of_a_recreated_topic_is_flushed_for_itself(tmp_path: Path) -> None:
    manager = SlowManager(tmp_path)
    append_values(manager.create("flights", TOPIC_ID, 0, SMALL_SEGMENTS), b"old")
    manager.delete("flights", 0)
    log = manager.create("flights", OTHER_ID, 0, SMALL_SEGMENTS)
    append_values(log, b"new")
    manager.go_on.set()
    wait_until(lambda: log.recovery_point == 1)
    manager.close()


def test_a_slow_disk_gets_no_second_task_of_a_kind(tmp_path: Path) -> None:
    manager = SlowManager(tmp_path)
    for second in range(10):
        manager.tick(START_MS + second * 1000)
    manager.go_on.set()
    wait_until(lambda: manager.removals == 1 and manager._background._periodic["removal"].done())
    manager.tick(START_MS + 20_000)
    wait_until(lambda: manager.removals == 2)
    manager.close()
