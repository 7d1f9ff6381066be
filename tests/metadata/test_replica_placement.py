"""The placement of replicas of new partitions."""

import random
from collections import Counter

import pytest
from controller_bench import ControllerBench

from penstock.metadata.controller.placement import place
from penstock.metadata.controller.state import Refusal
from penstock.protocol.errors import ErrorCode

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def bench_of(*brokers: int, racks: dict[int, str] | None = None, seed: int = 0) -> ControllerBench:
    return ControllerBench(brokers=brokers, racks=racks, rng=random.Random(seed))


@pytest.mark.parametrize("seed", range(5))
def test_leaders_and_replicas_are_spread_evenly(seed: int) -> None:
    bench = bench_of(1, 2, 3, 4, seed=seed)
    placed = place(bench.state, 40, 3)
    assert all(len(set(replicas)) == 3 for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {30}


@pytest.mark.parametrize("seed", range(5))
def test_replicas_are_in_different_racks(seed: int) -> None:
    bench = bench_of(*RACKS, racks=RACKS, seed=seed)
    for replicas in place(bench.state, 60, 3):
        assert {RACKS[broker] for broker in replicas} == {"a", "b", "c"}


def test_small_racks_are_full_sooner() -> None:
    bench = bench_of(1, 2, 3, racks={1: "a", 2: "a", 3: "b"})
    assert all(set(replicas) == {1, 2, 3} for replicas in place(bench.state, 10, 3))
    assert all(3 in replicas for replicas in place(bench.state, 10, 2))


def test_fenced_brokers_follow_but_do_not_lead() -> None:
    bench = bench_of(1, 2, 3)
    bench.kill(2)
    placed = place(bench.state, 12, 3)
    assert all(set(replicas) == {1, 2, 3} and replicas[-1] == 2 for replicas in placed)
    assert all(2 not in replicas for replicas in place(bench.state, 12, 2))
    bench.place("t", [1, 2, 3])
    assert bench.partition().isr == (1, 3)


def test_where_nothing_can_be_placed() -> None:
    bench = bench_of(1, 2)
    with pytest.raises(Refusal, match="replication factor of 3 cannot be reached because only 2 broker"):
        place(bench.state, 1, 3)
    bench.kill(1, 2)
    with pytest.raises(Refusal, match="All brokers are currently fenced") as refused:
        place(bench.state, 1, 1)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
    message = bench.create("t").error_message or ""
    assert message.startswith("Unable to replicate the partition 1 time(s): All brokers are currently fenced")
