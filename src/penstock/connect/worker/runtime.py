"""Runs connectors and tasks in threads of this process, with the plugins that their configurations name."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from penstock.client.admin.transactions import fence
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.connect.connector.connector import Connector
from penstock.connect.connector.sink import SinkConnector, SinkTask
from penstock.connect.connector.source import SourceConnector, SourceTask
from penstock.connect.errors import ConnectError
from penstock.connect.herding.entities import ConnectorType, Properties
from penstock.connect.herding.runtime import Reports, TaskStart, TooManyTasks
from penstock.connect.providers.transformer import with_variables
from penstock.connect.stores import (
    ConnectorOffset,
    ConnectorOffsets,
    State,
    TargetState,
    TransactionalWriter,
)
from penstock.connect.stores.statuses.model import Subject
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.tasks import (
    ClientProperties,
    ConnectorRunner,
    ExactlyOnce,
    TaskMetrics,
    TaskRunner,
    WorkerSettings,
    consumer_group_id,
    sink_runner,
    source_runner,
    task_transactional_id,
)
from penstock.connect.worker.clients import Clients
from penstock.connect.worker.metrics import RunningConnector, Startups
from penstock.connect.worker.offset_changes import (
    change_sink_offsets,
    change_source_offsets,
    sink_offsets,
    source_offsets,
)
from penstock.connect.worker.offset_stores import OffsetStores
from penstock.connect.worker.parts import Parts

log = logging.getLogger(__name__)

_CONNECTOR_STOP_S: Final = 5.0
_WRITE_TIMEOUT_MS: Final = 90_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeSettings:
    """The worker's settings that concern what it runs."""

    group_id: str
    """The worker's group, in the transactional ids of tasks."""
    tasks: WorkerSettings
    stop_timeout_s: float = 5.0
    """``task.shutdown.graceful.timeout.ms``"""
    exactly_once: bool = False


class WorkerRuntime:
    """The connectors and tasks of one worker; see `Runtime` for its methods."""

    def __init__(
        self, settings: RuntimeSettings, parts: Parts, clients: Clients, offsets: OffsetStores
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._clients = clients
        self._offsets = offsets
        self._reports: Reports | None = None
        self._lock = threading.Lock()
        self._connectors: dict[str, ConnectorRunner] = {}
        self._configs: dict[str, tuple[Mapping[str, str], Mapping[str, str]]] = {}
        """The configurations of the connectors that run here: with variables, and with their values.

        The herder may know a newer configuration, whose variables say nothing about these values.
        """
        self._versions: dict[Subject, str | None] = {}
        self._tasks: dict[ConnectorTaskId, TaskRunner] = {}
        self.startups = Startups()

    def start(self, reports: Reports) -> None:
        self._reports = reports
        self._offsets.start()

    def interrupt(self) -> None:
        self._offsets.interrupt()

    def close(self) -> None:
        self.stop_connectors(list(self._connectors))
        self.stop_tasks(list(self._tasks))
        self._offsets.close()
        self._parts.close()

    def kind(self, properties: Properties) -> ConnectorType:
        return self._parts.kind(properties)

    # Connectors

    def start_connector(self, name: str, properties: Properties, state: TargetState) -> Future[TargetState]:
        with self.startups.starting(name):
            return self._start_connector(name, properties, state)

    def _start_connector(self, name: str, properties: Properties, state: TargetState) -> Future[TargetState]:
        transformed = self._parts.transformed(properties)
        resolved = transformed.properties
        connector = self._parts.connector(resolved)
        offsets = None
        if isinstance(connector, SourceConnector):
            offsets = self._offsets.of(name, resolved, self._clients.of(resolved))
        runner = ConnectorRunner(
            name,
            connector,
            resolved,
            self,
            lambda: self._get_reports().reconfigure_tasks(name),
            offsets=offsets,
            current_properties=lambda: self._parts.resolved(properties),
        )
        version = self._parts.version(resolved, connector)
        texts = {key: value for key, value in properties.items() if value is not None}
        with self._lock:
            if name in self._connectors:
                raise ConnectError(f"Connector with name {name} already exists")
            self._connectors[name], self._configs[name] = runner, (texts, resolved)
            self._versions[name] = version
        if transformed.restart_after_ms is not None:
            self._get_reports().restart_later(name, transformed.restart_after_ms / 1000)
        runner.start()
        return runner.transition(state)

    def set_target_state(self, name: str, state: TargetState) -> Future[TargetState] | None:
        with self._lock:
            tasks = [runner for task, runner in self._tasks.items() if task.connector == name]
            connector = self._connectors.get(name)
        for task in tasks:
            if state is TargetState.PAUSED:
                task.pause()
            elif state is TargetState.STARTED:
                task.resume()
            # The tasks of stopped connectors are removed, and stop in the rebalance
        return None if connector is None else connector.transition(state)

    def stop_connectors(self, names: Collection[str]) -> None:
        with self._lock:
            runners = [self._connectors.pop(name) for name in names if name in self._connectors]
            for runner in runners:
                self._configs.pop(runner.name, None)
        for runner in runners:
            runner.stop()
        deadline_s = time.monotonic() + _CONNECTOR_STOP_S
        for runner in runners:
            if not runner.join(max(0.0, deadline_s - time.monotonic())):
                log.error("a connector does not stop and is abandoned connector=%s", runner.name)
                runner.cancel()
            self._versions.pop(runner.name, None)

    def is_running(self, connector: str) -> bool:
        runner = self._connectors.get(connector)
        return runner is not None and runner.state is State.RUNNING

    def task_configs(self, connector: str) -> list[dict[str, str]]:
        runner, (texts, properties) = self._connectors[connector], self._configs[connector]
        limit = int(properties.get("tasks.max", "1"))
        found = runner.task_configs(limit)
        if len(found) > limit and properties.get("tasks.max.enforce", "true").lower() != "false":
            error = TooManyTasks(
                f"The connector {connector} has generated {len(found)} tasks, which is greater than {limit},"
                " the maximum number of tasks it is configured to create."
            )
            runner.fail(error)
            raise error
        task_class = self._parts.task_class(properties, runner.connector)
        return [with_variables(texts, {**config, "task.class": task_class}) for config in found]

    # Tasks

    def start_task(self, start: TaskStart) -> None:
        with self.startups.starting(start.task):
            self._start_task(start)

    def _start_task(self, start: TaskStart) -> None:
        connector_properties = self._parts.resolved(start.connector_properties)
        connector = self._parts.connector(connector_properties)
        runner = self._task_runner(start, connector_properties, connector)
        version = runner.version or self._parts.version(connector_properties, connector)
        with self._lock:
            if start.task in self._tasks:
                raise ConnectError(f"Task already exists in this worker: {start.task}")
            self._tasks[start.task] = runner
            self._versions[start.task] = version
        runner.start()

    def stop_tasks(self, tasks: Collection[ConnectorTaskId]) -> None:
        with self._lock:
            runners = [self._tasks.pop(task) for task in tasks if task in self._tasks]
        for runner in runners:
            runner.stop()
        deadline_s = time.monotonic() + self._settings.stop_timeout_s
        for runner in runners:
            if not runner.join(max(0.0, deadline_s - time.monotonic())):
                log.error("a task does not stop and is abandoned task=%s", runner.task_id)
                runner.cancel()
                self.changed(runner.task_id, State.UNASSIGNED)
            self._versions.pop(runner.task_id, None)

    def fence_zombies(self, connector: str, properties: Properties, tasks: int) -> None:
        clients = self._clients.of(self._parts.resolved(properties))
        with Cluster(ClientConfig.from_properties(clients.admin)) as cluster:
            for number in range(tasks):
                task = ConnectorTaskId(connector, number)
                try:
                    fence(cluster, task_transactional_id(self._settings.group_id, task))
                except ClientError as error:
                    raise ConnectError(f"the producer of task {task} was not fenced: {error}") from error

    def _task_runner(
        self, start: TaskStart, connector_properties: Mapping[str, str], connector: Connector
    ) -> TaskRunner:
        properties = {**connector_properties, **self._parts.resolved(start.properties)}
        clients = self._clients.of(connector_properties)
        is_paused = start.state is TargetState.PAUSED

        def current() -> Mapping[str, str]:
            return self._parts.resolved({**start.connector_properties, **start.properties})

        def used(topic: str) -> None:
            self._get_reports().topic_used(start.task, topic)

        task = type(connector).task_class()
        if isinstance(task, SourceTask):
            source_parts = self._parts.task_parts(start.task, task, properties, current, used)
            offsets = self._offsets.of(start.task.connector, connector_properties, clients)
            exactly_once = self._exactly_once(start) if self._settings.exactly_once else None
            return source_runner(
                source_parts,
                clients,
                offsets,
                self._settings.tasks,
                self,
                exactly_once=exactly_once,
                paused=is_paused,
            )
        if isinstance(task, SinkTask):
            sink_parts = self._parts.task_parts(start.task, task, properties, current, used)
            return sink_runner(sink_parts, clients, self._settings.tasks, self, paused=is_paused)
        raise ConnectError(
            f"the class of task {start.task} is {type(task).__name__}, expected a SourceTask or a SinkTask"
        )

    def _exactly_once(self, start: TaskStart) -> ExactlyOnce:
        """Check a task once before its producer fences others, and once afterwards."""
        steps: list[Callable[[], None]] = [start.fence]

        def check() -> None:
            while steps:
                steps.pop()()
            start.verify()

        return ExactlyOnce(
            transactional_id=task_transactional_id(self._settings.group_id, start.task), check=check
        )

    # Metrics

    def task_metrics(self) -> list[TaskMetrics]:
        """The counts of the tasks that run here."""
        with self._lock:
            return [runner.metrics for runner in self._tasks.values()]

    def running_connectors(self) -> dict[str, RunningConnector]:
        """The connectors that run here."""
        with self._lock:
            return {
                name: RunningConnector(
                    runner.state,
                    "source" if isinstance(runner.connector, SourceConnector) else "sink",
                    self._configs[name][1].get("connector.class", ""),
                    self._versions.get(name) or "unknown",
                )
                for name, runner in self._connectors.items()
            }

    # Offsets

    def offsets(self, connector: str, properties: Properties) -> Sequence[ConnectorOffset]:
        resolved = self._parts.resolved(properties)
        clients = self._clients.of(resolved)
        if self.kind(properties) is ConnectorType.SINK:
            return sink_offsets(
                connector, ClientConfig.from_properties(clients.admin), _group_of(connector, clients)
            )
        return source_offsets(self._offsets.of(connector, resolved, clients))

    def alter_offsets(
        self, connector: str, properties: Properties, offsets: Sequence[ConnectorOffset]
    ) -> str:
        return self._change_offsets(connector, properties, offsets)

    def reset_offsets(self, connector: str, properties: Properties) -> str:
        return self._change_offsets(connector, properties, None)

    def _change_offsets(
        self, name: str, properties: Properties, changes: Sequence[ConnectorOffset] | None
    ) -> str:
        resolved = self._parts.resolved(properties)
        clients = self._clients.of(resolved)
        connector: Connector = self._parts.connector(resolved)
        if isinstance(connector, SinkConnector):
            client = ClientConfig.from_properties(clients.admin)
            return change_sink_offsets(name, connector, resolved, client, _group_of(name, clients), changes)
        assert isinstance(connector, SourceConnector)
        offsets = self._offsets.of(name, resolved, clients)
        writer = self._offsets_writer(name, offsets, clients) if self._settings.exactly_once else None
        try:
            return change_source_offsets(connector, resolved, offsets, changes, writer)
        finally:
            if writer is not None:
                writer.close()

    def _offsets_writer(
        self, name: str, offsets: ConnectorOffsets, clients: ClientProperties
    ) -> TransactionalWriter:
        """Return a writer with the id of the connector's first task."""
        client = ClientConfig.from_properties(clients.producer)
        transactional_id = task_transactional_id(self._settings.group_id, ConnectorTaskId(name, 0))
        return TransactionalWriter(client, offsets.topic, transactional_id, _WRITE_TIMEOUT_MS)

    # The runners call this method, in their threads.

    def changed(self, subject: Subject, state: State, trace: str | None = None) -> None:
        self.startups.ended(subject, state)
        self._get_reports().report(subject, state, trace, self._versions.get(subject))

    def _get_reports(self) -> Reports:
        assert self._reports is not None, "the runtime was not started"
        return self._reports


def _group_of(connector: str, clients: ClientProperties) -> str:
    return clients.consumer.get("group.id") or consumer_group_id(connector)
