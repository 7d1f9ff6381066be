"""Large slices that are not in memory are read past the page cache: complete, checked, up to a batch end."""

import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from log_building import LogBench, append_values

from penstock.protocol import batch
from penstock.storage.config import LogConfig
from penstock.storage.disk.direct_buffers import BUFFER_BYTES, Buffers
from penstock.storage.disk.page_cache import PAGE_CACHE
from penstock.storage.partition.log import Log
from penstock.storage.reading.direct_reads import read_directly
from penstock.storage.segments.file_slice import FileSlice

MIB = 1 << 20
PAGE = 4096


@pytest.fixture
def cold_log(bench: LogBench) -> Log:
    """A log of 300 batches of 10 KiB in one segment, with only the first page's header in memory."""
    log = bench.open()
    for number in range(300):
        append_values(log, b"%5d" % number * 2048)
    log.flush()
    path = log.segments.first.file.path
    drop_from_memory(path)
    assert not slice_at(log, 0).is_ready(0.0)  # from now on it is known to be cold
    drop_from_memory(path)
    return log


def drop_from_memory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if PAGE_CACHE.holds_most(fd, MIB, MIB):
            pytest.skip("this file system keeps all in memory")
    finally:
        os.close(fd)


def slice_at(log: Log, offset: int, max_bytes: int = MIB, *, wait: bool = True) -> FileSlice:
    found = log.read(offset, max_bytes, wait=wait)
    assert found is not None
    return found


def read_or_skip(found: FileSlice, buffers: Buffers | None = None) -> list[FileSlice]:
    slices = read_directly(found, buffers or Buffers())
    if not slices:
        pytest.skip("this file system has no direct reads")
    assert slices[0] is found
    return slices


def test_a_reader_in_sequence_reads_all_without_the_page_cache(cold_log: Log) -> None:
    content = cold_log.segments.first.file.path.read_bytes()
    found: FileSlice | None = slice_at(cold_log, 0)
    drop_from_memory(cold_log.segments.first.file.path)
    offset, read = 0, b""
    while found is not None:
        assert not found.is_ready(0.0)
        read_or_skip(found)
        assert found.is_ready(0.0)
        assert found.data is not None
        assert len(found.data) == len(found) <= MIB
        headers = [header for _, header in batch.iter_headers(found.data)]
        assert headers[0].base_offset == offset
        offset = headers[-1].next_offset
        assert not found.is_cut or found.read_next_offset() == offset
        read += found.data
        found.note_checked()  # which sets the next position of the reader
        found = cold_log.read(offset, MIB, wait=False)
        assert found is None or found.is_loose or not found.is_cut
    assert offset == 300
    assert read == content


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(("max_bytes", "reads_ahead"), [(MIB, False), (MIB // 8, True)])
def test_the_kernel_reads_ahead_of_small_reads_only(
    cold_log: Log, bench: LogBench, max_bytes: int, reads_ahead: bool, is_open: bool
) -> None:
    log = cold_log if is_open else bench.open(clean=True)
    file = log.segments.first.file
    drop_from_memory(file.path)
    for size in (MIB // 8 if not reads_ahead else MIB, max_bytes):  # the last reader decides
        with suppress(BlockingIOError):
            log.read(0, size, wait=False)
    drop_from_memory(file.path)
    for position in (0, PAGE):
        file.pread(PAGE, position)
    assert PAGE_CACHE.holds(file.fd, 0, 2 * PAGE)
    assert PAGE_CACHE.holds(file.fd, 2 * PAGE, PAGE) == reads_ahead


def test_what_follows_is_known_before_it_is_asked_for(cold_log: Log) -> None:
    slices = read_or_skip(slice_at(cold_log, 0, 512 * 1024))
    assert len(slices) == 4
    assert BUFFER_BYTES - MIB // 8 < sum(map(len, slices)) <= BUFFER_BYTES
    for found, following in pairwise(slices):
        assert following.data is not None
        assert following.position == found.position + len(found)
        assert batch.parse_header(following.data).base_offset == found.read_next_offset()
    following = slices[-1].following()
    assert following is not None
    assert following.is_on_disk
    last = slice_at(cold_log, 290)
    assert last.following() is None


def test_the_rest_of_a_log_is_read_with_what_is_before_it(cold_log: Log) -> None:
    found, last = read_or_skip(slice_at(cold_log, 150))
    assert found.is_cut
    assert last.data is not None
    assert [header.next_offset for _, header in batch.iter_headers(last.data)][-1] == 300
    assert not last.is_cut


def test_what_is_in_memory_is_not_read_with_what_is_not(cold_log: Log) -> None:
    size = slice_at(cold_log, 0).size
    slice_at(cold_log, 0).file.pread(2 * MIB, size)
    assert len(read_or_skip(slice_at(cold_log, 0))) == 1


def test_damage_ends_what_is_given_out(cold_log: Log) -> None:
    path = cold_log.segments.first.file.path
    data = path.read_bytes()
    place = [position for position, _ in batch.iter_headers(data)][17]
    with path.open("r+b") as file:
        file.seek(place + 500)
        file.write(b"?")
    found = slice_at(cold_log, 0)
    assert read_or_skip(found) == [found]
    assert len(found) == place
    assert found.is_cut
    assert not read_directly(slice_at(cold_log, 17))  # the ordinary read reports the damage


def test_buffers_are_bounded_and_used_again(cold_log: Log) -> None:
    buffers = Buffers(2)
    slices = [slice_at(cold_log, offset) for offset in (0, 50, 100)]
    assert buffers.are_plenty
    read_or_skip(slices[0], buffers)
    assert buffers.are_plenty
    assert read_directly(slices[1], buffers)
    assert not buffers.are_plenty
    assert not read_directly(slices[2], buffers)
    del slices[0]
    assert read_directly(slices[1], buffers)


def test_a_batch_larger_than_a_buffer_is_read_the_plain_way(bench: LogBench) -> None:
    bench.config = LogConfig(max_message_bytes=8 * MIB)
    log = bench.open()
    append_values(log, b"x" * 3 * MIB)
    append_values(log, b"y")
    assert not read_directly(slice_at(log, 0, 8 * MIB))
