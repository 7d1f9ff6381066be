"""One log, open and undisturbed: appends, reads, rolls, time lookups, truncation."""

import struct
import threading
from dataclasses import replace

import pytest
from log_building import START_MS, LogBench, append, append_values, read_all, values_batch

from penstock.protocol import batch
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, encode_batch
from penstock.storage.config import LogConfig
from penstock.storage.errors import CorruptLog, MessageTooLarge, OffsetOutOfRange, RecordListTooLarge


def test_appends_are_numbered_in_place_and_read_back(bench: LogBench) -> None:
    log = bench.open()
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert append_values(log, b"a", b"b", epoch=4) == (0, 1, -1, False)
    buffer = values_batch([b"c"])
    log.append(memoryview(buffer), batch.validate(memoryview(buffer)), 5)
    assert batch.parse_header(buffer).base_offset == 2
    assert batch.parse_header(buffer).partition_leader_epoch == 5
    assert read_all(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert log.leader_epochs.entries == [(4, 0), (5, 2)]
    assert log.end_offset_for_epoch(4) == (4, 2)
    assert log.end_offset_for_epoch(5) == (5, 3)


def test_read_ends_at_a_batch_and_below_the_given_offset(bench: LogBench) -> None:
    log = bench.open()
    for i in range(300):
        append_values(log, b"%d" % i * 10, b"x")
    size = len(values_batch([b"0" * 10, b"x"]))
    assert log.read(600, 1000) is None
    assert log.read(0, 1, min_one_batch=False) is None
    for offset in (0, 1, 2, 301, 597, 598):
        piece = log.read(offset, 1)
        assert piece is not None
        assert batch.parse_header(piece.read()).base_offset == offset // 2 * 2
        assert len(list(batch.iter_headers(piece.read()))) == 1
        bounded = log.read(offset, 10_000, up_to_offset=offset // 2 * 2 + 2)
        assert bounded is not None
        assert bounded.read() == piece.read()
    for max_bytes in (size, 5 * size, 4096, 9999):
        piece = log.read(0, max_bytes)
        assert piece is not None
        assert max_bytes - size - 20 < len(piece) <= max_bytes
        assert sum(h.size_bytes for _, h in batch.iter_headers(piece.read())) == len(piece)
    for outside in (-1, 601):
        with pytest.raises(OffsetOutOfRange) as raised:
            log.read(outside, 1000)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_rolls_by_size_time_index_and_relative_offset(bench: LogBench) -> None:
    size = len(values_batch([b"x" * 100]))
    bench.config = LogConfig(segment_bytes=10 * size, segment_ms=60_000)
    log = bench.open()
    for _ in range(21):
        append_values(log, b"x" * 100)
    assert log.segments.base_offsets == [0, 10, 20]
    append_values(log, b"later", timestamp=START_MS + 60_001)
    assert log.segments.base_offsets == [0, 10, 20, 21], "by the records' own clock"
    append_values(log, b"jump", timestamp=START_MS)
    assert len(log.segments) == 4

    log.update_config(replace(bench.config, segment_index_bytes=24, index_interval_bytes=0))
    log.roll()
    for _ in range(6):
        append_values(log, b"y")
    assert log.segments.base_offsets[4:] == [23, 25, 27], "time indexes of one entry, and one for the roll"
    assert [value for _, value in read_all(log)][-6:] == [b"y"] * 6


def test_a_batch_that_would_overflow_relative_offsets_goes_into_a_new_segment(bench: LogBench) -> None:
    log = bench.open()
    append_values(log, b"a")
    big = values_batch([b"b"])
    header = batch.parse_header(big)._replace(last_offset_delta=2**31 - 2, count=2**31 - 1)
    log.append(memoryview(big), [header], 0)
    append_values(log, b"c")
    assert log.segments.base_offsets == [0, 2**31]


def test_segment_ms_runs_by_the_wall_clock_where_records_have_no_time(bench: LogBench) -> None:
    bench.config = LogConfig(segment_ms=1000)
    log = bench.open()
    timeless = encode_batch([Record(0, -1, None, b"t", [])])
    append(log, timeless)
    bench.clock.now_ms += 1001
    append(log, timeless)
    assert log.segments.base_offsets == [0, 1]


def test_too_large_batches_are_refused(bench: LogBench) -> None:
    bench.config = LogConfig(max_message_bytes=500, segment_bytes=800)
    log = bench.open()
    with pytest.raises(MessageTooLarge):
        append_values(log, b"x" * 500)
    with pytest.raises(RecordListTooLarge):
        append(log, b"".join(values_batch([b"x" * 350]) for _ in range(2)))
    assert log.log_end_offset == 0
    assert log.size_bytes == 0


def test_offsets_by_time(bench: LogBench) -> None:
    bench.config = LogConfig(segment_bytes=2000, index_interval_bytes=200)
    log = bench.open()
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp_offset() is None
    times = [START_MS + t for t in (0, 100, 50, 200, 150, 400, 390, 395, 10, 500, 450, 460) for _ in range(5)]
    for time_ms in times:
        append_values(log, b"x" * 50, b"y", timestamp=time_ms, epoch=3)
    assert len(log.segments) > 3
    records = [(time_ms + i, 2 * n + i) for n, time_ms in enumerate(times) for i in (0, 1)]
    for wanted in range(START_MS - 1, START_MS + 510):
        expected = next(((t, o, 3) for t, o in records if t >= wanted), None)
        assert log.offset_for_timestamp(wanted) == expected, wanted - START_MS
    latest = max(t for t, _ in records)
    assert log.max_timestamp_offset() == (latest, next(o for t, o in records if t == latest), 3)
    log.delete_records_before(31)
    assert log.offset_for_timestamp(0) == (records[31][0], 31, 3)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_time_lookup_opens_compressed_batches(bench: LogBench, codec: int) -> None:
    log = bench.open()
    append_values(log, *[b"v%d" % i for i in range(50)], compression=codec)
    assert log.offset_for_timestamp(START_MS + 30) == (START_MS + 30, 30, 0)


@pytest.mark.parametrize("offset", range(0, 41, 3))
def test_truncation_cuts_all_that_lies_above(bench: LogBench, offset: int) -> None:
    bench.config = LogConfig(segment_bytes=700, index_interval_bytes=150)
    log = bench.open()
    for i in range(20):
        append_values(log, b"%d" % i, b"x" * 30, epoch=i // 7, timestamp=START_MS + i * 10)
    log.flush()
    log.truncate_to(offset)
    kept = offset // 2 * 2
    assert [o for o, _ in read_all(log)] == list(range(min(kept, 40)))
    assert log.log_end_offset == min(offset, 40)
    assert log.recovery_point == log.log_end_offset
    assert all(entry.start_offset < max(offset, 1) for entry in log.leader_epochs.entries)
    info = append_values(log, b"new", epoch=9)
    assert info.first_offset == min(offset, 40)
    assert read_all(log)[-1] == (min(offset, 40), b"new")
    log.close()
    assert read_all(bench.open(clean=True))[-1] == (min(offset, 40), b"new")


def test_truncate_fully_starts_anew_at_the_offset(bench: LogBench) -> None:
    log = bench.open()
    append_values(log, b"a", b"b")
    log.truncate_fully_and_start_at(500)
    assert (log.log_start_offset, log.log_end_offset, read_all(log)) == (500, 500, [])
    assert append_values(log, b"c").first_offset == 500
    log.close()
    assert read_all(bench.open(clean=True)) == [(500, b"c")]


def test_log_append_time_is_told(bench: LogBench) -> None:
    log = bench.open()
    data = values_batch([b"a"])
    header = batch.set_log_append_time(data, batch.parse_header(data), START_MS + 77)
    assert log.append(memoryview(data), [header], 0).log_append_time_ms == START_MS + 77


def test_slices_outlive_the_segment_and_the_log(bench: LogBench) -> None:
    bench.config = LogConfig(segment_bytes=300, retention_bytes=0, file_delete_delay_ms=0)
    log = bench.open()
    for i in range(5):
        append_values(log, b"%d" % i * 100)
    log.close()
    log = bench.open(clean=True)
    piece = log.read(0, 1000)
    assert piece is not None
    assert log.delete_old_segments(START_MS) == 5
    log.remove_deleted_files(START_MS)
    assert not bench.file(0, ".log.deleted").exists()
    assert b"0" * 100 in piece.read()
    del log
    assert b"0" * 100 in piece.read()


def test_readers_and_flushes_beside_appends(bench: LogBench) -> None:
    """One thread appends, rolls and writes indexes; readers and flushes on others see whole batches only."""
    bench.config = LogConfig(segment_bytes=60_000, index_interval_bytes=300)
    log = bench.open()
    done, failures = threading.Event(), []

    def watch(work: object) -> None:
        try:
            while not done.is_set():
                work()  # type: ignore[operator]
        except BaseException as error:
            failures.append(error)

    def read_some() -> None:
        end = log.log_end_offset
        for offset in {0, end // 3, end // 2, max(end - 3, 0)}:
            piece = log.read(offset, 5000, up_to_offset=end)
            if piece is None:
                assert offset >= end
                continue
            headers = [header for _, header in batch.iter_headers(piece.read())]
            assert headers[0].base_offset <= offset <= headers[0].last_offset
            assert headers[-1].next_offset <= end

    threads = [threading.Thread(target=watch, args=(work,)) for work in (read_some, read_some, log.flush)]
    for thread in threads:
        thread.start()
    try:
        for i in range(4000):
            append_values(log, b"%d" % i * 8)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert [offset for offset, _ in read_all(log)] == list(range(4000))


@pytest.mark.parametrize(
    "entry",
    [(-5, 40), (0, 77), (0, 1 << 30), (1, -7)],
    ids=["before the segment", "amid a batch", "beyond the file", "negative"],
)
def test_an_index_that_leads_astray_hides_nothing(
    bench: LogBench, caplog: pytest.LogCaptureFixture, entry: tuple[int, int]
) -> None:
    bench.config = LogConfig(segment_bytes=1000)
    log = bench.open()
    values = [b"%d" % number * 50 for number in range(30)]
    for value in values:
        append_values(log, value)
    log.close()
    bench.file(0, ".index").write_bytes(struct.pack(">ii", *entry) * 3)
    log = bench.open(clean=True)
    assert [value for _, value in read_all(log, max_bytes=250)] == values
    assert read_all(log)[0] == (0, values[0])
    told = [message for message in caplog.messages if "offset index is damaged" in message]
    assert len(told) == 1


@pytest.mark.parametrize("length", [-1, 10, 500, 1 << 20])
def test_a_batch_length_gone_wrong_is_told_with_its_place_and_hides_nothing(
    bench: LogBench, caplog: pytest.LogCaptureFixture, length: int
) -> None:
    bench.config = LogConfig(segment_bytes=1000)
    log = bench.open()
    for number in range(30):
        append_values(log, b"%d" % number * 50)
    log.close()
    second = log.segments.base_offsets[1]
    data = bytearray(bench.file(second, ".log").read_bytes())
    at = [position for position, _ in batch.iter_headers(data)][1]
    data[at + 8 : at + 12] = struct.pack(">i", length)
    bench.file(second, ".log").write_bytes(data)
    log = bench.open(clean=True)
    for _ in range(3):
        with pytest.raises(CorruptLog, match=rf"flights-0, offset {second + 2}, .*{second}\.log: "):
            log.read(second + 2, 1 << 20)
    assert sum("corrupt log log=flights-0" in message for message in caplog.messages) == 1
    assert log.read(log.segments.base_offsets[2], 1 << 20) is not None


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("which", [1, -1], ids=["inside", "last of a segment"])
def test_a_magic_gone_wrong_hides_no_record_of_its_batch(bench: LogBench, magic: int, which: int) -> None:
    bench.config = LogConfig(segment_bytes=1000)
    log = bench.open()
    for number in range(12):
        append_values(log, *(b"%d" % number * 10 for _ in range(5)))
    log.close()
    second, third = log.segments.base_offsets[1:3]
    data = bytearray(bench.file(second, ".log").read_bytes())
    at, damaged = list(batch.iter_headers(data))[which]
    data[at + 16] = magic
    bench.file(second, ".log").write_bytes(data)
    log = bench.open(clean=True)
    with pytest.raises(CorruptLog, match=rf"offset {damaged.base_offset + 3}, .*{second}\.log: .*checksum"):
        log.read(damaged.base_offset + 3, 1 << 20)
    assert log.read(third, 1 << 20) is not None
