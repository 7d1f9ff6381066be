"""The connectors and tasks that this worker runs for its group."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from penstock.connect.errors import ConnectError
from penstock.connect.group.assignment import Assignment
from penstock.connect.herding.distributed.configurations import Configurations
from penstock.connect.herding.runtime import Reports, Runtime, TaskStart
from penstock.connect.herding.stages import Stages
from penstock.connect.herding.status_reports import trace_of
from penstock.connect.stores.configs.model import TargetState
from penstock.connect.stores.statuses.model import State, Subject
from penstock.connect.task_id import ConnectorTaskId

log = logging.getLogger(__name__)

_THREADS: Final = 8
"""Connectors and tasks that start or stop at the same time, as in Kafka Connect."""


class StartedTask(NamedTuple):
    """One start of a task. A later start of the same task is another one: it may be its successor."""

    task: ConnectorTaskId
    stopped: threading.Event
    """Set once the task has to stop, also if it is abandoned because it does not."""

    def require(self) -> None:
        """Raise ConnectError if the task has to stop."""
        if self.stopped.is_set():
            raise ConnectError(f"task {self.task} is stopped before it has started")


class LocalWork:
    """Starts and stops what is assigned to this worker. Its methods belong to the herder's thread.

    Args:
        started: receives each connector that has reached the state STARTED, in any thread.
        fence: fences the producers of a task's predecessors, in the task's thread, until it is stopped.
        verify: checks that a task still belongs to this worker and that its configuration is still of this
            generation, in the task's thread.
    """

    def __init__(
        self,
        runtime: Runtime,
        configurations: Configurations,
        reports: Reports,
        stages: Stages,
        *,
        started: Callable[[str], None],
        fence: Callable[[StartedTask], None],
        verify: Callable[[StartedTask, int], None],
    ) -> None:
        self._runtime = runtime
        self._configurations = configurations
        self._reports = reports
        self._stages = stages
        self._started = started
        self._fence = fence
        self._verify = verify
        self._running: set[Subject] = set()
        """All that is assigned to this worker and was started, whatever became of it."""
        self._started_tasks: dict[ConnectorTaskId, StartedTask] = {}
        """The last start of each task that was not stopped since."""
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="connect start and stop")

    def __contains__(self, subject: Subject) -> bool:
        return subject in self._running

    def close(self) -> None:
        """Stop everything; afterwards nothing can start."""
        connectors, tasks = _split(self._running)
        self.stop(connectors, tasks)
        for started in self._started_tasks.values():
            started.stopped.set()
        self._pool.shutdown()

    def start(self, assignment: Assignment) -> None:
        """Start what is assigned and does not run, and wait until all of it was started."""
        connectors = [name for name in assignment.connectors if self._is_new(name)]
        tasks = [task for task in assignment.tasks if self._is_new(task)]
        log.info("starting connectors and tasks connectors=%d tasks=%d", len(connectors), len(tasks))
        with self._stages.stage(f"starting {len(connectors) + len(tasks)} connector(s) and task(s)"):
            starts = [self._pool.submit(self._start_connector, name) for name in connectors]
            task_starts = [self._pool.submit(self._try_to_start_task, task) for task in tasks]
            for each in starts:
                each.result()
            for task_start in task_starts:
                task_start.result()
        self._running.update(connectors)
        self._running.update(tasks)

    def stop(self, connectors: Collection[str], tasks: Collection[ConnectorTaskId]) -> None:
        """Stop connectors and tasks, and wait for them."""
        connectors = [name for name in connectors if name in self._running]
        tasks = [task for task in tasks if task in self._running]
        with self._stages.stage(f"stopping {len(connectors)} connectors and {len(tasks)} tasks"):
            for task in tasks:
                started = self._started_tasks.pop(task, None)
                if started is not None:
                    started.stopped.set()
            # Each call has one deadline, however much there is to stop
            stops = [self._pool.submit(self._runtime.stop_connectors, connectors)] if connectors else []
            if tasks:
                stops.append(self._pool.submit(self._runtime.stop_tasks, tasks))
            for each in stops:
                error = each.exception()
                if error is not None:
                    log.error("connectors or tasks failed to stop", exc_info=error)
        self._running.difference_update(connectors)
        self._running.difference_update(tasks)

    def stop_tasks_of(self, connectors: Collection[str]) -> None:
        """Stop the tasks of connectors until the next `start`, because their configurations have changed."""
        _, tasks = _split(self._running)
        self.stop([], [task for task in tasks if task.connector in connectors])

    def restart(self, connectors: Collection[str], tasks: Collection[ConnectorTaskId]) -> None:
        """Restart connectors and tasks that are assigned to this worker."""
        self.stop(connectors, tasks)
        subjects: list[Subject] = [*connectors, *tasks]
        for subject in subjects:
            self._reports.report(subject, State.RESTARTING)
        for name in connectors:
            self.restart_connector(name)
        for task in tasks:
            self._running.add(task)
            self._try_to_start_task(task)

    def restart_connector(self, name: str) -> Future[TargetState]:
        """Restart a connector that is assigned to this worker; the future is done when it has its state."""
        self.stop([name], [])
        self._running.add(name)
        return self._start_connector(name)

    def restart_task(self, task: ConnectorTaskId) -> None:
        """Restart a task that is assigned to this worker. Raises an exception if it cannot start."""
        self.stop([], [task])
        self._running.add(task)
        self._start_task(task)

    def update_connectors(self, connectors: Iterable[str]) -> None:
        """Restart those of these connectors that run here, with their new configurations."""
        for name in self._running.intersection(connectors):
            assert isinstance(name, str)
            if name in self._configurations.known:  # it may be deleted by now
                self.restart_connector(name)

    def set_target_states(self, connectors: Iterable[str]) -> None:
        """Bring connectors and their tasks into the states of the config topic, as far as they run here."""
        for name in connectors:
            if name in self._configurations.known:
                state = self._target_state(name)
                log.info("changing the state of a connector connector=%s state=%s", name, state.value)
                changed = self._runtime.set_target_state(name, state)
                if changed is not None:
                    self._follow(name, changed)

    def _start_connector(self, name: str) -> Future[TargetState]:
        """Start a connector in the state of the config topic."""
        log.info("starting a connector connector=%s", name)
        try:
            properties = self._configurations.known.connector_configs[name]
            started = self._runtime.start_connector(name, properties, self._target_state(name))
        except Exception as error:
            log.exception("a connector failed to start connector=%s", name)
            self._reports.report(name, State.FAILED, trace_of(error))
            started = Future()
            started.set_exception(error)
        self._follow(name, started)
        return started

    def _start_task(self, task: ConnectorTaskId) -> None:
        """Start a task in the state of its connector. Raises an exception if it cannot start."""
        log.info("starting a task task=%s", task)
        known = self._configurations.known
        generation = known.task_config_generations.get(task.connector, 0)
        started = self._started_tasks[task] = StartedTask(task, threading.Event())
        self._runtime.start_task(
            TaskStart(
                task=task,
                connector_properties=known.connector_configs[task.connector],
                properties=known.task_configs[task],
                state=self._target_state(task.connector),
                fence=lambda: self._fence(started),
                verify=lambda: self._verify(started, generation),
            )
        )

    def _try_to_start_task(self, task: ConnectorTaskId) -> None:
        """Start a task, or report why it cannot start."""
        try:
            self._start_task(task)
        except Exception as error:
            log.exception("a task failed to start task=%s", task)
            self._reports.report(task, State.FAILED, trace_of(error))

    def _follow(self, name: str, change: Future[TargetState]) -> None:
        """Pass a connector on that has reached the state STARTED."""

        def changed(change: Future[TargetState]) -> None:
            error = change.exception()
            if error is not None:
                log.error("a connector did not change its state connector=%s error=%s", name, error)
            elif change.result() is TargetState.STARTED:
                self._started(name)

        change.add_done_callback(changed)

    def _is_new(self, subject: Subject) -> bool:
        """Whether an assigned connector or task is to be started; it may be deleted since the assignment."""
        known = self._configurations.known
        exists = subject in known if isinstance(subject, str) else subject in known.tasks(subject.connector)
        return exists and subject not in self._running

    def _target_state(self, connector: str) -> TargetState:
        return self._configurations.known.target_states.get(connector, TargetState.STARTED)


def _split(subjects: Iterable[Subject]) -> tuple[list[str], list[ConnectorTaskId]]:
    connectors = [each for each in subjects if isinstance(each, str)]
    return connectors, [each for each in subjects if not isinstance(each, str)]
