"""Write the states of connectors and tasks to the status topic, and answer what that topic holds."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Collection, Mapping
from typing import Final

from penstock.connect.herding.entities import ActiveTopics, ConnectorStateInfo, ConnectorType, RunState
from penstock.connect.herding.errors import NotFound
from penstock.connect.stores.statuses.model import State, Status, Subject, TopicStatus
from penstock.connect.stores.statuses.store import StatusStore
from penstock.connect.task_id import ConnectorTaskId

_YIELDING: Final = (State.UNASSIGNED, State.FAILED)
"""States that end the work of one worker. They give way to those of a worker that has taken over."""


class StatusReports:
    """The states of the connectors and tasks of one worker. Any thread may call its methods.

    Args:
        worker_id: the host and port of this worker.
        generation: returns the generation of the workers' group, which tells old states from new ones.
        tracks_topics: whether to note the topics that connectors use (KIP-558).
    """

    def __init__(
        self,
        store: StatusStore,
        worker_id: str,
        generation: Callable[[], int],
        *,
        tracks_topics: bool = True,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._generation = generation
        self._tracks_topics = tracks_topics
        self._clock_ms = clock_ms

    # Writes

    def report(
        self,
        subject: Subject,
        state: State,
        trace: str | None = None,
        version: str | None = None,
    ) -> None:
        """Write a state; `trace` is the stack trace of a failure."""
        status = Status(state, self._worker_id, self._generation(), trace, version)
        put = self._store.put_safe if state in _YIELDING else self._store.put
        put(subject, status)

    def topic_used(self, task: ConnectorTaskId, topic: str) -> None:
        """Note that a task used a topic, unless that is known."""
        if self._tracks_topics and topic not in self._store.topics(task.connector):
            self._store.put_topic(TopicStatus(topic, task.connector, task.task, self._clock_ms()))

    def reset_topics(self, connector: str) -> None:
        """Forget which topics a connector has used."""
        for topic in self._store.topics(connector):
            self._store.delete_topic(connector, topic)

    def delete_strangers(self, tasks: Mapping[str, Collection[ConnectorTaskId]]) -> None:
        """Delete the states of all connectors and tasks except these."""
        for connector in self._store.connectors():
            kept = tasks.get(connector, ())
            for task in self._store.tasks(connector):
                if task not in kept:
                    self.report(task, State.DESTROYED)
            if connector not in tasks:
                self.report(connector, State.DESTROYED)

    # Reads

    def task_status(self, task: ConnectorTaskId) -> RunState:
        """Return what is known of a task. Raises NotFound."""
        status = self._store.get(task)
        if status is None:
            raise NotFound(f"No status found for task {task}")
        return _run_state(status)

    def connector_status(self, connector: str, kind: ConnectorType) -> ConnectorStateInfo:
        """Return what is known of a connector and its tasks. Raises NotFound."""
        status = self._store.get(connector)
        if status is None:
            raise NotFound(f"No status found for connector {connector}")
        tasks = {task.task: _run_state(each) for task, each in self._store.tasks(connector).items()}
        return ConnectorStateInfo(connector, _run_state(status), tasks, kind)

    def active_topics(self, connector: str) -> ActiveTopics:
        return ActiveTopics(connector, list(self._store.topics(connector)))


def trace_of(error: BaseException) -> str:
    """Return the stack trace of a failure for its status."""
    return "".join(traceback.format_exception(error))


def _run_state(status: Status) -> RunState:
    return RunState(status.state.value, status.worker_id, status.trace, status.version)
