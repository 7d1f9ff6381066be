"""The invariants of a log's list of segments."""

import pytest
from log_building import LogBench, append_values

from penstock.storage.segments.segment_list import Segments


@pytest.fixture
def segments(bench: LogBench) -> Segments:
    log = bench.open()
    for value in (b"a", b"b", b"c", b"d"):
        append_values(log, value)
        log.roll()
    return log.segments


def test_a_segment_that_rolls_follows_the_active_one(segments: Segments) -> None:
    assert list(segments.without([segments.active]).with_roll(segments.active)) == list(segments)
    with pytest.raises(AssertionError, match="does not follow"):
        segments.with_roll(segments.first)


def test_only_adjacent_segments_are_replaced(segments: Segments) -> None:
    first, second, third, *others = segments
    assert list(segments.with_replaced([second, third], second)) == [first, second, *others]
    with pytest.raises(AssertionError, match="not adjacent"):
        segments.with_replaced([first, third], first)
    with pytest.raises(AssertionError, match="replaces"):
        segments.with_replaced([first, second], second)
