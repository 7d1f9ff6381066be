"""A herder in memory for the tests of the REST API. Its connectors have one task each, and move nothing."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.connect.group.session_keys import SessionKey, check
from penstock.connect.herding.entities import (
    ActiveTopics,
    ConnectorInfo,
    ConnectorStateInfo,
    ConnectorType,
    Created,
    LoggerLevel,
    PluginInfo,
    Properties,
    RunState,
    SignedRequest,
    Stage,
    TaskInfo,
)
from penstock.connect.herding.errors import AlreadyExists, BadRequest, NotAssigned, NotFound
from penstock.connect.stores.configs.model import RestartRequest, TargetState
from penstock.connect.stores.offsets.connector_offsets import ConnectorOffset
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.validation.config_infos import ConfigInfos, ConfigKeyInfo

T = TypeVar("T")

SOURCE = "FileStreamSource"
STATES = {
    TargetState.STARTED: "RUNNING",
    TargetState.PAUSED: "PAUSED",
    TargetState.STOPPED: "STOPPED",
}
UNSTOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
    "specified connector by issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)


@dataclass
class SmallConnector:
    config: dict[str, str | None]
    state: TargetState = TargetState.STARTED
    offsets: list[ConnectorOffset] = field(default_factory=list)
    had_tasks: bool = False

    @property
    def tasks(self) -> int:
        self.had_tasks |= self.state is not TargetState.STOPPED
        return 0 if self.state is TargetState.STOPPED else 1


class SmallHerder:
    """*refuse_reads* and *refuse_writes* are called before operations, so that they can raise errors.

    With *is_stuck* no operation completes: its future is in *stuck*. *worker_id* is in the states.
    """

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.refuse_reads: Callable[[], None] = lambda: None
        self.refuse_writes: Callable[[], None] = lambda: None
        self.is_stuck = False
        self.stuck: list[Future[Any]] = []
        self.is_ready = True
        self.signs_requests = True
        self.stage: Stage | None = None
        self.kafka_cluster_id = "a-cluster"
        self.key = SessionKey.generate("HmacSHA256", None, 0)
        self.requests: list[object] = []
        self.found: dict[str, SmallConnector] = {}
        self.levels: dict[str, LoggerLevel] = {}

    def _read(self, operation: Callable[[], T]) -> Future[T]:
        return self._done(self.refuse_reads, operation)

    def _write(self, operation: Callable[[], T]) -> Future[T]:
        return self._done(self.refuse_writes, operation)

    def _done(self, refuse: Callable[[], None], operation: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        if self.is_stuck:
            self.stuck.append(future)
            return future
        try:
            refuse()
            future.set_result(operation())
        except Exception as error:
            future.set_exception(error)
        return future

    def check_health(self) -> Future[None]:
        return self._read(lambda: None)

    # Connectors

    def connectors(self) -> Collection[str]:
        return list(self.found)

    def connector_info(self, connector: str) -> Future[ConnectorInfo]:
        return self._read(lambda: self.connector_info_now(connector))

    def connector_info_now(self, connector: str) -> ConnectorInfo:
        found = self._get(connector)
        tasks = [ConnectorTaskId(connector, task) for task in range(found.tasks)]
        return ConnectorInfo(connector, found.config, tasks, ConnectorType.SOURCE)

    def connector_config(self, connector: str) -> Future[Properties]:
        return self._read(lambda: self._get(connector).config)

    def put_connector_config(
        self,
        connector: str,
        config: Properties,
        target_state: TargetState | None = None,
        *,
        may_replace: bool,
    ) -> Future[Created]:
        def put() -> Created:
            if config.get("connector.class") != SOURCE:
                names = sorted(config, key=lambda name: name != "name")
                shown = ", ".join(
                    f"{name}={'null' if config[name] is None else config[name]}" for name in names
                )
                raise BadRequest(f"Connector config {{{shown}}} contains no connector type")
            if connector in self.found and not may_replace:
                raise AlreadyExists(f"Connector {connector} already exists")
            if connector in self.found:
                self.found[connector].config = dict(config)
                return Created(False, self.connector_info_now(connector))
            self.found[connector] = SmallConnector(dict(config), target_state or TargetState.STARTED)
            return Created(True, ConnectorInfo(connector, config, [], ConnectorType.SOURCE))

        return self._write(put)

    def patch_connector_config(self, connector: str, patch: Properties) -> Future[Created]:
        def patched() -> Created:
            config = {**self._get(connector).config, **patch}
            self.found[connector].config = {key: text for key, text in config.items() if text is not None}
            return Created(False, self.connector_info_now(connector))

        return self._write(patched)

    def delete_connector(self, connector: str) -> Future[None]:
        def delete() -> None:
            self._get(connector)
            del self.found[connector]

        return self._write(delete)

    def connector_status(self, connector: str) -> ConnectorStateInfo:
        return self._states(connector, f"No status found for connector {connector}")

    def active_topics(self, connector: str) -> ActiveTopics:
        return ActiveTopics(connector, [])

    def reset_active_topics(self, connector: str) -> None:
        self.requests.append(("reset topics", connector))

    # Tasks

    def task_configs(self, connector: str) -> Future[Sequence[TaskInfo]]:
        def tasks() -> Sequence[TaskInfo]:
            found = self._get(connector)
            config = {**found.config, "task.class": "a.Task"}
            return [TaskInfo(ConnectorTaskId(connector, task), config) for task in range(found.tasks)]

        return self._read(tasks)

    def task_status(self, task: ConnectorTaskId) -> RunState:
        found = self.found.get(task.connector)
        if found is None or task.task >= found.tasks:
            raise NotFound(f"No status found for task {task}")
        return self._state(STATES[found.state])

    def put_task_configs(
        self, connector: str, configs: Sequence[Properties], request: SignedRequest
    ) -> Future[None]:
        return self._read(lambda: self._signed(("tasks", connector, configs), request))

    def fence_zombies(self, connector: str, request: SignedRequest) -> Future[None]:
        return self._read(lambda: self._signed(("fence", connector), request))

    # States

    def pause_connector(self, connector: str) -> None:
        self._get(connector, "Unknown connector {}").state = TargetState.PAUSED

    def resume_connector(self, connector: str) -> None:
        self._get(connector, "Unknown connector {}").state = TargetState.STARTED

    def stop_connector(self, connector: str) -> Future[None]:
        def stop() -> None:
            self._get(connector, "Unknown connector {}").state = TargetState.STOPPED

        return self._write(stop)

    def restart_connector(self, connector: str) -> Future[None]:
        return self._write(lambda: self.requests.append(self._get(connector, "Unknown connector: {}")))

    def restart_connector_and_tasks(self, request: RestartRequest) -> Future[ConnectorStateInfo]:
        state = None if request.only_failed else "RESTARTING"
        told = f"Unknown connector: {request.connector}"
        return self._write(lambda: self._states(request.connector, told, state))

    def restart_task(self, task: ConnectorTaskId) -> Future[None]:
        def restart() -> None:
            found = self._get(task.connector, "Unknown connector: {}")
            if task.task > 0:
                raise NotFound(f"Unknown task: {task}")
            if not found.tasks:
                raise NotAssigned("Cannot restart task since it is not assigned to this member", None)

        return self._write(restart)

    # Offsets

    def connector_offsets(self, connector: str) -> Future[Sequence[ConnectorOffset]]:
        return self._read(lambda: self._get(connector).offsets)

    def alter_connector_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> Future[str]:
        def alter() -> str:
            self._stopped(connector).offsets = [each for each in offsets if each.offset is not None]
            return "The offsets for this connector have been altered successfully"

        return self._write(alter)

    def reset_connector_offsets(self, connector: str) -> Future[str]:
        def reset() -> str:
            self._stopped(connector).offsets = []
            return "The offsets for this connector have been reset successfully"

        return self._write(reset)

    # Plugins

    def plugins(self) -> Sequence[PluginInfo]:
        return [
            PluginInfo("a.Sink", "sink", "1"),
            PluginInfo("a.Source", "source"),
            PluginInfo("a.Converter", "converter", "2"),
        ]

    def plugin_config(self, plugin: str, version: str = "latest") -> Sequence[ConfigKeyInfo]:
        raise NotFound(f"Unknown plugin {plugin}.")

    def validate(self, config: Properties) -> Future[ConfigInfos]:
        return self._read(lambda: ConfigInfos(str(config["connector.class"]), 0, (), ()))

    # Loggers

    def logger_levels(self) -> Mapping[str, LoggerLevel]:
        return self.levels

    def logger_level(self, logger: str) -> LoggerLevel | None:
        return self.levels.get(logger)

    def set_worker_logger_level(self, namespace: str, level: str) -> Sequence[str]:
        below = [name for name in self.levels if name.startswith(f"{namespace}.")]
        for name in [namespace, *below]:
            self.levels[name] = LoggerLevel(level.upper(), 1)
        return [namespace, *below]

    def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        self.set_worker_logger_level(namespace, level)

    def _get(self, connector: str, told: str = "Connector {} not found") -> SmallConnector:
        if connector not in self.found:
            raise NotFound(told.format(connector))
        return self.found[connector]

    def _stopped(self, connector: str) -> SmallConnector:
        found = self._get(connector)
        if found.state is not TargetState.STOPPED:
            raise BadRequest(UNSTOPPED.format(connector))
        return found

    def _state(self, state: str) -> RunState:
        return RunState(state, self.worker_id, version="1")

    def _states(self, connector: str, told: str, state: str | None = None) -> ConnectorStateInfo:
        found = self._get(connector, told)
        of_all = self._state(state or STATES[found.state])
        tasks = dict.fromkeys(range(found.tasks), of_all)
        return ConnectorStateInfo(connector, of_all, tasks, ConnectorType.SOURCE)

    def _signed(self, operation: object, request: SignedRequest) -> None:
        check(request.headers, request.body, self.key, ["HmacSHA256"])
        self.refuse_writes()
        self.requests.append(operation)
