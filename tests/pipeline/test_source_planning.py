"""Planning ranges from offsets: sizes, limits, and the detection of data loss. No broker, no Spark."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.arrow.loss import DataLoss, LossRule
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import PartitionRange
from penstock.spark.source.offsets import from_json, to_json
from penstock.spark.source.planning import (
    OPEN_BYTES,
    TriggerDelay,
    limit_rows,
    plan_ranges,
    share_by_size,
    share_whole,
    split_ranges,
)

ZERO = bytes(16)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b", "ü"]), st.integers(0, 12))
offsets = st.dictionaries(partitions, st.integers(0, 1000), max_size=8)


class Told:
    """A rule that continues after a loss, and the warnings it gave."""

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
        ({A0: 5}, {A0: 6, A1: 9}, {}, r"new partition a-1 does not exist any more", [("a", 0, 5, 6, ZERO)]),
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
def test_a_limited_end_takes_a_share_of_every_partition(start, sizes, max_rows):
    end = {tp: start.get(tp, 0) + size for tp, size in sizes.items()}
    limited = limit_rows(start, end, {}, max_rows)
    taken = {tp: limited[tp] - start.get(tp, 0) for tp in end}
    assert all(0 <= taken[tp] <= sizes[tp] for tp in sizes)
    assert all(taken[tp] for tp in sizes if sizes[tp]), "none starves"
    assert sum(taken.values()) <= max_rows + len(sizes)
    if sum(sizes.values()) <= max_rows:
        assert taken == sizes


def test_rows_are_shared_out_in_proportion_and_rounded_as_spark_does():
    assert limit_rows({A0: 0, A1: 100}, {A0: 900, A1: 200}, {}, 100) == {A0: 90, A1: 110}
    assert limit_rows({}, {A0: 10, A1: 10, B0: 1}, {}, 10) == {A0: 4, A1: 4, B0: 1}


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def test_a_batch_waits_until_there_is_enough_or_it_has_waited_long_enough():
    clock = Clock()
    delay = TriggerDelay(min_rows=10, max_delay_ms=5000, clock=clock)
    assert not delay.holds({A0: 0}, {A0: 1}), "the first batch of a run goes at once"
    assert delay.holds({A0: 1}, {A0: 10})
    assert not delay.holds({A0: 1}, {A0: 8, A1: 3}), "ten, with a new partition"
    clock.now_s += 4.9
    assert delay.holds({A0: 8}, {A0: 9})
    clock.now_s += 0.1
    assert not delay.holds({A0: 8}, {A0: 9})
    assert delay.holds({A0: 9}, {A0: 11}), "the delay has begun anew"


def covered(tasks):
    """Join the ranges that tasks read; within a partition they must follow each other."""
    whole = {}
    for part in (part for task in tasks for part in task):
        first, end = whole.get(part.topic_partition, (part.start, part.start))
        assert part.start == end < part.end
        whole[part.topic_partition] = (first, part.end)
    return whole


def as_ranges(sizes):
    return [PartitionRange(tp.topic, tp.partition, 7, 7 + n) for tp, n in sorted(sizes.items()) if n]


@given(
    st.dictionaries(partitions, st.integers(1, 10**6), min_size=1, max_size=8),
    st.dictionaries(partitions, st.floats(0, 1e7), max_size=8),
    st.integers(1, 10**9),
)
def test_tasks_of_similar_size_read_every_offset_once_and_in_order(sizes, densities, target):
    ranges = as_ranges(sizes)
    mean = sum(densities.values()) / len(densities) if densities else 1.0
    total = sum(OPEN_BYTES + (r.end - r.start) * densities.get(r.topic_partition, mean) for r in ranges)
    target = max(target, 3 * OPEN_BYTES, total / 1000)
    tasks = share_by_size(ranges, densities, target)
    assert covered(tasks) == {r.topic_partition: (r.start, r.end) for r in ranges}
    for task in tasks:
        size = sum(OPEN_BYTES + (p.end - p.start) * densities.get(p.topic_partition, mean) for p in task)
        assert size <= 1.1 * (target + OPEN_BYTES) + 1 or len(task) == 1


def test_small_partitions_share_a_task_and_a_large_one_is_cut():
    density = dict.fromkeys((A0, A1, B0), 1000.0)
    small = as_ranges({A0: 10, A1: 10, B0: 10})
    assert share_by_size(small, density, 4 << 20) == [small]
    [first, *rest] = share_by_size(as_ranges({A0: 40_000, A1: 10}), density, 12 << 20)
    assert len(rest) == 3
    assert [part.topic_partition for part in rest[-1]] == [A0, A1]
    assert 9_000 < first[0].end - first[0].start < 12_000


def test_a_partition_without_a_known_size_counts_as_the_others_do():
    tasks = share_by_size(as_ranges({A0: 10_000, B0: 10_000}), {A0: 1000.0}, 11 << 20)
    assert [[part.topic_partition for part in task] for task in tasks] == [[A0], [B0]]


@given(st.dictionaries(partitions, st.integers(1, 1000), max_size=8), st.integers(1, 10))
def test_whole_ranges_are_shared_among_few_tasks(sizes, max_tasks):
    tasks = share_whole(as_ranges(sizes), max_tasks)
    assert len(tasks) <= max_tasks
    assert [part for task in tasks for part in task] == as_ranges(sizes)
    assert all(tasks)


def test_a_limit_keeps_an_end_that_went_back():
    """The end is passed on because `plan_ranges` has to detect it."""
    assert limit_rows({A0: 50, A1: 0}, {A0: 10, A1: 10}, {}, 5) == {A0: 10, A1: 5}
