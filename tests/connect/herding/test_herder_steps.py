"""The parts of a herder that need no cluster: its queue of requests, restarts, changes, and loggers."""

import logging
import uuid

import pytest

from penstock.connect.errors import ConnectError
from penstock.connect.herding.distributed.pending_changes import PendingChanges
from penstock.connect.herding.entities import ConnectorStateInfo, ConnectorType, RunState
from penstock.connect.herding.loggers import Loggers
from penstock.connect.herding.requests import RequestQueue
from penstock.connect.herding.restart_backoff import RestartBackoff
from penstock.connect.herding.restart_plan import restart_plan
from penstock.connect.stores import (
    ConnectorRemoved,
    ConnectorUpdated,
    RestartRequest,
    RestartRequested,
    TargetStateChanged,
    TasksUpdated,
)
from penstock.connect.task_id import ConnectorTaskId


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_requests_run_in_the_order_of_their_times() -> None:
    clock, seen, wakes = Clock(), list[str](), list[None]()
    queue = RequestQueue(lambda: wakes.append(None), clock)
    late = queue.submit(lambda: seen.append("late"), 5)
    queue.submit(lambda: seen.append("first"))
    assert len(wakes) == 2
    queue.submit(lambda: seen.append("second"))
    assert len(wakes) == 2  # the herder's thread is awake already
    queue.run_due()
    assert seen == ["first", "second"]
    assert not late.done()
    assert queue.patience_s() == 5
    clock.now_s += 5
    queue.run_due()
    assert seen == ["first", "second", "late"]
    assert queue.patience_s() is None


def test_requests_pass_results_and_errors_on() -> None:
    queue = RequestQueue(lambda: None)
    result, failed = queue.submit(lambda: 3), queue.submit(lambda: 1 // 0)
    queue.run_due()
    assert result.result() == 3
    assert isinstance(failed.exception(), ZeroDivisionError)
    waiting = queue.submit(lambda: None)
    queue.close()
    for refused in (waiting, queue.submit(lambda: None)):
        with pytest.raises(ConnectError, match="shutting down"):
            refused.result(0)


def states(connector: str, *tasks: str) -> ConnectorStateInfo:
    found = {number: RunState(state, "w") for number, state in enumerate(tasks)}
    return ConnectorStateInfo("c", RunState(connector, "w"), found, ConnectorType.SINK)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (RestartRequest("c"), ("RESTARTING", "RUNNING", "FAILED")),
        (RestartRequest("c", only_failed=True), ("RUNNING", "RUNNING", "FAILED")),
        (RestartRequest("c", include_tasks=True), ("RESTARTING", "RESTARTING", "RESTARTING")),
        (RestartRequest("c", only_failed=True, include_tasks=True), ("RUNNING", "RUNNING", "RESTARTING")),
    ],
)
def test_restart_plans(request_: RestartRequest, expected: tuple[str, ...]) -> None:
    plan = restart_plan(request_, states("RUNNING", "RUNNING", "FAILED"))
    assert (plan.states.connector.state, *(each.state for each in plan.states.tasks.values())) == expected
    assert plan.restarts_connector == (expected[0] == "RESTARTING")
    restarted = [number for number, state in enumerate(expected[1:]) if state == "RESTARTING"]
    assert plan.tasks == tuple(ConnectorTaskId("c", number) for number in restarted)


def test_a_failing_task_waits_longer_each_time_and_starts_anew_after_it_has_run() -> None:
    clock = Clock()
    backoff, task = RestartBackoff(clock), ConnectorTaskId("c", 0)
    asked = {"restart.backoff.max.ms": "5000"}
    delays: list[float | None] = []
    for _ in range(4):
        delay_s = backoff.delay_s(task, asked)
        delays.append(delay_s)
        clock.now_s += delay_s or 0
    assert delays == [1, 2, 4, 5]
    clock.now_s += 16
    assert backoff.delay_s(task, asked) == 1
    assert backoff.delay_s(task, asked) == 2
    backoff.forget(task)
    assert backoff.delay_s(task, asked) == 1
    assert backoff.delay_s(task, {}) is None
    assert backoff.delay_s(task, {"restart.backoff.max.ms": "soon"}) is None


def test_changes_of_the_config_topic_are_collected() -> None:
    wakes: list[None] = []
    pending = PendingChanges(lambda: wakes.append(None))
    pending.start(["old"])
    for change in (
        ConnectorUpdated("old"),
        TargetStateChanged("old"),
        RestartRequested(RestartRequest("old", only_failed=True, include_tasks=True)),
        RestartRequested(RestartRequest("old")),
        RestartRequested(RestartRequest("old", only_failed=True)),
    ):
        pending.add(change)
    assert len(wakes) == 5
    assert not pending.needs_rebalance
    assert pending.take() == (False, {"old"}, {"old"}, set())
    assert pending.take_restarts() == [RestartRequest("old")]
    assert not any(pending.take())
    for other in (ConnectorUpdated("new"), TasksUpdated("new", ()), ConnectorRemoved("old")):
        pending.add(other)
        assert pending.needs_rebalance
        assert pending.take().needs_rebalance
    pending.add(ConnectorUpdated("new"))
    assert pending.take() == (False, {"new"}, set(), set())


def test_loggers_have_log4js_levels() -> None:
    name = f"penstock.tests.{uuid.uuid4().hex}"
    loggers = Loggers(lambda: 7)
    assert loggers.level(name) is None
    child = logging.getLogger(f"{name}.child")
    child.setLevel(logging.ERROR)
    assert loggers.set_level(name, "trace") == [name, child.name]
    assert loggers.set_level(name, "TRACE") == []
    assert loggers.set_level(name, "LOUD") == []
    level = loggers.level(child.name)
    assert level is not None
    assert (level.level, level.last_modified_ms) == ("TRACE", 7)
    assert loggers.levels()[name].level == "TRACE"
    loggers.set_level(name, "OFF")
    assert not child.isEnabledFor(logging.CRITICAL)
    assert name not in loggers.levels()
    root = loggers.level("root")
    assert root is not None
    assert root.level == "WARN" if logging.root.level == logging.WARNING else root.level
