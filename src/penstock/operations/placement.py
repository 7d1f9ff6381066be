"""Compute the placement of replicas: plans as new lists of replicas for partitions. Pure.

The first replica of a list is the preferred leader. Plans are deterministic: equal clusters get equal plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from penstock.client.connections.metadata import TopicPartition
from penstock.operations.balance import MOVE, PLACE, Layout, balance

Assignment = Mapping[TopicPartition, tuple[int, ...]]
"""Replicas of partitions, the preferred leader first."""

Racks = Mapping[int, str | None]
"""The brokers that may hold replicas, with the rack of each; None counts as a rack like any other."""


class CannotPlace(ValueError):
    """No placement meets the request; the message says what is missing."""


def spread(current: Assignment, racks: Racks) -> dict[TopicPartition, tuple[int, ...]]:
    """Changes that spread *current* evenly over the brokers of *racks*: only partitions that change.

    The goals, in this order: replicas leave brokers that are not in *racks*; the replicas of a partition are
    in as many racks as possible; brokers have the same number of replicas, as far as racks allow; as few
    replicas move as possible; brokers are preferred leaders of the same number of partitions; as few of these
    change as possible. Every partition keeps its number of replicas. Raises CannotPlace.
    """
    for tp, replicas in current.items():
        if len(replicas) > len(racks):
            raise CannotPlace(
                f"{tp} has {len(replicas)} replicas, and only {len(racks)} brokers would be left for them: "
                f"{', '.join(map(str, sorted(racks))) or 'none'}"
            )
    held = {broker for replicas in current.values() for broker in replicas}
    layout = _Replicas(current, racks)
    balance(layout, sorted(racks), sorted(held - racks.keys()))
    leaders = _Leaders(current, {tp: layout.placed(tp) for tp in sorted(current)})
    balance(leaders, sorted(racks))
    return {tp: placed for tp in sorted(current) if (placed := leaders.ordered(tp)) != current[tp]}


def with_factor(
    current: Assignment, chosen: Collection[TopicPartition], factor: int, racks: Racks
) -> dict[TopicPartition, tuple[int, ...]]:
    """Changes that give each *chosen* partition *factor* replicas; those with as many or more stay.

    Existing replicas and leaders stay in place. New ones go to racks that have no replica of the partition,
    then to the brokers with the fewest replicas of all in *current*. Raises CannotPlace.
    """
    if factor > len(racks):
        raise CannotPlace(f"{factor} replicas need {factor} brokers, found {len(racks)}")
    loads = Counter(broker for replicas in current.values() for broker in replicas)
    changed = {}
    for tp in sorted(chosen):
        replicas = list(current[tp])
        while len(replicas) < factor:
            used = Counter(racks.get(broker) for broker in replicas)
            broker = min(racks.keys() - set(replicas), key=lambda one: (used[racks[one]], loads[one], one))
            replicas.append(broker)
            loads[broker] += 1
        if tuple(replicas) != current[tp]:
            changed[tp] = tuple(replicas)
    return changed


def moves(current: Assignment, planned: Assignment) -> int:
    """The number of replicas that a plan has to copy."""
    return sum(len(set(replicas) - set(current[tp])) for tp, replicas in planned.items())


class _Replicas(Layout[TopicPartition]):
    """The layout of replicas: each may move to any broker that has no other replica of its partition."""

    def __init__(self, current: Assignment, racks: Racks) -> None:
        self._current = current
        self._racks = racks
        self._placed = {tp: list(current[tp]) for tp in sorted(current)}
        self._of_topic = Counter(
            (tp.topic, broker) for tp, replicas in current.items() for broker in replicas
        )

    def placed(self, tp: TopicPartition) -> tuple[int, ...]:
        return tuple(self._placed[tp])

    def things(self) -> Iterable[tuple[TopicPartition, int]]:
        return [(tp, broker) for tp, replicas in self._placed.items() for broker in replicas]

    def destinations(self, thing: TopicPartition, source: int) -> Mapping[int, int]:
        placed, original = self._placed[thing], self._current[thing]
        others = [broker for broker in placed if broker != source]
        in_racks = Counter(self._racks.get(broker) for broker in others if broker in self._racks)
        stays_wrong = self._wrong(in_racks, source)
        found = {}
        for broker in self._racks:
            if broker not in placed:
                price = MOVE * ((broker not in original) - (source not in original))
                found[broker] = price + PLACE * (self._wrong(in_racks, broker) - stays_wrong)
        return found

    def _wrong(self, others: Counter[str | None], broker: int) -> int:
        """1 if the rack of *broker* already has a replica, else 0; brokers that must be left count as 0."""
        return int(broker in self._racks and others[self._racks[broker]] > 0)

    def move(self, thing: TopicPartition, source: int, destination: int) -> None:
        placed = self._placed[thing]
        placed[placed.index(source)] = destination
        self._of_topic[thing.topic, source] -= 1
        self._of_topic[thing.topic, destination] += 1

    def preference(self, thing: TopicPartition, source: int, destination: int) -> int:
        """Prefer the topic spread most unevenly between the two brokers, then a follower over a leader."""
        uneven = self._of_topic[thing.topic, source] - self._of_topic[thing.topic, destination]
        return 2 * uneven + (self._placed[thing][0] != source)


class _Leaders(Layout[TopicPartition]):
    """The layout of preferred leaders: each may be any replica of its partition."""

    def __init__(self, current: Assignment, placed: Assignment) -> None:
        self._before = {tp: current[tp][0] for tp in placed}
        self._placed = placed
        self._leader = {tp: replicas[0] for tp, replicas in placed.items()}

    def ordered(self, tp: TopicPartition) -> tuple[int, ...]:
        """A partition's replicas, with its leader swapped to the first place."""
        replicas = list(self._placed[tp])
        at = replicas.index(self._leader[tp])
        replicas[0], replicas[at] = replicas[at], replicas[0]
        return tuple(replicas)

    def things(self) -> Iterable[tuple[TopicPartition, int]]:
        return list(self._leader.items())

    def destinations(self, thing: TopicPartition, source: int) -> Mapping[int, int]:
        before = self._before[thing]
        return {
            broker: MOVE * ((broker != before) - (source != before))
            for broker in self._placed[thing]
            if broker != source
        }

    def move(self, thing: TopicPartition, source: int, destination: int) -> None:
        self._leader[thing] = destination

    def preference(self, thing: TopicPartition, source: int, destination: int) -> int:
        return 0
