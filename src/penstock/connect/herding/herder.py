"""The interface of a herder, for the REST API and the command line.

A herder performs most operations in a thread of its own, one after another, so they return futures. The
other methods answer from the worker's memory or write one record; they may block for a short time. All may be
called from any thread. Both the methods and the futures raise `ConnectError`, mostly the classes of
`penstock.connect.herding.errors`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from penstock.connect.herding.entities import (
    ActiveTopics,
    ConnectorInfo,
    ConnectorStateInfo,
    Created,
    LoggerLevel,
    PluginInfo,
    Properties,
    RunState,
    SignedRequest,
    Stage,
    TaskInfo,
)
from penstock.connect.stores.configs.model import RestartRequest, TargetState
from penstock.connect.stores.offsets.connector_offsets import ConnectorOffset
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.validation.config_infos import ConfigInfos, ConfigKeyInfo


class Herder(Protocol):
    """Creates, changes and deletes connectors, and tells their states (Connect's Herder)."""

    # The worker

    @property
    def kafka_cluster_id(self) -> str:
        """The id of the Kafka cluster."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the worker has started: its topics are read, and it has joined the group."""
        ...

    @property
    def signs_requests(self) -> bool:
        """Whether workers of the group sign their requests to each other: all of them speak ``sessioned``."""
        ...

    @property
    def stage(self) -> Stage | None:
        """The present or the last operation of the herder's thread; None if unknown."""
        ...

    def check_health(self) -> Future[None]:
        """Complete the future in the herder's thread, which shows that it performs operations."""
        ...

    # Connectors

    def connectors(self) -> Collection[str]:
        """The names of all connectors of the group."""
        ...

    def connector_info(self, connector: str) -> Future[ConnectorInfo]:
        """Describe a connector. Raises NotFound and RebalanceNeeded."""
        ...

    def connector_info_now(self, connector: str) -> ConnectorInfo:
        """Describe a connector from memory, even if a rebalance is expected. Raises NotFound."""
        ...

    def connector_config(self, connector: str) -> Future[Properties]:
        """Return a connector's configuration. Raises NotFound and RebalanceNeeded."""
        ...

    def put_connector_config(
        self,
        connector: str,
        config: Properties,
        target_state: TargetState | None = None,
        *,
        may_replace: bool,
    ) -> Future[Created]:
        """Validate and write a configuration, with the key ``name`` in it, and a target state if it is given.

        Raises AlreadyExists, BadRequest with all errors of the configuration, NotLeader and RebalanceNeeded.
        """
        ...

    def patch_connector_config(self, connector: str, patch: Properties) -> Future[Created]:
        """Change these keys of a configuration, and remove those that are None (KIP-477).

        Raises NotFound, and the errors of `put_connector_config`.
        """
        ...

    def delete_connector(self, connector: str) -> Future[None]:
        """Delete a connector with its tasks. Raises NotFound, NotLeader and RebalanceNeeded."""
        ...

    def connector_status(self, connector: str) -> ConnectorStateInfo:
        """Return the states of a connector and of its tasks. Raises NotFound."""
        ...

    def active_topics(self, connector: str) -> ActiveTopics:
        """The topics of a connector; none if it does not exist."""
        ...

    def reset_active_topics(self, connector: str) -> None:
        """Forget the topics of a connector; does nothing if it does not exist."""
        ...

    # Tasks

    def task_configs(self, connector: str) -> Future[Sequence[TaskInfo]]:
        """Return the tasks of a connector with their configurations. Raises NotFound and RebalanceNeeded."""
        ...

    def task_status(self, task: ConnectorTaskId) -> RunState:
        """Return the state of a task. Raises NotFound."""
        ...

    def put_task_configs(
        self, connector: str, configs: Sequence[Properties], request: SignedRequest
    ) -> Future[None]:
        """Write the configurations of all tasks, for the worker that runs the connector.

        Raises RequestNotAuthentic, NotFound, BadRequest, NotLeader and RebalanceNeeded.
        """
        ...

    def fence_zombies(self, connector: str, request: SignedRequest) -> Future[None]:
        """Fence the producers of a source connector's earlier tasks, before new ones start (KIP-618).

        Raises RequestNotAuthentic, NotFound, BadRequest, Conflict, NotLeader and RebalanceNeeded.
        """
        ...

    # States

    def pause_connector(self, connector: str) -> None:
        """Let a connector and its tasks idle. Raises NotFound."""
        ...

    def resume_connector(self, connector: str) -> None:
        """Let a paused or stopped connector run. Raises NotFound."""
        ...

    def stop_connector(self, connector: str) -> Future[None]:
        """Stop a connector and remove its tasks. Raises NotFound, NotLeader and RebalanceNeeded."""
        ...

    def restart_connector(self, connector: str) -> Future[None]:
        """Restart the connector alone. Raises NotFound, NotLeader, NotAssigned and RebalanceNeeded."""
        ...

    def restart_connector_and_tasks(self, request: RestartRequest) -> Future[ConnectorStateInfo]:
        """Request a restart, and return the states, RESTARTING for all that will restart (KIP-745).

        Raises NotFound, NotLeader and RebalanceNeeded.
        """
        ...

    def restart_task(self, task: ConnectorTaskId) -> Future[None]:
        """Restart a task. Raises NotFound, NotLeader, NotAssigned and RebalanceNeeded."""
        ...

    # Offsets

    def connector_offsets(self, connector: str) -> Future[Sequence[ConnectorOffset]]:
        """Return the offsets of a connector. Raises NotFound."""
        ...

    def alter_connector_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> Future[str]:
        """Write offsets of distinct partitions, reset those that are None, and return a message (KIP-875).

        Raises NotFound, NotLeader, RebalanceNeeded, and BadRequest unless the connector is stopped.
        """
        ...

    def reset_connector_offsets(self, connector: str) -> Future[str]:
        """Reset all offsets and return a message. Raises the errors of `alter_connector_offsets`."""
        ...

    # Plugins

    def plugins(self) -> Sequence[PluginInfo]:
        """All plugins, by type: sink and source connectors, transformations, predicates, and converters."""
        ...

    def plugin_config(self, plugin: str, version: str = "latest") -> Sequence[ConfigKeyInfo]:
        """The keys of a plugin's configuration. Raises NotFound and BadRequest."""
        ...

    def validate(self, config: Properties) -> Future[ConfigInfos]:
        """Validate a connector's configuration. Raises BadRequest."""
        ...

    # Loggers

    def logger_levels(self) -> Mapping[str, LoggerLevel]:
        """The loggers of this worker whose levels are set."""
        ...

    def logger_level(self, logger: str) -> LoggerLevel | None:
        """The effective level of a logger; None if it does not exist."""
        ...

    def set_worker_logger_level(self, namespace: str, level: str) -> Sequence[str]:
        """Set the level of a logger and of those below it on this worker, and return their names."""
        ...

    def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        """Set the level of a logger and of those below it on all workers (KIP-976)."""
        ...
