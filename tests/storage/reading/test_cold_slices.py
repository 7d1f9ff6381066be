"""The event loop sends data that is in memory and checked; other data is read and checked first."""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from log_building import LogBench, append_values

from penstock.protocol import batch
from penstock.storage.config import LogConfig
from penstock.storage.disk.page_cache import PAGE_CACHE, PageCache, read_resident
from penstock.storage.errors import CorruptLog
from penstock.storage.partition.log import Log
from penstock.storage.reading.slice_check import sound_end
from penstock.storage.segments.file_slice import FileSlice
from penstock.storage.segments.readiness import Readiness

MIB = 1 << 20
SIZE = 100 * MIB


class ToldPageCache(PageCache):
    """A page cache whose absent ranges a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.absent: set[range] = set()
        self.asked = 0

    def holds(self, fd: int, position: int, size: int) -> bool:
        self.asked += 1
        return not any(position < gone.stop and gone.start < position + size for gone in self.absent)


@pytest.fixture
def cache() -> ToldPageCache:
    return ToldPageCache()


@pytest.fixture
def grown_file(tmp_path: Path) -> Iterator[int]:
    """A descriptor of a file of `SIZE` bytes."""
    with (tmp_path / "grown").open("w+b") as file:
        file.truncate(SIZE)
        yield file.fileno()


def covers(
    readiness: Readiness, position: int, end: int, segment_end: int, now_s: float = 0.0, fd: int = -1
) -> bool:
    return readiness.covers(fd, position, end, segment_end, now_s)


def test_what_this_process_appended_is_ready_and_what_it_found_is_not(cache: ToldPageCache) -> None:
    readiness = Readiness(1000, cache)
    assert covers(readiness, 1000, 1500, 9000)
    assert not covers(readiness, 500, 900, 9000)
    assert not covers(readiness, 900, 1100, 9000)


def test_checked_ranges_join_each_other_and_the_appended_bytes(cache: ToldPageCache) -> None:
    readiness = Readiness(1000, cache)
    readiness.note_checked(-1, 200, 400)
    readiness.note_checked(-1, 600, 800)
    assert covers(readiness, 200, 400, 9000)
    assert covers(readiness, 650, 700, 9000)
    assert not covers(readiness, 300, 500, 9000)
    assert not covers(readiness, 0, 100, 9000)
    readiness.note_checked(-1, 400, 600)
    assert covers(readiness, 200, 800, 9000)
    assert not covers(readiness, 200, 2000, 9000)
    readiness.note_checked(-1, 700, 1000)
    assert covers(readiness, 200, 2000, 9000)


def test_many_scattered_ranges_are_not_all_remembered(cache: ToldPageCache) -> None:
    readiness = Readiness(MIB, cache)
    for start in range(0, 200_000, 2000):
        readiness.note_checked(-1, start, start + 1000)
        assert covers(readiness, start, start + 1000, 2 * MIB)
    assert not covers(readiness, 0, 1000, 2 * MIB)


def test_what_left_memory_must_be_checked_again(cache: ToldPageCache, grown_file: int) -> None:
    readiness = Readiness(0, cache)
    assert covers(readiness, 0, MIB, SIZE, fd=grown_file)
    cache.absent = {range(5 * MIB + 4096, 5 * MIB + 8192)}
    assert not covers(readiness, 5 * MIB, 6 * MIB, SIZE, fd=grown_file)
    cache.absent = set()  # a reader loads it again
    assert not covers(readiness, 5 * MIB, 6 * MIB, SIZE, fd=grown_file)
    readiness.note_checked(grown_file, 5 * MIB, 6 * MIB)
    assert covers(readiness, 5 * MIB, 6 * MIB, SIZE, fd=grown_file)


def test_one_page_that_is_gone_costs_no_trust_in_those_that_are_there(
    cache: ToldPageCache, grown_file: int
) -> None:
    readiness = Readiness(0, cache)
    cache.absent = {range(5 * MIB, 5 * MIB + 4096)}
    for start in range(SIZE // MIB):
        ready = covers(readiness, start * MIB, (start + 1) * MIB, SIZE, fd=grown_file)
        assert ready == (start != 5)
    assert readiness.plan_check(grown_file, 5 * MIB, 6 * MIB, SIZE, 4 * MIB) == (5 * MIB, 6 * MIB)


def test_what_the_kernel_may_read_ahead_is_not_known_any_more(cache: ToldPageCache, grown_file: int) -> None:
    readiness = Readiness(0, cache)
    cache.absent = {range(5 * MIB, 9 * MIB), range(60 * MIB, 61 * MIB)}
    assert not covers(readiness, 5 * MIB, 6 * MIB, SIZE, fd=grown_file)
    cache.absent = set()
    assert not covers(readiness, 8 * MIB, 9 * MIB, SIZE, fd=grown_file)
    assert covers(readiness, 9 * MIB, 10 * MIB, SIZE, fd=grown_file)
    assert covers(readiness, 60 * MIB, 61 * MIB, SIZE, fd=grown_file)  # too far for it
    readiness.forget(grown_file, 30 * MIB, 30 * MIB + 100, being_read=True)  # it may hold new content
    assert not covers(readiness, 40 * MIB, 41 * MIB, SIZE, fd=grown_file)
    assert covers(readiness, 50 * MIB, 51 * MIB, SIZE, fd=grown_file)


def test_who_reads_in_sequence_gets_more_checked_each_byte_once(
    cache: ToldPageCache, grown_file: int
) -> None:
    readiness = Readiness(SIZE, cache)
    position, checks = 0, []
    while position + MIB < SIZE:
        end = position + MIB - 1000  # the last whole batch ends before the limit
        if not covers(readiness, position, end, SIZE, fd=grown_file):
            start, stop = readiness.plan_check(grown_file, position, end, SIZE, 4 * MIB)
            checks.append((start, stop - 10))
            readiness.note_checked(grown_file, start, stop - 10)
            assert covers(readiness, position, end, SIZE, fd=grown_file)
        position = end
    assert all(first[1] == second[0] for first, second in pairwise(checks))
    assert len(checks) < SIZE / MIB / 4
    assert readiness.plan_check(grown_file, 0, MIB, SIZE, 4 * MIB)[1] == MIB


def test_who_reads_anywhere_gets_what_he_asks_for(cache: ToldPageCache, grown_file: int) -> None:
    readiness = Readiness(SIZE, cache)
    assert readiness.plan_check(grown_file, 7 * MIB, 8 * MIB, SIZE, 4 * MIB) == (7 * MIB, 8 * MIB)


def test_a_tail_found_cold_is_trusted_no_more(cache: ToldPageCache, grown_file: int) -> None:
    readiness = Readiness(0, cache)
    cache.absent = {range(SIZE - 3000, SIZE)}
    assert not covers(readiness, SIZE - 4000, SIZE, SIZE, fd=grown_file)
    cache.absent = set()
    assert not covers(readiness, SIZE - 4000, SIZE, SIZE, fd=grown_file)
    assert covers(readiness, SIZE, SIZE + 1000, SIZE + 1000, fd=grown_file)


def test_a_busy_tail_is_not_asked_about_each_time(cache: ToldPageCache) -> None:
    readiness = Readiness(0, cache)
    for number in range(100):
        end = 1000 + number * 10
        assert covers(readiness, end - 10, end, end, now_s=10 + number * 0.01)
    assert cache.asked == 1
    assert covers(readiness, 0, 10, 2000, now_s=12.0)  # older than the data in question
    assert cache.asked == 2
    assert covers(readiness, 1990, 2000, 2000, now_s=20.0)
    assert cache.asked == 3


def test_after_a_truncation_what_follows_is_appended_anew(cache: ToldPageCache) -> None:
    readiness = Readiness(1000, cache)
    readiness.note_checked(-1, 0, 600)
    readiness.truncate_to(400)
    assert covers(readiness, 0, 400, 5000)
    assert covers(readiness, 300, 900, 5000)


def test_a_file_system_that_cannot_tell_is_not_asked_again(cache: ToldPageCache, grown_file: int) -> None:
    readiness = Readiness(1000, cache)
    cache.absent = {range(10_000)}
    assert not covers(readiness, 2000, 3000, 9000, fd=grown_file)
    readiness.note_checked(-1, 2000, 3000)  # reported as absent although it was just read
    asked = cache.asked
    assert covers(readiness, 2000, 3000, 9000)
    assert cache.asked == asked


def drop_from_memory(path: Path) -> None:
    """Drop a file's pages from memory; skip the test if the file system has no other storage."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if PAGE_CACHE.holds(fd, 0, os.fstat(fd).st_size):
            pytest.skip("this file system keeps all in memory")
    finally:
        os.close(fd)


@pytest.mark.parametrize("has_cachestat", [True, False])
def test_the_kernel_tells_what_it_holds(tmp_path: Path, has_cachestat: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(3 * MIB + 77))
    cache = PageCache(has_cachestat=has_cachestat)
    with path.open("rb") as file:
        # Without read-ahead, as asking for some pages may bring others into memory a moment later.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        assert cache.holds(file.fileno(), 0, 3 * MIB + 77)
        assert cache.holds(file.fileno(), 4095, 2)
        assert read_resident(file.fileno(), 100, MIB) == path.read_bytes()[MIB : MIB + 100]
        assert len(read_resident(file.fileno(), 100, 3 * MIB)) == 77
        drop_from_memory(path)
        assert not cache.holds(file.fileno(), 0, MIB)
        # the kernel may keep a page or two that it is using
        gone = next(at for at in range(2 * MIB, 3 * MIB, 4096) if not PAGE_CACHE.holds(file.fileno(), at, 1))
        with pytest.raises(BlockingIOError):
            read_resident(file.fileno(), 100, gone)
        os.pread(file.fileno(), MIB, 0)
        assert cache.holds(file.fileno(), 0, MIB)


@pytest.fixture
def log(bench: LogBench) -> Log:
    """A log of three segments of 1 KiB batches, as after a clean start."""
    bench.config = LogConfig(segment_bytes=60_000, index_interval_bytes=1000)
    log = bench.open()
    for number in range(150):
        append_values(log, b"%4d" % number * 256)
    log.close()
    log = bench.open(clean=True)
    assert len(log.segments) >= 3
    return log


def read(log: Log, offset: int, max_bytes: int = 20_000) -> FileSlice:
    found = log.read(offset, max_bytes)
    assert found is not None
    return found


def test_what_a_start_finds_is_checked_once(log: Log) -> None:
    with pytest.raises(BlockingIOError):  # not even opened: the inode may have to be read
        log.read(0, 20_000, wait=False)
    found = read(log, 0)
    assert not found.is_ready(0.0)
    log.check(found, 0)
    found.note_checked()
    assert found.is_ready(0.0)
    again = log.read(0, 20_000, wait=False)
    assert again is not None
    assert again.is_ready(0.0)
    append_values(log, b"new")
    tail = read(log, 150)
    assert tail.is_ready(0.0)


def test_a_place_on_the_disk_is_not_looked_for_without_leave(log: Log) -> None:
    for segment in log.segments:
        segment.file.fd  # noqa: B018
        drop_from_memory(segment.file.path)
        drop_from_memory(segment.offset_index.path)
    with pytest.raises(BlockingIOError):
        log.read(40, 20_000, wait=False)
    found = read(log, 40)
    assert not found.is_ready(0.0)
    log.check(found, 40)
    found.note_checked()
    assert found.is_ready(0.0)


def test_damage_is_never_given_out(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    first = log.segments.first
    data = bytearray(first.file.path.read_bytes())
    positions = [position for position, _ in batch.iter_headers(data)]
    data[positions[7] + 500] ^= 0x10
    first.file.path.write_bytes(data)
    found = read(log, 0)
    log.check(found, 0)
    assert len(found) == positions[7]
    assert found.is_cut
    damaged = read(log, 7)
    for _ in range(2):
        with pytest.raises(CorruptLog, match="flights-0, read for offset 7"):
            log.check(damaged, 7)
    after = read(log, 8)
    log.check(after, 8)
    told = [message for message in caplog.messages if "corrupt log" in message]
    assert len(told) == 2  # once for each read of the damage, not for each request
    for message in told:
        assert "flights-0" in message
        assert str(first.file.path) in message
        assert f"byte {positions[7]} (offset 7)" in message


def test_damage_behind_a_slice_is_the_next_readers(log: Log) -> None:
    first = log.segments.first
    data = bytearray(first.file.path.read_bytes())
    positions = [position for position, _ in batch.iter_headers(data)]
    data[positions[17] + 500] ^= 0x10
    first.file.path.write_bytes(data)
    found = read(log, 0, 10_000)
    found.plan_check(4 * MIB)
    log.check(found, 0)
    found.note_checked()
    assert not found.is_cut or len(found) == positions[9]
    assert found.is_ready(0.0)
    behind = read(log, 9, 100_000)
    assert not behind.is_ready(0.0)
    behind.plan_check()
    log.check(behind, 9)
    assert behind.position + len(behind) == positions[17]


def test_batches_larger_than_a_buffer_are_checked(bench: LogBench) -> None:
    log = bench.open()
    for number in range(3):
        append_values(log, bytes([number]) * 700_000)
        append_values(log, b"small")
    log.close()
    found = read(bench.open(clean=True), 0, 10 * MIB)
    assert sound_end(found) == (len(found), None)


def test_offsets_that_do_not_go_up_are_damage(log: Log) -> None:
    first = log.segments.first
    data = bytearray(first.file.path.read_bytes())
    positions = [position for position, _ in batch.iter_headers(data)]
    data[positions[5] : positions[5] + 8] = (3).to_bytes(8, "big")
    first.file.path.write_bytes(data)
    found = read(log, 0)
    log.check(found, 0)
    assert len(found) == positions[5]


def test_readers_in_turn_find_their_places_without_the_index(log: Log) -> None:
    """The log keeps the position where a read ended, and discards it on truncation."""
    offset = 0
    while (found := log.read(offset, 5000)) is not None:
        headers = [header for _, header in batch.iter_headers(found.read())]
        assert headers[0].base_offset == offset
        offset = headers[-1].next_offset
    assert offset == 150
    log.truncate_to(140)
    assert log.read(140, 5000) is None
    append_values(log, b"other")
    assert read(log, 140).is_ready(0.0)
