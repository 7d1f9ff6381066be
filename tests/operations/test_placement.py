"""Plans compared with all possible plans, for small clusters; requirements of operators, for larger ones."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.connections.metadata import TopicPartition
from penstock.operations.placement import CannotPlace, moves, spread, with_factor

Assignment = dict[TopicPartition, tuple[int, ...]]


def partitions(*replicas, topic="t"):
    return {TopicPartition(topic, number): tuple(each) for number, each in enumerate(replicas)}


def striped(topics, count, factor, brokers):
    """Place partitions much as Kafka would: each one broker further."""
    return {
        TopicPartition(f"topic-{t}", p): tuple(brokers[(t + p + r) % len(brokers)] for r in range(factor))
        for t in range(topics)
        for p in range(count)
    }


def after(current, planned):
    return {**current, **planned}


def loads(assignment, brokers):
    counts = Counter(broker for replicas in assignment.values() for broker in replicas)
    return [counts[broker] for broker in sorted(brokers)]


def leader_loads(assignment, brokers):
    counts = Counter(replicas[0] for replicas in assignment.values())
    return [counts[broker] for broker in sorted(brokers)]


def wasted_racks(assignment, racks):
    return sum(
        len(inside) - len({racks[b] for b in inside})
        for replicas in assignment.values()
        if (inside := [b for b in replicas if b in racks]) is not None
    )


def sets_cost(current, chosen, racks):
    """The costs of a placement of replicas, the most important first."""
    counts = Counter(broker for replicas in chosen.values() for broker in replicas)
    return (
        sum(counts[broker] for broker in counts if broker not in racks),
        wasted_racks(chosen, racks),
        sum(count * count for count in counts.values()),
        moves(current, chosen),
    )


def all_sets(current, racks) -> Iterator[Assignment]:
    choices = [combinations(sorted(racks), len(replicas)) for replicas in current.values()]
    for chosen in product(*choices):
        yield dict(zip(current, chosen, strict=True))


@st.composite
def small_clusters(draw):
    """Up to four partitions on up to four brokers, one or two racks, and some brokers to be emptied."""
    brokers = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4, unique=True))
    racks = {broker: draw(st.sampled_from(["a", "b", None])) for broker in brokers}
    held_by = sorted({*brokers, *draw(st.sets(st.integers(1, 6), max_size=2))})
    most = min(3, len(brokers))
    current = {}
    for number in range(draw(st.integers(1, 4))):
        factor = draw(st.integers(1, most))
        replicas = draw(st.permutations(held_by))[:factor]
        current[TopicPartition(draw(st.sampled_from("xy")), number)] = tuple(replicas)
    return current, racks


@settings(max_examples=300)
@given(small_clusters())
def test_no_plan_is_better(cluster):
    current, racks = cluster
    planned = spread(current, racks)
    found = after(current, planned)
    best = min(sets_cost(current, chosen, racks) for chosen in all_sets(current, racks))
    assert sets_cost(current, found, racks) == best
    for tp, replicas in found.items():
        assert len(replicas) == len(set(replicas)) == len(current[tp])

    def leaders_cost(leaders):
        return (
            sum(n * n for n in Counter(leaders).values()),
            sum(leader != current[tp][0] for leader, tp in zip(leaders, found, strict=True)),
        )

    assert leaders_cost([r[0] for r in found.values()]) == min(map(leaders_cost, product(*found.values())))


@settings(max_examples=50)
@given(small_clusters(), st.randoms(use_true_random=False))
def test_equal_clusters_get_equal_plans(cluster, random):
    current, racks = cluster
    shuffled = list(current.items())
    random.shuffle(shuffled)
    others = list(racks.items())
    random.shuffle(others)
    assert list(spread(dict(shuffled), dict(others)).items()) == list(spread(current, racks).items())


@settings(max_examples=50)
@given(small_clusters())
def test_a_plan_leaves_nothing_to_do(cluster):
    current, racks = cluster
    found = after(current, spread(current, racks))
    assert moves(found, spread(found, racks)) == 0


def test_two_brokers_are_added_to_three():
    current = striped(topics=10, count=30, factor=3, brokers=[1, 2, 3])  # 900 replicas
    racks = dict.fromkeys([1, 2, 3, 4, 5])
    planned = spread(current, racks)
    found = after(current, planned)
    assert loads(found, racks) == [180] * 5
    assert moves(current, planned) == 360  # what the new ones lack, and nothing else
    assert leader_loads(found, racks) == [60] * 5
    for topic in range(10):
        of_topic = {tp: r for tp, r in found.items() if tp.topic == f"topic-{topic}"}
        assert max(loads(of_topic, racks)) - min(loads(of_topic, racks)) <= 4, "topics are spread as well"


def test_one_broker_is_left():
    current = striped(topics=5, count=8, factor=2, brokers=[1, 2, 3, 4])  # 80 replicas
    racks = dict.fromkeys([1, 2, 4])
    planned = spread(current, racks)
    found = after(current, planned)
    assert sorted(loads(found, racks)) == [26, 27, 27]
    assert 3 not in {broker for replicas in found.values() for broker in replicas}
    assert moves(current, planned) == 20  # the replicas it had
    assert sorted(leader_loads(found, racks)) == [13, 13, 14]


def test_racks_are_kept_apart():
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    current = striped(topics=4, count=6, factor=3, brokers=[1, 3, 5])
    planned = spread(current, racks)
    found = after(current, planned)
    assert loads(found, racks) == [12] * 6
    assert moves(current, planned) == 36
    assert wasted_racks(found, racks) == 0


def test_a_rack_of_one_broker_has_a_replica_of_everything():
    racks = {1: "a", 2: "a", 3: "b"}
    current = partitions((1, 3), (3, 2), (1, 2), (2, 1))  # two are in one rack only
    found = after(current, spread(current, racks))
    assert loads(found, racks) == [2, 2, 4]
    assert wasted_racks(found, racks) == 0


def test_what_is_balanced_stays():
    assert spread(partitions((1, 2, 3), (2, 3, 1), (3, 1, 2)), dict.fromkeys([1, 2, 3])) == {}


def test_leaders_move_without_replicas():
    current = partitions((1, 2, 3), (1, 2, 3), (1, 2, 3))
    planned = spread(current, dict.fromkeys([1, 2, 3]))
    assert moves(current, planned) == 0
    assert leader_loads(after(current, planned), [1, 2, 3]) == [1, 1, 1]
    assert len(planned) == 2


def test_too_few_brokers_are_named():
    with pytest.raises(CannotPlace, match=r"t-0 has 3 replicas, and only 2 brokers .* for them: 1, 2"):
        spread(partitions((1, 2, 3)), dict.fromkeys([1, 2]))
    with pytest.raises(CannotPlace, match="3 replicas need 3 brokers, found 2"):
        with_factor(partitions((1,)), [TopicPartition("t", 0)], 3, dict.fromkeys([1, 2]))


def test_replicas_are_added_where_there_are_fewest():
    current = partitions((1,), (1,), (1, 2), (2, 3, 1))
    raised = with_factor(current, list(current), 3, dict.fromkeys([1, 2, 3]))
    assert [raised[tp] for tp in sorted(raised)] == [(1, 3, 2), (1, 3, 2), (1, 2, 3)]
    assert moves(current, raised) == 5


def test_replicas_are_added_in_other_racks():
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    raised = with_factor(partitions((1,), (4,)), [TopicPartition("t", 0), TopicPartition("t", 1)], 3, racks)
    assert all(len({racks[b] for b in replicas}) == 3 for replicas in raised.values())
