"""A full or failing disk: acknowledged data is there, and rejected data is not."""

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from log_building import LogBench, append_marker, append_values, read_all

from penstock.protocol.errors import ErrorCode
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import FileSystem
from penstock.storage.errors import CorruptLog, StorageFailed
from penstock.storage.partition.log import Log, LogHooks


class FailingFiles(FileSystem):
    """Files that fail the calls named in `failing`; a failing write leaves `torn_bytes` behind."""

    def __init__(self) -> None:
        self.failing: set[str] = set()
        self.torn_bytes = 0
        self.error = errno.ENOSPC
        self.dropped: list[str] = []
        """The files whose clean pages were dropped from the cache."""

    def _check(self, call: str) -> None:
        if call in self.failing:
            raise OSError(self.error, "injected")

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        if "pwrite" in self.failing and self.torn_bytes:
            torn = min(self.torn_bytes, len(data) - 1)
            self.torn_bytes = 0
            return FileSystem.pwrite(fd, memoryview(data)[:torn], position)
        self._check("pwrite")
        return FileSystem.pwrite(fd, data, position)

    def ftruncate(self, fd: int, size: int) -> None:
        self._check("ftruncate")
        FileSystem.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self._check("fdatasync")
        FileSystem.fdatasync(fd)

    def drop_clean_cache(self, fd: int) -> None:
        self.dropped.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        super().drop_clean_cache(fd)

    def open(self, path: object, flags: int, mode: int = 0o777) -> int:
        self._check("open")
        return FileSystem.open(path, flags, mode)  # type: ignore[arg-type]


@pytest.fixture
def files(bench: LogBench) -> FailingFiles:
    bench.files = failing = FailingFiles()
    return failing


@pytest.mark.parametrize("torn_bytes", [0, 1, 50, 10_000])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_leaves_the_log_as_it_was(
    bench: LogBench, files: FailingFiles, torn_bytes: int, error: int
) -> None:
    log = bench.open()
    append_values(log, b"a")
    before = bench.file(0, ".log").read_bytes()
    files.failing, files.torn_bytes, files.error = {"pwrite"}, torn_bytes, error
    with pytest.raises(StorageFailed) as raised:
        append_values(log, b"b" * 100, producer_id=1, producer_epoch=0, base_sequence=0)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.file(0, ".log").read_bytes() == before
    assert log.log_end_offset == 1
    assert log.producer_state.producers == {}
    assert read_all(log) == [(0, b"a")], "it stays up for reading"
    files.failing = set()
    assert append_values(log, b"c", producer_id=1, producer_epoch=0, base_sequence=0).first_offset == 1
    log.close()
    assert read_all(bench.open(clean=True)) == [(0, b"a"), (1, b"c")]


def test_a_disk_that_stays_full_is_complained_of_now_and_then(
    bench: LogBench, files: FailingFiles, caplog: pytest.LogCaptureFixture
) -> None:
    log = bench.open()
    files.failing = {"pwrite"}
    for complaints in (1, 2):
        for _ in range(50):
            with pytest.raises(StorageFailed):
                append_values(log, b"a")
        told = [message for message in caplog.messages if "cannot write log=" in message]
        assert len(told) == complaints
        bench.clock.now_ms += 10_000


def test_what_a_failed_sync_left_in_the_cache_is_dropped_at_once(
    bench: LogBench, files: FailingFiles
) -> None:
    """The kernel marks such pages as written, and recovery after a mere kill trusts the cache."""
    log = bench.open()
    append_values(log, b"a")
    log.flush()
    assert files.dropped == []
    append_values(log, b"b")
    files.failing, files.error = {"fdatasync"}, errno.EIO
    with pytest.raises(StorageFailed):
        log.flush()
    assert files.dropped == ["00000000000000000000.log"]
    files.failing = set()
    assert read_all(bench.open()) == [(0, b"a"), (1, b"b")], "this disk has them all the same"
    assert files.dropped == ["00000000000000000000.log"]


def test_a_write_that_cannot_be_taken_back_closes_the_log_for_appends(
    bench: LogBench, files: FailingFiles
) -> None:
    told: list[tuple[Log, OSError]] = []
    log = Log.open(
        bench.directory,
        "flights",
        0,
        bench.config,
        clean=False,
        recovery_point=0,
        clock=bench.clock,
        files=files,
        hooks=LogHooks(io_error=lambda log, error: told.append((log, error))),
    )
    append_values(log, b"a")
    files.failing, files.torn_bytes = {"pwrite", "ftruncate"}, 30
    with pytest.raises(StorageFailed):
        append_values(log, b"b")
    assert told[0][0] is log
    files.failing = set()
    with pytest.raises(StorageFailed):
        append_values(log, b"b")
    assert read_all(log) == [(0, b"a")]
    log.close()
    assert not log.closed, "not cleanly"
    reopened = bench.open()
    assert read_all(reopened) == [(0, b"a")]


@pytest.mark.parametrize("call", ["open", "ftruncate", "pwrite"])
def test_a_roll_that_fails_can_be_tried_again(bench: LogBench, files: FailingFiles, call: str) -> None:
    bench.config = LogConfig(segment_bytes=300, index_interval_bytes=0)
    log = bench.open()
    append_values(log, b"a" * 150)
    files.failing = {call}
    with pytest.raises(StorageFailed):
        append_values(log, b"b" * 150, producer_id=1, producer_epoch=0, base_sequence=0)
    assert read_all(log) == [(0, b"a" * 150)]
    files.failing = set()
    append_values(log, b"c" * 150, producer_id=1, producer_epoch=0, base_sequence=0)
    assert log.segments.base_offsets == [0, 1]
    expected = [(0, b"a" * 150), (1, b"c" * 150)]
    assert read_all(log) == expected
    log.flush()
    assert read_all(bench.open()) == expected


def test_an_index_run_that_cannot_be_written_refuses_the_append_before_it_is_made(
    bench: LogBench, files: FailingFiles
) -> None:
    bench.config = LogConfig(index_interval_bytes=0)
    log = bench.open()
    for i in range(65):
        append_values(log, b"%d" % i)
    files.failing = {"open"}
    with pytest.raises(StorageFailed):
        append_values(log, b"refused")
    files.failing = set()
    append_values(log, b"65")
    assert [value for _, value in read_all(log)] == [b"%d" % i for i in range(66)]


def test_a_failed_sync_moves_no_recovery_point_and_ends_appends(bench: LogBench, files: FailingFiles) -> None:
    """After a failed fsync the kernel may drop dirty pages; no later sync proves that they were written."""
    log = bench.open()
    append_values(log, b"a")
    files.failing, files.error = {"fdatasync"}, errno.EIO
    with pytest.raises(StorageFailed):
        log.flush()
    assert log.recovery_point == 0
    files.failing = set()
    with pytest.raises(StorageFailed):
        append_values(log, b"b")


def test_leader_epochs_that_find_no_room_are_written_later(bench: LogBench, files: FailingFiles) -> None:
    log = bench.open()
    append_values(log, b"a")
    files.failing = {"open"}
    with pytest.raises(StorageFailed, match="leader epochs"):
        log.flush()
    append_values(log, b"b")
    assert log.recovery_point == 0
    files.failing = set()
    log.flush()
    assert log.recovery_point == 2


def test_after_a_sync_that_failed_readers_get_nothing_unchecked(bench: LogBench, files: FailingFiles) -> None:
    log = bench.open()
    append_values(log, b"a")
    found = log.read(0, 1000)
    assert found is not None
    assert found.is_ready(0.0), "this process appended it"
    files.failing, files.error = {"fdatasync"}, errno.EIO
    with pytest.raises(StorageFailed):
        log.flush()
    assert not found.is_ready(0.0), "its pages may be gone, and zeros in their place"
    os.pwrite(found.fd, bytes(found.size), found.position)
    with pytest.raises(CorruptLog):
        log.check(found, 0)


def test_an_aborted_transaction_that_cannot_be_indexed_ends_appends(
    bench: LogBench, files: FailingFiles
) -> None:
    log = bench.open()
    append_values(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    files.failing = {"open"}
    with pytest.raises(StorageFailed):
        append_marker(log, 5, 0, committed=False)
    files.failing = set()
    with pytest.raises(StorageFailed):
        append_values(log, b"b")
    assert bench.open().aborted_transactions(0, 5) == [(5, 0, 1, 2)], "recovery indexes it"


@pytest.fixture
def file_size_limit() -> Iterator[int]:
    """Make the kernel cut writes short at this file size and reject further ones (RLIMIT_FSIZE)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = 10_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_limit_set_by_the_kernel(bench: LogBench, file_size_limit: int) -> None:
    log = bench.open()
    values = []
    while log.size_bytes < file_size_limit - 500:
        values.append(b"%03d" % len(values) * 100)
        append_values(log, values[-1])
    with pytest.raises(StorageFailed):
        append_values(log, b"x" * 600)
    assert bench.file(0, ".log").stat().st_size == log.size_bytes < file_size_limit
    assert [value for _, value in read_all(log)] == values
    log.roll()
    append_values(log, b"there is space in a new file")
