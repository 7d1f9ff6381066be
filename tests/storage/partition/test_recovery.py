"""Opening after an unclean stop: truncated, rebuilt and unchanged files."""

import logging
import random
import shutil
import struct
import zlib
from pathlib import Path

import pytest
from log_building import START_MS, LogBench, append_marker, append_values, read_all, values_batch

from penstock.storage.config import LogConfig


def grown(bench: LogBench, batches: int = 40, value_bytes: int = 60) -> list[tuple[int, bytes | None]]:
    """Fill a log over several segments, close it, and return its content."""
    log = bench.open()
    for i in range(batches):
        append_values(log, b"%d" % i, b"x" * value_bytes, epoch=i // 15, timestamp=START_MS + i * 3)
    content = read_all(log)
    log.close()
    return content


def test_torn_tail_is_cut_at_the_last_whole_batch_wherever_it_was_torn(
    bench: LogBench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = bench.open()
    append_values(log, b"kept", epoch=0)
    whole = log.size_bytes
    append_values(log, b"torn", b"torn too", epoch=1)
    log.flush()
    data = bench.file(0, ".log").read_bytes()
    for length in range(whole, len(data) + 1):
        copy = LogBench(tmp_path / f"cut-{length}" / "flights-0")
        shutil.copytree(bench.directory, copy.directory)
        copy.file(0, ".log").write_bytes(data[:length])
        caplog.clear()
        recovered = copy.open()
        intact = length == len(data)
        assert recovered.log_end_offset == (3 if intact else 1)
        assert copy.file(0, ".log").stat().st_size == (len(data) if intact else whole)
        assert recovered.leader_epochs.latest == int(intact)
        assert append_values(recovered, b"next").first_offset == recovered.log_end_offset - 1
        if whole < length < len(data):
            message = caplog.text
            assert "flights-0" in message
            assert "end_offset=1 " in message
            assert str(copy.file(0, ".log")) in message


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_cuts_there_and_drops_what_follows(bench: LogBench, seed: int) -> None:
    rng = random.Random(seed)
    bench.config = LogConfig(segment_bytes=900, index_interval_bytes=200)
    content = grown(bench)
    names = sorted(bench.directory.glob("*.log"))
    path = rng.choice(names)
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    log = bench.open()
    recovered = read_all(log)
    # the checksum does not cover base offset and epoch: a flip may pass, or result in an impossible offset
    assert len(recovered) % 2 == 0
    assert [value for _, value in recovered] == [value for _, value in content][: len(recovered)]
    base = int(path.stem)
    assert len([o for o, _ in recovered if o < base]) == base
    assert log.segments.base_offsets[-1] <= max(base, log.log_end_offset)
    append_values(log, b"on")
    assert read_all(log)[-1] == (log.log_end_offset - 1, b"on")


def test_recovery_rebuilds_indexes_as_they_were(bench: LogBench) -> None:
    bench.config = LogConfig(segment_bytes=4000, index_interval_bytes=300)
    content = grown(bench)
    indexes = {
        p.name: p.read_bytes() for p in bench.directory.iterdir() if p.suffix in (".index", ".timeindex")
    }
    for name in indexes:
        (bench.directory / name).write_bytes(bytes(1000))
    log = bench.open()
    assert {name: (bench.directory / name).read_bytes() for name in indexes} == indexes
    assert any(len(data) > 16 for data in indexes.values())
    assert read_all(log) == content


def test_segments_below_the_recovery_point_are_not_read(bench: LogBench) -> None:
    bench.config = LogConfig(segment_bytes=900)
    grown(bench)
    first = sorted(bench.directory.glob("*.log"))[0]
    data = bytearray(first.read_bytes())
    data[70] ^= 1
    first.write_bytes(data)
    bench.recovery_point = 80
    assert bench.open().log_end_offset == 80
    bench.recovery_point = 0
    assert bench.open().log_end_offset < 14


def test_a_clean_log_is_opened_without_reading_it(bench: LogBench) -> None:
    bench.config = LogConfig(segment_bytes=3000, index_interval_bytes=300)
    grown(bench, batches=100)

    class CountingFiles(type(bench.files)):  # type: ignore[misc]
        bytes_read = 0

        def pread(self, fd: int, size: int, position: int) -> bytes:
            data = super().pread(fd, size, position)
            CountingFiles.bytes_read += len(data)
            return data

    bench.files = CountingFiles()
    log = bench.open(clean=True)
    assert log.log_end_offset == 200
    assert CountingFiles.bytes_read < 3000 < log.size_bytes


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_rebuilt_even_after_a_clean_stop(bench: LogBench, suffix: str) -> None:
    bench.config = LogConfig(segment_bytes=900, index_interval_bytes=100)
    content = grown(bench)
    victim = sorted(bench.directory.glob("*" + suffix))[1]
    before = victim.read_bytes()
    victim.unlink()
    log = bench.open(clean=True)
    assert victim.read_bytes() == before
    assert read_all(log) == content


def test_preallocated_space_after_a_crash_is_given_back(bench: LogBench) -> None:
    bench.config = LogConfig(preallocate=True, segment_bytes=20_000)
    log = bench.open()
    append_values(log, b"a")
    size = log.size_bytes
    assert bench.file(0, ".log").stat().st_size == 20_000
    log.flush()
    assert read_all(bench.open()) == [(0, b"a")]
    assert bench.file(0, ".log").stat().st_size == size


def test_leftovers_are_removed_and_an_orphaned_index_too(bench: LogBench) -> None:
    grown(bench, batches=3)
    stray = [
        bench.file(0, ".log.deleted"),
        bench.file(7, ".snapshot.deleted"),
        bench.file(0, ".log.cleaned"),
        bench.file(999, ".index"),
        bench.directory / "leader-epoch-checkpoint.tmp",
    ]
    kept = bench.directory / "00000000000000000005-0000000001.checkpoint.deleted"
    for path in (*stray, kept):
        path.write_bytes(b"")
    assert len(read_all(bench.open())) == 6
    assert not any(path.exists() for path in stray)
    assert kept.exists()


def test_an_interrupted_swap_is_completed(bench: LogBench) -> None:
    """Compaction renames its result to .swap before it removes the originals."""
    bench.config = LogConfig(segment_bytes=900)
    content = grown(bench)
    bases = sorted(int(path.stem) for path in bench.directory.glob("*.log"))
    for suffix in (".log", ".index", ".timeindex"):
        bench.file(0, suffix).rename(bench.file(0, suffix + ".swap"))
    log = bench.open()
    assert log.segments.base_offsets == bases
    assert read_all(log) == content
    assert not list(bench.directory.glob("*.swap"))


def test_files_lost_below_the_start_offset_begin_the_log_anew(bench: LogBench) -> None:
    log = bench.open()
    append_values(log, b"a")
    log.close()
    log = bench.open(clean=True, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert append_values(log, b"b").first_offset == 50


def legacy_message(offset: int, magic: int, value: bytes, timestamp: int = START_MS) -> bytes:
    """A message of magic 0 or 1, as brokers before 0.11 wrote them."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(message)) + message


def test_old_messages_are_recovered_served_and_followed(bench: LogBench) -> None:
    bench.directory.mkdir()
    old = [
        legacy_message(0, 0, b"zero"),
        legacy_message(1, 1, b"one"),
        legacy_message(2, 1, b"two", START_MS + 9),
    ]
    bench.file(0, ".log").write_bytes(b"".join(old) + old[0][:20])
    log = bench.open()
    assert log.log_end_offset == 3
    append_values(log, b"new")
    assert read_all(log) == [(0, b"zero"), (1, b"one"), (2, b"two"), (3, b"new")]
    piece = log.read(1, len(old[1]))
    assert piece is not None
    assert piece.read() == old[1]
    assert log.offset_for_timestamp(START_MS + 1) == (START_MS + 9, 2, -1)


def test_transactions_are_replayed(bench: LogBench) -> None:
    log = bench.open()
    append_values(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    append_values(log, b"b", producer_id=6, producer_epoch=0, base_sequence=0, transactional=True)
    append_marker(log, 5, 0, committed=False)
    assert [log.last_stable_offset(mark) for mark in (2, 3)] == [0, 1]
    aborted = log.aborted_transactions(0, 10)
    assert aborted == [(5, 0, 2, 1)]
    log.flush()
    again = bench.open()
    assert again.aborted_transactions(0, 10) == aborted
    assert again.last_stable_offset(3) == 1
    append_marker(again, 6, 0, committed=True)
    assert again.last_stable_offset(4) == 4
    again.close()
    assert bench.open(clean=True).last_stable_offset(4) == 4


def test_recovery_is_told_only_when_something_was_cut(
    bench: LogBench, caplog: pytest.LogCaptureFixture
) -> None:
    grown(bench)
    with caplog.at_level(logging.WARNING):
        bench.open()
    assert caplog.text == ""


def test_base_offsets_that_go_back_are_corruption(bench: LogBench) -> None:
    log = bench.open()
    append_values(log, b"a", b"b")
    append_values(log, b"c")
    log.close()
    first = len(values_batch([b"a", b"b"]))
    data = bytearray(bench.file(0, ".log").read_bytes())
    data[first : first + 8] = struct.pack(">q", 0)
    bench.file(0, ".log").write_bytes(data)
    assert read_all(bench.open()) == [(0, b"a"), (1, b"b")]


def test_an_end_below_the_last_segment_is_damage_even_after_a_clean_stop(bench: LogBench) -> None:
    bench.config = LogConfig(segment_bytes=300)
    content = grown(bench, batches=9)
    bases = [int(path.stem) for path in sorted(bench.directory.glob("*.log"))]
    data = bytearray(bench.file(bases[-1], ".log").read_bytes())
    last = len(data) - len(values_batch([b"8", b"x" * 60]))
    data[last : last + 8] = struct.pack(">q", 0)
    bench.file(bases[-1], ".log").write_bytes(data)
    log = bench.open(clean=True)
    assert log.log_end_offset >= bases[-1]
    assert read_all(log) == content[: log.log_end_offset]
    assert append_values(log, b"next").first_offset == log.log_end_offset - 1


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_ends_below_its_start_begins_anew_without_producers(bench: LogBench, clean: bool) -> None:
    """A power cut lost the records but not the start offset, so the state of producers is unknown."""
    log = bench.open()
    for number in range(3):
        append_values(log, b"%d" % number, producer_id=7, producer_epoch=0, base_sequence=number)
    log.close()
    log = bench.open(clean=clean, log_start_offset=5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    append_values(log, b"later", producer_id=7, producer_epoch=0, base_sequence=5)
    assert read_all(log) == [(5, b"later")]
