"""The herder of a worker that shares connectors and tasks with other workers of its group.

One worker alone is a group too. Operations that change something belong to the group's leader; other workers
refuse them with the leader's URL, and the REST API forwards them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from penstock.client.config import ClientConfig
from penstock.connect.errors import ConnectError
from penstock.connect.herding.distributed.loop import HerderLoop
from penstock.connect.herding.distributed.membership import MembershipState
from penstock.connect.herding.distributed.settings import HerderSettings
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
from penstock.connect.herding.errors import (
    AlreadyExists,
    BadRequest,
    NotAssigned,
    NotFound,
    NotLeader,
    RebalanceNeeded,
)
from penstock.connect.herding.restart_plan import restart_plan
from penstock.connect.herding.runtime import Runtime
from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.stores.configs.image import ClusterConfig
from penstock.connect.stores.configs.model import RestartRequest, TargetState
from penstock.connect.stores.offsets.connector_offsets import ConnectorOffset
from penstock.connect.stores.statuses.model import Subject
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.validation.config_infos import ConfigInfos, ConfigKeyInfo

_THREADS: Final = 8
"""Operations beside the herder's thread, such as validations; more of them wait."""

_PATIENCE_S: Final = 120.0
"""The longest wait for a connector that is restarted; users have given up long before."""

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class _ConfigChanged(ConnectError):
    """Another request has changed a configuration while a patch of it was validated."""


class Catalog(Protocol):
    """The plugins of this worker, and the validation of configurations with them."""

    def plugins(self) -> Sequence[PluginInfo]:
        """Return all plugins, in the order in which the API lists them."""
        ...

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[ConfigKeyInfo]:
        """Return the keys of a plugin's configuration. Raises NotFound and BadRequest."""
        ...

    def validate(self, config: Properties) -> ConfigInfos:
        """Validate a connector's configuration. Raises BadRequest."""
        ...


class DistributedHerder:
    """One worker's herder (Connect's DistributedHerder); see `Herder` for its operations.

    Args:
        kafka_cluster_id: the id of the Kafka cluster.
        workers: sends requests to other workers; by default with the system's certificate authorities.
    """

    def __init__(
        self,
        client: ClientConfig,
        settings: HerderSettings,
        runtime: Runtime,
        catalog: Catalog,
        kafka_cluster_id: str,
        workers: WorkerClient | None = None,
    ) -> None:
        self.kafka_cluster_id = kafka_cluster_id
        self._catalog = catalog
        self._runtime = runtime
        self._loop = HerderLoop(client, settings, runtime, workers or WorkerClient())
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="connect operations")

    def start(self) -> None:
        """Start the herder's thread; the herder is ready when it has joined its group."""
        self._loop.start()

    def close(self) -> None:
        """Stop all work and leave the group. Raises ConnectError if that takes too long."""
        try:
            self._loop.close()
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait until the herder is closed. Raises the error that has ended it before."""
        self._loop.join()

    # The worker

    @property
    def is_ready(self) -> bool:
        return self._loop.is_ready

    def membership(self) -> MembershipState:
        """The worker's place in its group."""
        return self._loop.membership()

    @property
    def signs_requests(self) -> bool:
        return self._loop.signs

    @property
    def failure(self) -> BaseException | None:
        """The error that has ended the herder's thread."""
        return self._loop.failure

    @property
    def stage(self) -> Stage | None:
        return self._loop.stages.last

    def check_health(self) -> Future[None]:
        return self._submit(lambda: None)

    # Connectors

    def connectors(self) -> Collection[str]:
        return list(self._latest().connector_configs)

    def connector_info(self, connector: str) -> Future[ConnectorInfo]:
        return self._submit(lambda: self._info(connector, self._settled()))

    def connector_info_now(self, connector: str) -> ConnectorInfo:
        return self._info(connector, self._latest())

    def connector_config(self, connector: str) -> Future[Properties]:
        return self._submit(lambda: self._info(connector, self._settled()).config)

    def put_connector_config(
        self,
        connector: str,
        config: Properties,
        target_state: TargetState | None = None,
        *,
        may_replace: bool,
    ) -> Future[Created]:
        return self._pool.submit(self._put, connector, config, target_state, may_replace)

    def patch_connector_config(self, connector: str, patch: Properties) -> Future[Created]:
        def present_config() -> Properties:
            self._loop.require_leader("can set connector configs.")
            return self._info(connector, self._latest()).config

        def put() -> Created:
            while True:
                present = self._submit(present_config).result()
                merged = {name: value for name, value in {**present, **patch}.items() if value is not None}
                try:
                    return self._put(connector, merged, None, True, replaced=present)
                except _ConfigChanged:
                    log.info("patching a configuration again, as it has changed connector=%s", connector)

        return self._pool.submit(put)

    def delete_connector(self, connector: str) -> Future[None]:
        def delete() -> None:
            self._loop.require_leader("can delete connector configs.")
            self._require(connector, f"Connector {connector} not found")
            self._write(
                f"removing the config for connector {connector} from the config topic",
                lambda: self._loop.configurations.store.remove_connector_config(connector),
            )

        return self._submit(delete)

    def connector_status(self, connector: str) -> ConnectorStateInfo:
        return self._loop.reports.connector_status(connector, self._kind(connector))

    def active_topics(self, connector: str) -> ActiveTopics:
        return self._loop.reports.active_topics(connector)

    def reset_active_topics(self, connector: str) -> None:
        self._loop.reports.reset_topics(connector)

    # Tasks

    def task_configs(self, connector: str) -> Future[Sequence[TaskInfo]]:
        def infos() -> Sequence[TaskInfo]:
            known = self._settled()
            self._require(connector, f"Connector {connector} not found")
            return [TaskInfo(task, known.task_configs[task]) for task in known.tasks(connector)]

        return self._submit(infos)

    def task_status(self, task: ConnectorTaskId) -> RunState:
        return self._loop.reports.task_status(task)

    def put_task_configs(
        self, connector: str, configs: Sequence[Properties], request: SignedRequest
    ) -> Future[None]:
        def put() -> None:
            self._loop.require_leader("may write task configurations.")
            self._require(connector, f"Connector {connector} not found")
            self._loop.reconfiguration.write(connector, configs)

        self._loop.require_signed(request.headers, request.body)
        return self._submit(put)

    def fence_zombies(self, connector: str, request: SignedRequest) -> Future[None]:
        self._loop.require_signed(request.headers, request.body)
        return self._pool.submit(self._loop.fence_zombies, connector)

    # States

    def pause_connector(self, connector: str) -> None:
        self._put_target_state(connector, TargetState.PAUSED)

    def resume_connector(self, connector: str) -> None:
        self._put_target_state(connector, TargetState.STARTED)

    def stop_connector(self, connector: str) -> Future[None]:
        def stop() -> None:
            self._require(connector, f"Unknown connector {connector}")
            self._loop.require_leader("can transition connectors to the STOPPED state.")
            self._loop.reconfiguration.write(connector, [])
            self._write(
                f"writing the STOPPED target state for connector {connector} to the config topic",
                lambda: self._loop.configurations.store.put_target_state(connector, TargetState.STOPPED),
            )
            self._loop.configurations.refresh()

        return self._submit(stop)

    def restart_connector(self, connector: str) -> Future[None]:
        def restart() -> Future[TargetState]:
            self._settled()
            self._require(connector, f"Unknown connector: {connector}")
            self._require_here(connector, "Cannot restart connector", "can process restart requests.")
            return self._loop.work.restart_connector(connector)

        def restart_and_wait() -> None:
            self._submit(restart).result().result(_PATIENCE_S)

        return self._pool.submit(restart_and_wait)

    def restart_connector_and_tasks(self, request: RestartRequest) -> Future[ConnectorStateInfo]:
        connector = request.connector

        def restart() -> ConnectorStateInfo:
            self._settled()
            self._require(connector, f"Unknown connector: {connector}")
            self._loop.require_leader("can process restart requests.")
            self._write(
                f"writing restart request for connector {connector} to the config topic",
                lambda: self._loop.configurations.store.put_restart_request(request),
            )
            try:
                return restart_plan(request, self.connector_status(connector)).states
            except NotFound:
                raise NotFound(f"Status for connector {connector} not found") from None

        return self._submit(restart)

    def restart_task(self, task: ConnectorTaskId) -> Future[None]:
        def restart() -> None:
            known = self._settled()
            self._require(task.connector, f"Unknown connector: {task.connector}")
            if task not in known.task_configs:
                raise NotFound(f"Unknown task: {task}")
            self._require_here(task, "Cannot restart task", "can process restart requests.")
            self._loop.work.restart_task(task)

        return self._submit(restart)

    # Offsets

    def connector_offsets(self, connector: str) -> Future[Sequence[ConnectorOffset]]:
        def read() -> Sequence[ConnectorOffset]:
            return self._runtime.offsets(connector, self._info(connector, self._latest()).config)

        return self._pool.submit(read)

    def alter_connector_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> Future[str]:
        return self._pool.submit(
            self._change_offsets,
            connector,
            lambda config: self._runtime.alter_offsets(connector, config, offsets),
        )

    def reset_connector_offsets(self, connector: str) -> Future[str]:
        return self._pool.submit(
            self._change_offsets, connector, lambda config: self._runtime.reset_offsets(connector, config)
        )

    # Plugins

    def plugins(self) -> Sequence[PluginInfo]:
        return self._catalog.plugins()

    def plugin_config(self, plugin: str, version: str = "latest") -> Sequence[ConfigKeyInfo]:
        return self._catalog.plugin_config(plugin, version)

    def validate(self, config: Properties) -> Future[ConfigInfos]:
        return self._pool.submit(self._catalog.validate, config)

    # Loggers

    def logger_levels(self) -> Mapping[str, LoggerLevel]:
        return self._loop.loggers.levels()

    def logger_level(self, logger: str) -> LoggerLevel | None:
        return self._loop.loggers.level(logger)

    def set_worker_logger_level(self, namespace: str, level: str) -> Sequence[str]:
        return self._loop.loggers.set_level(namespace, level)

    def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        self._loop.configurations.store.put_logger_level(namespace, level)

    # Steps of operations in the herder's thread, except `_put` and `_change_offsets`

    def _put(
        self,
        connector: str,
        config: Properties,
        target_state: TargetState | None,
        may_replace: bool,
        replaced: Properties | None = None,
    ) -> Created:
        """Validate a configuration here, and write it in the herder's thread.

        Raises _ConfigChanged if the present configuration is no longer the one to be ``replaced``.
        """
        found = self._catalog.validate(config)

        def write() -> Created:
            if found.error_count:
                raise BadRequest(_error_text(found))
            self._loop.require_leader("can set connector configs.")
            exists = connector in self._loop.configurations.store
            if exists and not may_replace:
                raise AlreadyExists(f"Connector {connector} already exists")
            if replaced is not None and self._info(connector, self._latest()).config != replaced:
                raise _ConfigChanged
            self._write(
                f"writing a config for connector {connector} to the config topic",
                lambda: self._loop.configurations.store.put_connector_config(connector, config, target_state),
            )
            tasks = self._loop.configurations.known.tasks(connector)
            return Created(not exists, ConnectorInfo(connector, config, tasks, self._runtime.kind(config)))

        return self._submit(write).result()

    def _change_offsets(self, connector: str, change: Callable[[Properties], str]) -> str:
        config = self._submit(lambda: self._stopped_config(connector)).result()
        if self._loop.settings.exactly_once and self._runtime.kind(config) is ConnectorType.SOURCE:
            self._loop.fence_zombies(connector)
            config = self._submit(lambda: self._stopped_config(connector)).result()
        return change(config)

    def _stopped_config(self, connector: str) -> Properties:
        """Return the configuration of a connector that is stopped, so that its offsets can be changed."""
        self._settled()
        self._loop.require_leader("can process external offsets modification requests")
        self._loop.configurations.require_refresh("modifying connector offsets")
        self._require(connector, f"Connector {connector} not found")
        known = self._loop.configurations.known
        if known.target_states.get(connector) is not TargetState.STOPPED or known.tasks(connector):
            raise BadRequest(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be"
                " done for the specified connector by issuing a 'PUT' request to the"
                f" '/connectors/{connector}/stop' endpoint"
            )
        return known.connector_configs[connector]

    def _put_target_state(self, connector: str, state: TargetState) -> None:
        if connector not in self._loop.configurations.store:
            raise NotFound(f"Unknown connector {connector}")
        self._loop.configurations.store.put_target_state(connector, state)

    def _write(self, description: str, write: Callable[[], None]) -> None:
        self._loop.configurations.write(description, write)

    def _require(self, connector: str, message: str) -> None:
        if connector not in self._loop.configurations.store:
            raise NotFound(message)

    def _require_here(self, subject: Subject, action: str, operation: str) -> None:
        """Raise an error with the URL of the worker to ask, unless this worker runs a connector or task."""
        assignment = self._loop.group.assignment
        if assignment is not None and subject in (*assignment.connectors, *assignment.tasks):
            return
        if not self._loop.group.is_leader:
            raise NotLeader(f"Only the leader {operation}", self._loop.group.leader_url)
        raise NotAssigned(
            f"{action} since it is not assigned to this member", self._loop.group.owner_url(subject)
        )

    def _settled(self) -> ClusterConfig:
        """Return the configurations. Raises RebalanceNeeded if they are about to change for this worker."""
        if self._loop.pending.needs_rebalance:
            raise RebalanceNeeded
        return self._loop.configurations.known

    def _latest(self) -> ClusterConfig:
        return self._loop.configurations.store.snapshot()

    def _info(self, connector: str, known: ClusterConfig) -> ConnectorInfo:
        config = known.connector_configs.get(connector)
        if config is None:
            raise NotFound(f"Connector {connector} not found")
        return ConnectorInfo(connector, config, known.tasks(connector), self._runtime.kind(config))

    def _kind(self, connector: str) -> ConnectorType:
        config = self._latest().connector_configs.get(connector)
        return ConnectorType.UNKNOWN if config is None else self._runtime.kind(config)

    def _submit(self, action: Callable[[], Result]) -> Future[Result]:
        return self._loop.requests.submit(action)


def _error_text(found: ConfigInfos) -> str:
    errors = "".join(f"\n{error}" for error in found.errors)
    return (
        f"Connector configuration is invalid and contains the following {found.error_count} error(s):{errors}"
        "\nYou can also find the above list of errors at the endpoint"
        f" `/connector-plugins/{{connectorType}}/config/validate`"
    )
