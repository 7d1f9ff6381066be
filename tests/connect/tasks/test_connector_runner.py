"""A connector in its thread: transitions, failures from outside, and the configurations of its tasks."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from running_tasks import Listener

from penstock.connect import ConfigDef, ConfigType, ConnectError, SourceConnector, SourceTask
from penstock.connect.stores import State, TargetState
from penstock.connect.tasks import ConnectorRunner
from waiting import LIMIT_S

PROPERTIES = {"name": "tables", "tables": "a,b,c", "topics": "t"}


class Tables(SourceConnector):
    """Splits tables between tasks."""

    definition = ConfigDef().define("tables", ConfigType.LIST)
    task_class = SourceTask

    def __init__(self) -> None:
        self.events: list[str] = []
        self.failure: Exception | None = None

    def start(self, config: Mapping[str, Any]) -> None:
        self.events.append(f"start {config['tables']}")
        if self.failure is not None:
            raise self.failure

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [{"table": table} for table in ("a", "b")][:max_tasks]

    def stop(self) -> None:
        self.events.append("stop")
        if self.failure is not None:
            raise self.failure


def running(connector: Tables, listener: Listener) -> ConnectorRunner:
    runner = ConnectorRunner("tables", connector, PROPERTIES, listener, lambda: None)
    runner.start()
    return runner


def test_a_connector_is_started_paused_stopped_and_resumed() -> None:
    connector, listener = Tables(), Listener()
    runner = running(connector, listener)
    for target in (TargetState.STARTED, TargetState.PAUSED, TargetState.STARTED, TargetState.STOPPED):
        assert runner.transition(target).result(LIMIT_S) is target
        assert runner.transition(target).result(LIMIT_S) is target
    runner.stop()
    assert runner.join(LIMIT_S)
    states = [State.RUNNING, State.PAUSED, State.RUNNING, State.STOPPED, State.UNASSIGNED]
    assert listener.states == states
    assert connector.events == ["start ['a', 'b', 'c']", "stop"] * 2


def test_a_connector_that_fails_can_only_be_stopped() -> None:
    connector, listener = Tables(), Listener()
    connector.failure = ValueError("no such database")
    runner = running(connector, listener)
    with pytest.raises(ConnectError, match="Failed to transition connector tables to state STARTED"):
        runner.transition(TargetState.STARTED).result(LIMIT_S)
    assert "ValueError: no such database" in listener.traces[0]
    with pytest.raises(ConnectError, match="since it has failed"):
        runner.transition(TargetState.PAUSED).result(LIMIT_S)
    assert runner.transition(TargetState.STOPPED).result(LIMIT_S) is TargetState.STOPPED
    runner.stop()
    assert runner.join(LIMIT_S)
    assert listener.states == [State.FAILED, State.STOPPED, State.UNASSIGNED]


def test_a_connector_can_fail_from_any_thread_and_ask_for_new_tasks() -> None:
    asked = threading.Event()
    connector, listener = Tables(), Listener()
    runner = ConnectorRunner("tables", connector, PROPERTIES, listener, asked.set)
    runner.start()
    runner.transition(TargetState.STARTED).result(LIMIT_S)
    connector.context.request_task_reconfiguration()
    assert asked.is_set()
    assert runner.task_configs(1) == [{"table": "a", "topics": "t"}]
    connector.context.raise_error(ValueError("the slot is gone"))
    listener.wait_for(State.FAILED)
    assert "the slot is gone" in listener.traces[0]
    runner.stop()
    assert runner.join(LIMIT_S)
    assert connector.events[-1] == "stop"


def test_a_cancelled_connector_reports_nothing_after_it() -> None:
    class Slow(Tables):
        goes_on = threading.Event()

        def start(self, config: Mapping[str, Any]) -> None:
            assert self.goes_on.wait(LIMIT_S)

    connector, listener = Slow(), Listener()
    runner = running(connector, listener)
    transition = runner.transition(TargetState.STARTED)
    runner.stop()
    runner.cancel()
    assert listener.states == [State.UNASSIGNED]
    connector.goes_on.set()
    assert runner.join(LIMIT_S)
    assert listener.states == [State.UNASSIGNED]
    transition.exception(LIMIT_S)
