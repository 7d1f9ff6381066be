"""Bytes that become readable as the high watermark moves."""

from penstock.broker.partitions.readable import ENDS_MAX, Uncommitted


def test_bytes_are_told_as_they_are_committed() -> None:
    uncommitted = Uncommitted(50)
    for next_offset, appended_bytes in ((3, 150), (5, 200), (9, 450)):
        uncommitted.appended(next_offset, appended_bytes)
    assert uncommitted.committed(2) == 0
    assert uncommitted.committed(5) == 150
    assert uncommitted.committed(9) == 250
    assert len(uncommitted) == 0


def test_what_is_cut_off_is_never_committed() -> None:
    uncommitted = Uncommitted(0)
    for next_offset, appended_bytes in ((3, 100), (5, 200), (9, 450)):
        uncommitted.appended(next_offset, appended_bytes)
    uncommitted.truncated(5)
    uncommitted.appended(6, 500)
    assert uncommitted.committed(5) == 200
    assert uncommitted.committed(6) == 300


def test_a_high_watermark_that_stands_still_costs_no_memory() -> None:
    uncommitted = Uncommitted(0)
    for offset in range(1, 10 * ENDS_MAX):
        uncommitted.appended(offset, 10 * offset)
    assert len(uncommitted) <= ENDS_MAX
    end_offset = 10 * ENDS_MAX - 1
    assert uncommitted.committed(end_offset) == 10 * end_offset, "the end is always told"
