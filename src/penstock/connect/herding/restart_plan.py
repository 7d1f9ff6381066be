"""Decide which parts of a connector a restart request concerns (KIP-745)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from penstock.connect.herding.entities import ConnectorStateInfo, RunState
from penstock.connect.stores.configs.model import RestartRequest
from penstock.connect.stores.statuses.model import State
from penstock.connect.task_id import ConnectorTaskId


class RestartPlan(NamedTuple):
    """The parts of a connector to restart, and the states to answer, RESTARTING for those parts."""

    restarts_connector: bool
    tasks: tuple[ConnectorTaskId, ...]
    states: ConnectorStateInfo


def restart_plan(request: RestartRequest, states: ConnectorStateInfo) -> RestartPlan:
    """Apply a request to the present states of a connector and its tasks."""

    def planned(state: RunState) -> RunState:
        if request.only_failed and state.state != State.FAILED.value:
            return state
        return replace(state, state=State.RESTARTING.value)

    connector = planned(states.connector)
    tasks = {
        number: planned(state) if request.include_tasks else state for number, state in states.tasks.items()
    }
    return RestartPlan(
        _restarts(connector),
        tuple(ConnectorTaskId(states.name, number) for number in sorted(tasks) if _restarts(tasks[number])),
        replace(states, connector=connector, tasks=tasks),
    )


def impact(request: RestartRequest) -> int:
    """Rank requests: the one with the highest rank among those that wait is executed."""
    return 2 * (not request.only_failed) + request.include_tasks


def _restarts(state: RunState) -> bool:
    return state.state == State.RESTARTING.value
