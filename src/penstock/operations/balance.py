"""Distribute movable things over brokers as evenly as allowed, with as few moves as possible. Pure.

Things (replicas of partitions, or their leaders) are placed at brokers and may move to some others; each move
has a price. The goal is the flattest loads, and among all ways to reach them the cheapest. That is a
minimum-cost flow: a load of n costs 1 + 3 + … + (2n - 1), so that it always pays to take from the fuller
broker; things flow from broker to broker at the price of their moves. A flow is optimal when no cycle of the
residual graph is negative (Klein, "A primal method for minimal cost flows", 1967). In the graph here brokers
are the nodes; an edge is the cheapest thing that could move along it, and loads are edges to and from one
more node, the outside. The algorithm first takes the steps that lead directly from a full broker to an empty
one; cycles settle the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Generic, NamedTuple, TypeVar

Thing = TypeVar("Thing")

# Prices: one unit of load outweighs all moves, and one wrong place (as `Layout.destinations` prices it)
# outweighs all loads.
MOVE: Final = 1
LOAD: Final = 10**9
PLACE: Final = 10**18
_OUTSIDE: Final = -1


class Layout(ABC, Generic[Thing]):
    """The placement of things and their allowed moves. A thing's `destinations` change only when it moves."""

    @abstractmethod
    def things(self) -> Iterable[tuple[Thing, int]]:
        """Every thing with its broker; a thing with several copies appears once for each."""

    @abstractmethod
    def destinations(self, thing: Thing, source: int) -> Mapping[int, int]:
        """The brokers that the copy at *source* may move to, with prices.

        A price is negative if the move undoes an earlier move or corrects a wrong place.
        """

    @abstractmethod
    def move(self, thing: Thing, source: int, destination: int) -> None:
        """Move the copy at *source* to *destination*."""

    @abstractmethod
    def preference(self, thing: Thing, source: int, destination: int) -> int:
        """The rank among things of one price; the thing with the highest rank moves first."""


class _Step(NamedTuple):
    source: int
    destination: int


def balance(layout: Layout[Thing], brokers: Sequence[int], leaving: Sequence[int] = ()) -> None:
    """Move things until the loads are as flat as the layout allows, at the lowest price.

    The result is deterministic: equal layouts end equal. All things leave the *leaving* brokers, and none
    moves to them.
    """
    graph = _Graph(layout, brokers, leaving)
    while (step := graph.best_step()) is not None:
        graph.carry_out([step])
    barred: set[tuple[_Step, ...]] = set()
    while (cycle := graph.negative_cycle(barred)) is not None:
        if not graph.carry_out(cycle):
            barred.add(tuple(cycle))


class _Graph(Generic[Thing]):
    """Brokers, their loads, and for each pair of brokers the things that could move between, by price."""

    def __init__(self, layout: Layout[Thing], brokers: Sequence[int], leaving: Sequence[int]) -> None:
        self._layout = layout
        self._leaving = frozenset(leaving)
        self._brokers = sorted({*brokers, *leaving})
        self._loads = dict.fromkeys(self._brokers, 0)
        # movable[step][price]: the things, in a dict that keeps their order
        self._movable: dict[_Step, dict[int, dict[Thing, None]]] = {}
        self._sources: dict[Thing, dict[int, Mapping[int, int]]] = {}
        for thing, source in layout.things():
            self._loads[source] += 1
            self._enter(thing, source)

    # -- what could move -----------------------------------------------------------------------------

    def _enter(self, thing: Thing, source: int) -> None:
        found = self._layout.destinations(thing, source)
        self._sources.setdefault(thing, {})[source] = found
        for destination, price in found.items():
            prices = self._movable.setdefault(_Step(source, destination), {})
            prices.setdefault(price, {})[thing] = None

    def _strike(self, thing: Thing, source: int) -> None:
        for destination, price in self._sources[thing].pop(source).items():
            prices = self._movable[_Step(source, destination)]
            del prices[price][thing]
            if not prices[price]:
                del prices[price]

    def _move(self, thing: Thing, step: _Step) -> int:
        """Move a thing and return the price.

        The destinations of all its copies are recomputed, since copies exclude each other.
        """
        price = self._sources[thing][step.source][step.destination]
        copies = list(self._sources[thing])
        for source in copies:
            self._strike(thing, source)
        self._layout.move(thing, *step)
        for source in copies:
            self._enter(thing, step.destination if source == step.source else source)
        self._loads[step.source] -= 1
        self._loads[step.destination] += 1
        return price

    def _price(self, step: _Step) -> int | None:
        prices = self._movable.get(step)
        return min(prices) if prices else None

    def _relief(self, broker: int) -> int:
        """The gain of removing one thing from the broker."""
        return PLACE**2 if broker in self._leaving else LOAD * (2 * self._loads[broker] - 1)

    def _burden(self, broker: int) -> int:
        """The cost of adding one thing to the broker."""
        return LOAD * (2 * self._loads[broker] + 1)

    # -- improvements --------------------------------------------------------------------------------

    def best_step(self) -> _Step | None:
        """The single move with the highest gain; None if no move has a gain."""
        best: tuple[int, _Step] | None = None
        for step in self._movable:
            price = self._price(step)
            if price is None:
                continue
            gain = self._relief(step.source) - self._burden(step.destination) - price
            if gain > 0 and (best is None or (-gain, step) < best):
                best = (-gain, step)
        return None if best is None else best[1]

    def negative_cycle(self, barred: set[tuple[_Step, ...]]) -> list[_Step] | None:
        """Steps between brokers that have a gain only together, found by Bellman and Ford's algorithm."""
        nodes = [_OUTSIDE, *self._brokers]
        distance = dict.fromkeys(nodes, 0)
        before: dict[int, int] = {}
        edges = list(self._edges())
        last: int | None = None
        for _ in nodes:
            last = None
            for source, destination, price in edges:
                if distance[source] + price < distance[destination]:
                    distance[destination] = distance[source] + price
                    before[destination] = source
                    last = destination
            if last is None:
                return None
        assert last is not None
        for _ in nodes:  # follow predecessors until the node is on the cycle itself
            last = before[last]
        cycle = [last]
        while (previous := before[cycle[-1]]) != last:
            cycle.append(previous)
        cycle.reverse()
        if _OUTSIDE in cycle:
            at = cycle.index(_OUTSIDE)
            path = cycle[at + 1 :] + cycle[:at]
            steps = [_Step(a, b) for a, b in pairwise(path)]
        else:
            steps = [_Step(a, b) for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
        return None if not steps or tuple(steps) in barred else steps

    def _edges(self) -> Iterator[tuple[int, int, int]]:
        for broker in self._brokers:
            if self._loads[broker]:
                yield _OUTSIDE, broker, -self._relief(broker)
            if broker not in self._leaving:
                yield broker, _OUTSIDE, self._burden(broker)
        for step in sorted(self._movable):
            price = self._price(step)
            if price is not None:
                yield step.source, step.destination, price

    def carry_out(self, steps: Sequence[_Step]) -> bool:
        """Make the moves and return True, or undo them if they gain nothing.

        Two moves of one thing may conflict.
        """
        loads_before = dict(self._loads)
        total = 0
        done: list[tuple[Thing, _Step]] = []
        for step in steps:
            price = self._price(step)
            if price is None:
                break
            candidates = self._movable[step][price]
            thing = max(candidates, key=lambda one: self._layout.preference(one, *step))
            total += self._move(thing, step)
            done.append((thing, step))
        if len(done) == len(steps) and total + self._load_cost() - self._load_cost(loads_before) < 0:
            return True
        for thing, step in reversed(done):
            self._move(thing, _Step(step.destination, step.source))
        return False

    def _load_cost(self, loads: Mapping[int, int] | None = None) -> int:
        return sum(
            load * PLACE**2 if broker in self._leaving else LOAD * load * load
            for broker, load in (self._loads if loads is None else loads).items()
        )
