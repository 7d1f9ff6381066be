"""Hand-made bad histories: the checker finds each anomaly, and nothing else."""

import random

import pytest
from history import Operation, Outcome, Poll, Send
from history_checker import check, cycles

A, B = ("t", 0), ("t", 1)


def sent(process: int, *sends: Send, outcome: Outcome = Outcome.OK, transactional: bool = False) -> Operation:
    return Operation(process, sends, outcome, transactional)


def polled(process: int, *records: tuple[int, str], partition: tuple[str, int] = A, sought: bool = False):
    return Operation(process, (Poll(partition, records, sought),))


def transaction(process: int, *steps: Send | Poll, outcome: Outcome = Outcome.OK) -> Operation:
    return Operation(process, steps, outcome, transactional=True)


GOOD = [
    sent(0, Send(A, "a0", 0)),
    transaction(1, Send(A, "a1", 1), Send(B, "b0", 0)),
    transaction(0, Send(A, "a2", 3), Send(B, "b1", 2), outcome=Outcome.FAILED),
    transaction(0, Send(A, "a3", 5), Send(B, "b2", 4), outcome=Outcome.UNKNOWN),
    sent(2, Send(B, "b3"), outcome=Outcome.UNKNOWN),
    polled(2, (0, "a0"), (1, "a1")),
    polled(2, (5, "a3")),
    polled(2, (0, "b0"), (4, "b2"), partition=B),
    polled(2, (0, "a0"), sought=True),
]

BAD: dict[str, list[Operation]] = {
    "offset_divergence": [
        sent(0, Send(A, "x", 0)),
        sent(1, Send(A, "y", 1)),
        polled(2, (0, "x"), (1, "y")),
        sent(3, Send(A, "z"), outcome=Outcome.UNKNOWN),
        polled(4, (0, "x"), (1, "z")),
    ],
    "duplicates": [
        sent(0, Send(A, "x"), outcome=Outcome.UNKNOWN),
        polled(1, (0, "x"), (1, "x")),
    ],
    "lost_writes": [
        sent(0, Send(A, "x", 0)),
        sent(1, Send(A, "y", 1)),
        polled(2, (1, "y")),
    ],
    "unseen": [
        sent(0, Send(A, "x", 0), Send(A, "y", 1)),
        polled(1, (0, "x")),
    ],
    "aborted_reads": [
        transaction(0, Send(A, "x", 0), outcome=Outcome.FAILED),
        polled(1, (0, "x")),
    ],
    "internal_gaps": [
        sent(0, Send(A, "x", 0), Send(A, "y", 1), Send(A, "z", 2)),
        polled(1, (0, "x"), (2, "z")),
        polled(2, (0, "x"), (1, "y"), (2, "z")),
    ],
    "torn_transactions": [
        transaction(0, Send(A, "x", 0), Send(B, "y", 0), outcome=Outcome.UNKNOWN),
        sent(1, Send(B, "z", 2)),
        polled(2, (0, "x")),
        polled(2, (2, "z"), partition=B),
    ],
    "cycles": [
        transaction(0, Send(A, "x", 0), Poll(B, ((0, "y"),))),
        transaction(1, Send(B, "y", 0), Poll(A, ((0, "x"),))),
    ],
}

REORDERED = {
    "within a poll": [sent(0, Send(A, "x", 0), Send(A, "y", 1)), polled(1, (1, "y"), (0, "x"))],
    "from poll to poll": [
        sent(0, Send(A, "x", 0), Send(A, "y", 1)),
        polled(1, (0, "x"), (1, "y")),
        polled(1, (0, "x")),
    ],
    "of sends": [sent(0, Send(A, "x", 1), Send(A, "y", 0)), polled(1, (0, "y"), (1, "x"))],
}


def test_a_good_history_is_clean() -> None:
    report = check(GOOD)
    assert report.anomalies() == {}
    assert report.write_cycles == []


@pytest.mark.parametrize("anomaly", BAD)
def test_each_anomaly_is_found_and_no_other(anomaly: str) -> None:
    report = check(BAD[anomaly])
    assert set(report.anomalies()) == {anomaly}, report
    assert len(report.anomalies()[anomaly]) == 1


@pytest.mark.parametrize("history", REORDERED.values(), ids=REORDERED)
def test_reordering_is_found(history: list[Operation]) -> None:
    assert set(check(history).anomalies()) == {"reordering"}


def test_a_gap_between_polls_is_found() -> None:
    history = [
        sent(0, Send(A, "x", 0), Send(A, "y", 1), Send(A, "z", 2)),
        polled(1, (0, "x")),
        polled(1, (2, "z")),
        polled(2, (0, "x"), (1, "y"), (2, "z")),
    ]
    assert set(check(history).anomalies()) == {"internal_gaps"}


def test_offsets_of_markers_and_aborted_records_are_no_gaps() -> None:
    history = [
        transaction(0, Send(A, "x", 0)),
        transaction(0, Send(A, "y", 2), outcome=Outcome.FAILED),
        transaction(0, Send(A, "z", 4)),
        polled(1, (0, "x"), (4, "z")),
    ]
    assert check(history).anomalies() == {}


def test_a_value_that_nobody_sent_is_no_committed_one() -> None:
    assert set(check([polled(0, (0, "x"))]).anomalies()) == {"aborted_reads"}


def test_a_lost_part_of_a_committed_transaction_is_lost_and_torn() -> None:
    history = [
        transaction(0, Send(A, "x", 0), Send(B, "y", 0)),
        sent(1, Send(B, "z", 2)),
        polled(2, (0, "x")),
        polled(2, (2, "z"), partition=B),
    ]
    assert set(check(history).anomalies()) == {"lost_writes", "torn_transactions"}


def test_write_cycles_are_information() -> None:
    """Kafka allows two transactions that overlap to stand in opposite orders in two partitions."""
    history = [
        transaction(0, Send(A, "x0", 0), Send(B, "y0", 1)),
        transaction(1, Send(A, "x1", 1), Send(B, "y1", 0)),
        polled(2, (0, "x0"), (1, "x1")),
        polled(2, (0, "y1"), (1, "y0"), partition=B),
    ]
    report = check(history)
    assert report.anomalies() == {}
    assert len(report.write_cycles) == 1


def test_a_cycle_of_three_is_named_whole() -> None:
    c = ("t", 2)
    history = [
        transaction(0, Send(A, "x", 0), Poll(c, ((0, "z"),))),
        transaction(1, Send(B, "y", 0), Poll(A, ((0, "x"),))),
        transaction(2, Send(c, "z", 0), Poll(B, ((0, "y"),))),
    ]
    (cycle,) = check(history).cycles
    assert cycle.count("→") == 3


def test_cycles_are_found_wherever_they_are() -> None:
    """Compare with reachability on random graphs."""
    seed = random.randrange(1 << 32)
    print(f"{seed=}")
    dice = random.Random(seed)
    for _ in range(200):
        size = dice.randint(2, 9)
        edges: dict[int, set[int]] = {}
        for _ in range(dice.randint(1, 2 * size)):
            first, second = dice.sample(range(size), 2)
            edges.setdefault(first, set()).add(second)
        reach = {node: set(successors) for node, successors in edges.items()}
        for _ in range(size):
            for node in reach:
                reach[node] |= {far for near in reach[node] for far in reach.get(near, ())}
        circular = {node for node in reach if node in reach[node]}
        found = cycles(edges)
        assert bool(found) == bool(circular)
        for cycle in found:
            assert set(cycle) <= circular
            assert all(b in edges[a] for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def test_thousands_of_operations_take_a_moment() -> None:
    """Two processes write by turns and a reader follows: no anomaly, and no quadratic work."""
    count = 20_000
    history = [sent(number % 2, Send(A, str(number), number)) for number in range(count)]
    history += [
        polled(2, *((offset, str(offset)) for offset in range(start, start + 100)))
        for start in range(0, count, 100)
    ]
    assert check(history).anomalies() == {}
