"""Distribute all connectors and tasks in turn over the workers, which stopped everything before."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from penstock.connect.group.assignment import Configured, Decision, Generations, Work, task_order
from penstock.connect.task_id import ConnectorTaskId
from penstock.java.strings import utf16


class EagerAssignor:
    """The assignor of the eager protocol: first all connectors, then all tasks, to the members in order."""

    def assign(
        self, configured: Configured, generations: Generations, running: Mapping[str, Work]
    ) -> Decision:
        connectors: dict[str, list[str]] = {member: [] for member in running}
        tasks: dict[str, list[ConnectorTaskId]] = {member: [] for member in running}
        members = cycle(sorted(running, key=utf16))
        names = sorted(configured.tasks, key=utf16)
        for name in names:
            connectors[next(members)].append(name)
        for name in names:
            for task in sorted(configured.tasks[name], key=task_order):
                tasks[next(members)].append(task)
        assigned = {member: Work(connectors[member], tasks[member]) for member in running}
        return Decision(assigned, {}, assigned)
