"""A follower's log appends its leader's batches unchanged."""

import pytest
from log_building import START_MS, LogBench, append_marker, append_values, read_all, values_batch

from penstock.protocol.batch import BatchHeader, assign_offsets, iter_headers
from penstock.storage.config import LogConfig
from penstock.storage.errors import UnexpectedOffset
from penstock.storage.partition.log import Log


def numbered(*parts: tuple[int, int, list[bytes]], **options: object) -> tuple[bytes, list[BatchHeader]]:
    """Encode batches of (base offset, leader epoch, values), with their headers."""
    joined = bytearray()
    for offset, epoch, values in parts:
        one = values_batch(values, **options)  # type: ignore[arg-type]
        assign_offsets(one, [header for _, header in iter_headers(one)], offset, epoch)
        joined += one
    return bytes(joined), [header for _, header in iter_headers(joined)]


def content(log: Log) -> bytes:
    found, offset = b"", log.log_start_offset
    while (piece := log.read(offset, 1 << 20)) is not None:
        data = piece.read()
        found += data
        for _, header in iter_headers(data):
            offset = header.next_offset
    return found


def test_no_byte_is_changed_and_epochs_are_noted(bench: LogBench) -> None:
    log = bench.open()
    data, headers = numbered((0, 2, [b"a", b"b"]), (2, 2, [b"c"]), (3, 5, [b"d"]))
    log.append_as_follower(memoryview(data), headers)
    assert log.log_end_offset == 4
    assert content(log) == data
    assert log.leader_epochs.entries == [(2, 0), (5, 3)]


def test_gaps_that_a_cleaner_has_left_stay(bench: LogBench) -> None:
    log = bench.open()
    data, headers = numbered((3, 1, [b"a"]), (7, 1, [b"b"]), (8, 1, [b"c"]), (20, 4, [b"d"]))
    log.append_as_follower(memoryview(data), headers)
    assert read_all(log) == [(3, b"a"), (7, b"b"), (8, b"c"), (20, b"d")]
    log.flush()
    again = bench.open(log_start_offset=0)
    assert read_all(again) == read_all(log)
    assert again.log_end_offset == 21


def test_what_does_not_fit_into_a_segment_goes_into_the_next(bench: LogBench) -> None:
    bench.config = LogConfig(segment_bytes=200)
    log = bench.open()
    data, headers = numbered(*((offset, 0, [b"value"]) for offset in range(10)))
    log.append_as_follower(memoryview(data), headers)
    assert content(log) == data
    assert len(log.segments) >= 5
    assert all(segment.size <= 200 for segment in log.segments)
    large, large_headers = numbered((10, 0, [b"x" * 500]))
    log.append_as_follower(memoryview(large), large_headers)
    assert content(log) == data + large, "the leader has taken it, so it has its place"


@pytest.mark.parametrize("offsets", [(1,), (2, 2), (5, 4)])
def test_a_batch_below_the_end_is_refused_before_anything_is_written(
    bench: LogBench, offsets: tuple[int, ...]
) -> None:
    log = bench.open()
    append_values(log, b"a", b"b")
    data, headers = numbered(*((offset, 0, [b"z"]) for offset in offsets))
    with pytest.raises(UnexpectedOffset) as refused:
        log.append_as_follower(memoryview(data), headers)
    assert (refused.value.first_offset, refused.value.last_offset) == (offsets[0], offsets[-1])
    assert read_all(log) == [(0, b"a"), (1, b"b")]


def test_producers_and_transactions_are_those_of_the_leader(bench: LogBench) -> None:
    leader = bench.open()
    producer = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    append_values(leader, b"a", b"b", **producer)
    append_marker(leader, 9, 0, committed=False)
    append_values(leader, b"c", **{**producer, "producer_id": 10})
    data = content(leader)
    bench.directory = bench.directory.with_name("flights-1")
    follower = bench.open()
    follower.append_as_follower(memoryview(data), [header for _, header in iter_headers(data)])
    for log in (leader, follower):
        assert log.last_stable_offset(4) == 3
        aborted = log.aborted_transactions(0, 4)
        assert [(each.producer_id, each.first_offset, each.last_offset) for each in aborted] == [(9, 0, 2)]
    assert follower.producer_state.producers[9].last_sequence == 1


def test_truncating_to_the_end_forgets_an_epoch_that_nothing_was_written_in(bench: LogBench) -> None:
    """Otherwise a former leader that wrote nothing would learn forever that its last epoch ended earlier."""
    log = bench.open()
    append_values(log, b"a", epoch=1, timestamp=START_MS)
    log.leader_epochs.assign(3, log.log_end_offset)
    log.truncate_to(5)
    assert log.leader_epochs.entries == [(1, 0)]
    assert log.log_end_offset == 1
