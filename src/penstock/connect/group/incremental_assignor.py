"""Move as little work as possible when workers, connectors or tasks come and go (KIP-415).

The leader compares what it assigned before with what the workers say they run:

- What it assigned and no worker runs is lost. If a worker has left, its work waits for it until
  `scheduled.rebalance.max.delay.ms` have passed, and then goes to workers that joined meanwhile, else to all.
- What workers run beyond their equal share is revoked, so that a later rebalance can assign it to the others.
  A worker first stops what was revoked and then rejoins, so nothing runs twice.
- A second revoking rebalance in a row waits, for longer each time, since a group whose members change all the
  time would otherwise only stop and start (KAFKA-12495).

What the leader remembers is lost with it; the next leader begins with what the workers say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from penstock.connect.group.assignment import Configured, Decision, Generations, Work, task_hash, task_order
from penstock.connect.task_id import ConnectorTaskId
from penstock.java.hash_order import copied, grown
from penstock.java.strings import hash_code, utf16

Item = TypeVar("Item")

_BACKOFF_MULTIPLIER: Final = 40
"""By this factor each further revoking rebalance in a row waits longer than the one before."""


class _Items:
    """Connectors and tasks, both in the order in which they were added."""

    def __init__(self, connectors: Iterable[str] = (), tasks: Iterable[ConnectorTaskId] = ()) -> None:
        self.connectors = dict.fromkeys(connectors)
        self.tasks = dict.fromkeys(tasks)

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def add(self, more: _Items) -> None:
        self.connectors |= more.connectors
        self.tasks |= more.tasks

    def remove(self, others: _Items) -> None:
        for connector in others.connectors:
            self.connectors.pop(connector, None)
        for task in others.tasks:
            self.tasks.pop(task, None)

    def without(self, *others: _Items) -> _Items:
        """Return the items that are in none of the others, in the order of their names."""
        connectors = {
            name for name in self.connectors if not any(name in other.connectors for other in others)
        }
        tasks = {task for task in self.tasks if not any(task in other.tasks for other in others)}
        return _Items(sorted(connectors, key=utf16), sorted(tasks, key=task_order))

    def among(self, wanted: _Items) -> _Items:
        """Return the items that are also wanted."""
        return _Items(
            (name for name in copied(self.connectors, hash_code) if name in wanted.connectors),
            (task for task in copied(self.tasks, task_hash) if task in wanted.tasks),
        )

    def overlaps(self, other: _Items) -> bool:
        return bool(
            self.connectors.keys() & other.connectors.keys() or self.tasks.keys() & other.tasks.keys()
        )

    def work(self) -> Work:
        return Work(tuple(self.connectors), tuple(self.tasks))


class IncrementalCooperativeAssignor:
    """The assignor of the cooperative protocols, with what it remembers from the rebalances before.

    Args:
        max_delay_ms: the time for which lost work waits for its worker, ``scheduled.rebalance.max.delay.ms``.
        clock_ms: the current time in milliseconds.
    """

    def __init__(self, max_delay_ms: int, clock_ms: Callable[[], int]) -> None:
        self._max_delay_ms = max_delay_ms
        self._clock_ms = clock_ms
        self._previous = _Items()
        self._previously_revoked = _Items()
        self._previous_generation = -1
        self._previous_members: Collection[str] = ()
        self._delay_ms = 0
        self._due_ms = 0
        """The time of the delayed rebalance; 0 if none is scheduled."""
        self._candidates: dict[str, None] = {}
        """Members without work since the delay began: they take over what was lost."""
        self._has_revoked = False
        self._successive_revocations = 0

    def assign(
        self, configured: Configured, generations: Generations, running: Mapping[str, Work]
    ) -> Decision:
        loads = {member: _Items(*running[member]) for member in grown(running, hash_code)}
        wanted = _Items(configured.tasks, (task for tasks in configured.tasks.values() for task in tasks))
        active = _united(loads.values())
        self._check_memory(generations, active)
        deleted = self._previous.without(wanted)
        lost = self._previous.without(active, deleted)
        created = wanted.without(self._previous, active)
        kept = {member: _Items(*load.work()) for member, load in loads.items()}
        for load in kept.values():
            load.remove(deleted)
        revoked = {member: load.among(deleted) for member, load in loads.items()}
        duplicated = _duplicated(loads.values())
        for member, load in loads.items():
            revoked[member].add(load.among(duplicated))
        for member, load in loads.items():
            load.remove(revoked[member])

        to_assign = created
        to_assign.add(self._reassignable(lost, loads))
        self._balance(wanted, loads, revoked)
        _deal(list(loads), {member: load.connectors for member, load in loads.items()}, to_assign.connectors)
        _deal(list(loads), {member: load.tasks for member, load in loads.items()}, to_assign.tasks)

        self._remember(generations, loads, revoked, lost)
        return Decision(
            {member: _difference(load, kept[member]) for member, load in loads.items()},
            {member: items.work() for member, items in revoked.items()},
            {member: _difference(load, revoked[member]) for member, load in loads.items()},
            self._delay_ms,
        )

    def _check_memory(self, generations: Generations, active: _Items) -> None:
        """Drop what the workers may never have received, and what they did not stop."""
        if self._previous_generation != generations.last_completed:
            self._previous = _Items()
        if self._previously_revoked.overlaps(active):
            self._previous = active
        self._previously_revoked = _Items()

    def _reassignable(self, lost: _Items, loads: Mapping[str, _Items]) -> _Items:
        """Return the lost items that shall be assigned now as if they were new.

        If the delay has passed and members joined meanwhile, they get the lost items here.
        """
        if not lost and not self._has_revoked:
            self._end_delay()
            return _Items()
        now_ms = self._clock_ms()
        if self._due_ms <= 0 and loads.keys() >= set(self._previous_members):
            return lost  # nobody has left: a worker has not received its assignment
        if self._max_delay_ms == 0:
            return lost
        if 0 < self._due_ms <= now_ms:
            candidates = [loads[member] for member in self._candidates if member in loads]
            self._end_delay()
            self._has_revoked = False
            if not candidates:
                return lost
            for at, connector in enumerate(lost.connectors):
                candidates[at % len(candidates)].connectors[connector] = None
            for at, task in enumerate(lost.tasks):
                candidates[at % len(candidates)].tasks[task] = None
            return _Items()
        idle = [member for member, load in loads.items() if not load]
        self._candidates |= dict.fromkeys(grown(idle, hash_code))
        remaining_ms = min(self._due_ms - now_ms, self._max_delay_ms)
        self._delay_ms = remaining_ms if remaining_ms > 0 else self._max_delay_ms
        self._due_ms = now_ms + self._delay_ms
        return _Items()

    def _end_delay(self) -> None:
        self._candidates = {}
        self._due_ms = 0
        self._delay_ms = 0

    def _balance(self, wanted: _Items, loads: Mapping[str, _Items], revoked: Mapping[str, _Items]) -> None:
        """Revoke what members run beyond their share, unless a delay runs or has to begin first."""
        if self._delay_ms:
            self._has_revoked = False
            return
        surplus = _surplus(wanted, loads)
        if not surplus:
            if self._has_revoked:
                self._has_revoked = False
                self._successive_revocations = 0
            return
        if self._has_revoked:
            self._successive_revocations += 1
            self._delay_ms = self._backoff_ms()
            if self._delay_ms:
                self._due_ms = self._clock_ms() + self._delay_ms
                return
        self._has_revoked = True
        for member, items in surplus.items():
            revoked[member].add(items)
            loads[member].remove(items)

    def _backoff_ms(self) -> int:
        if self._max_delay_ms <= 1:
            return self._max_delay_ms
        steps_max = math.log(self._max_delay_ms) / math.log(_BACKOFF_MULTIPLIER)
        return min(
            int(math.pow(_BACKOFF_MULTIPLIER, min(self._successive_revocations, steps_max))),
            self._max_delay_ms,
        )

    def _remember(
        self,
        generations: Generations,
        loads: Mapping[str, _Items],
        revoked: Mapping[str, _Items],
        lost: _Items,
    ) -> None:
        self._previously_revoked = _united(revoked.values())
        self._previous = _united(loads.values())
        self._previous.remove(self._previously_revoked)
        self._previous.add(lost)
        self._previous_generation = generations.current
        self._previous_members = tuple(loads)


def _united(items: Iterable[_Items]) -> _Items:
    union = _Items()
    for each in items:
        union.add(each)
    return union


def _duplicated(loads: Iterable[_Items]) -> _Items:
    """Return the items that several members run."""
    seen, twice = _Items(), _Items()
    for load in loads:
        twice.add(load.among(seen))
        seen.add(load)
    return twice


def _difference(base: _Items, subtracted: _Items) -> Work:
    """Return the items of the first that the second has not, in the order of the first."""
    return Work(
        tuple(connector for connector in base.connectors if connector not in subtracted.connectors),
        tuple(task for task in base.tasks if task not in subtracted.tasks),
    )


def _surplus(wanted: _Items, loads: Mapping[str, _Items]) -> dict[str, _Items]:
    """Return what members run beyond an equal share of everything, by member."""
    if not wanted or not any(loads.values()):
        return {}
    connectors = _beyond_share(
        len(wanted.connectors), {member: load.connectors for member, load in loads.items()}
    )
    tasks = _beyond_share(len(wanted.tasks), {member: load.tasks for member, load in loads.items()})
    return {
        member: _Items(connectors.get(member, ()), tasks.get(member, ()))
        for member in loads
        if member in connectors or member in tasks
    }


def _beyond_share(total: int, loads: Mapping[str, Collection[Item]]) -> dict[str, list[Item]]:
    """Return each member's items beyond its share.

    If the shares are not equal, the first members that have more than the smaller share keep one more.
    """
    share, extras = divmod(total, len(loads))
    sizes = [len(load) for load in loads.values()]
    if sizes.count(share + 1) == extras and sizes.count(share) + extras == len(loads):
        return {}
    surplus = {}
    for member, load in loads.items():
        if len(load) <= share:
            continue
        keeps = share
        if extras:
            extras -= 1
            keeps += 1
        if len(load) > keeps:
            surplus[member] = list(load)[: len(load) - keeps]
    return surplus


def _deal(members: list[str], loads: Mapping[str, dict[Item, None]], items: Collection[Item]) -> None:
    """Give items in turn to the members with the fewest, until all have equally many, and so on."""
    members.sort(key=lambda member: (len(loads[member]), utf16(member)))
    remaining = iter(items)
    left = len(items)
    while left:
        fewest = len(loads[members[0]])
        poorest = [member for member in members if len(loads[member]) <= fewest]
        for member in poorest[:left]:
            loads[member][next(remaining)] = None
        left -= min(left, len(poorest))
