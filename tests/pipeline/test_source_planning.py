"""From offsets to ranges: sizes, limits and what counts as data loss. No broker, no Spark."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.arrow.loss import DataLoss, LossRule
from penstock.client.fetcher import PartitionRange
from penstock.client.metadata import TopicPartition
from penstock.spark.source.offsets import from_json, to_json
from penstock.spark.source.planning import limit_rows, plan_ranges, split_ranges

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b", "ü"]), st.integers(0, 12))
offsets = st.dictionaries(partitions, st.integers(0, 1000), max_size=8)


class Told:
    """A rule that goes on, and what it was told."""

    def __init__(self):
        self.told = []
        self.rule = LossRule(fail=False, warn=self.told.append, advice="")


FAIL = LossRule(fail=True, warn=lambda text: None, advice="set failOnDataLoss to false")


def no_new(added):
    raise AssertionError(f"asked for {added}")


@given(offsets)
def test_json_round_trip_has_one_order(given_offsets):
    shaped = to_json(given_offsets)
    assert from_json(json.loads(json.dumps(shaped))) == given_offsets
    backwards = dict(reversed(given_offsets.items()))
    assert json.dumps(to_json(backwards)) == json.dumps(shaped)


def test_partitions_are_ordered_as_numbers():
    assert list(to_json({TopicPartition("a", n): 0 for n in (10, 9)})["a"]) == ["9", "10"]


def test_only_partitions_with_something_to_read_have_a_range():
    ranges = plan_ranges({A0: 5, A1: 7}, {A0: 9, A1: 7}, no_new, FAIL)
    assert ranges == [PartitionRange("a", 0, 5, 9)]


def test_new_partitions_are_read_from_their_beginning():
    ranges = plan_ranges({A0: 5}, {A0: 5, A1: 3}, lambda added: dict.fromkeys(added, 0), FAIL)
    assert ranges == [PartitionRange("a", 1, 0, 3)]


@pytest.mark.parametrize(
    ("start", "end", "begins", "message", "left"),
    [
        (
            {A0: 5, B0: 1},
            {A0: 6},
            {},
            r"partitions b-0 do not exist any more",
            [PartitionRange("a", 0, 5, 6)],
        ),
        ({A0: 5}, {A0: 3}, {}, r"the end of a-0 went back from offset 5 to 3", []),
        (
            {A0: 5},
            {A0: 5, A1: 9},
            {A1: 4},
            r"new partition a-1 begins at offset 4 instead of 0",
            [PartitionRange("a", 1, 4, 9)],
        ),
    ],
)
def test_missing_data_fails_the_query_or_is_told(start, end, begins, message, left):
    with pytest.raises(DataLoss, match=message) as caught:
        plan_ranges(start, end, lambda added: begins, FAIL)
    assert "failOnDataLoss" in str(caught.value)
    told = Told()
    assert plan_ranges(start, end, lambda added: begins, told.rule) == left
    assert len(told.told) == 1


@given(offsets, st.integers(1, 40), st.integers(1, 40))
def test_split_ranges_cover_the_same_offsets(sizes, min_partitions, max_records):
    ranges = [PartitionRange(tp.topic, tp.partition, 7, 7 + n) for tp, n in sorted(sizes.items()) if n]
    parts = split_ranges(ranges, min_partitions, max_records)
    for whole in ranges:
        mine = [p for p in parts if p.topic_partition == whole.topic_partition]
        assert [p.start for p in mine[1:]] == [p.end for p in mine[:-1]]
        assert (mine[0].start, mine[-1].end) == (whole.start, whole.end)
        assert all(0 < p.end - p.start <= max_records for p in mine)
    records = sum(r.end - r.start for r in ranges)
    assert len(parts) >= min(min_partitions, records)


def test_without_limits_ranges_stay_whole():
    ranges = [PartitionRange("a", 0, 0, 100)]
    assert split_ranges(ranges, None, None) == ranges


@given(offsets, offsets, st.integers(1, 2000))
def test_a_limited_end_takes_no_more_than_allowed_and_always_something(start, sizes, max_rows):
    end = {tp: start.get(tp, 0) + size for tp, size in sizes.items()}
    limited = limit_rows(start, end, {}, max_rows)
    taken = {tp: limited[tp] - start.get(tp, 0) for tp in end}
    assert sum(taken.values()) == min(max_rows, sum(sizes.values()))
    assert all(0 <= taken[tp] <= sizes[tp] for tp in sizes)


def test_rows_are_shared_out_in_proportion():
    limited = limit_rows({A0: 0, A1: 100}, {A0: 900, A1: 200}, {}, 100)
    assert limited == {A0: 90, A1: 110}


def test_a_limit_keeps_an_end_that_went_back():
    """`plan_ranges` has to see it."""
    assert limit_rows({A0: 50, A1: 0}, {A0: 10, A1: 10}, {}, 5) == {A0: 10, A1: 5}
