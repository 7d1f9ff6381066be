"""The part of a worker that runs connectors and tasks, as a herder sees it (Connect's Worker).

A herder decides what runs and in which state; a `Runtime` runs it. It reports states in its own threads, and
the herder writes them to the status topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from penstock.connect.errors import ConnectError
from penstock.connect.herding.entities import ConnectorType
from penstock.connect.stores.configs.model import TargetState
from penstock.connect.stores.configs.records import Properties
from penstock.connect.stores.offsets.connector_offsets import ConnectorOffset
from penstock.connect.stores.statuses.model import State, Subject
from penstock.connect.task_id import ConnectorTaskId


class TooManyTasks(ConnectError):
    """A connector made more task configurations than `tasks.max`; it has to be configured again."""


class Reports(Protocol):
    """Receives what happens to connectors and tasks. Any thread may call its methods, which return soon."""

    def report(
        self,
        subject: Subject,
        state: State,
        trace: str | None = None,
        version: str | None = None,
    ) -> None:
        """Note the state of a connector or task; `trace` is the stack trace of a failure."""

    def topic_used(self, task: ConnectorTaskId, topic: str) -> None:
        """Note that a task wrote to a topic or read from it (KIP-558)."""

    def reconfigure_tasks(self, connector: str) -> None:
        """Ask for new task configurations of a connector, because what it reads has changed."""

    def restart_later(self, connector: str, delay_s: float) -> None:
        """Restart a connector when values of config providers expire, and not when an earlier call said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskStart:
    """A task to start. Its configurations may hold references to config providers.

    Attributes:
        fence: ends the transactions of earlier tasks of this connector, before the task has a producer.
        verify: checks that the task still belongs here, after its producer has fenced others.

    Both are called in the task's thread, only for exactly-once sources; they block. Both raise ConnectError.
    """

    task: ConnectorTaskId
    connector_properties: Properties
    properties: Properties
    state: TargetState
    fence: Callable[[], None]
    verify: Callable[[], None]


class Runtime(Protocol):
    """Runs connectors and tasks. Any thread may call its methods."""

    def start(self, reports: Reports) -> None:
        """Acquire what all connectors and tasks share, such as the store of offsets; it can take minutes."""

    def interrupt(self) -> None:
        """Let `start` fail soon, which runs in another thread."""

    def close(self) -> None:
        """Stop what still runs, and release everything."""

    def kind(self, properties: Properties) -> ConnectorType:
        """Return whether the connector with this configuration is a source or a sink."""

    # Connectors

    def start_connector(self, name: str, properties: Properties, state: TargetState) -> Future[TargetState]:
        """Start a connector in its own thread; the future is done when it has reached the state or failed."""

    def set_target_state(self, name: str, state: TargetState) -> Future[TargetState] | None:
        """Bring a connector and its tasks, as far as they run here, into a state.

        The future is that of the connector, and None if it does not run here.
        """

    def stop_connectors(self, names: Collection[str]) -> None:
        """Stop connectors and wait for them for a limited time; those that do not run here are ignored."""

    def is_running(self, connector: str) -> bool:
        """Whether a connector runs here, and is neither paused, stopped nor failed."""

    def task_configs(self, connector: str) -> list[dict[str, str]]:
        """Return the task configurations that a running connector makes, with what each task needs besides.

        They have the variables of the configuration with which the connector was started, not their values.
        Raises what the connector raises, and TooManyTasks if it makes more than `tasks.max`. The connector
        has failed then.
        """

    # Tasks

    def start_task(self, start: TaskStart) -> None:
        """Start a task in its own thread. Raises an exception if its configuration is not valid."""

    def stop_tasks(self, tasks: Collection[ConnectorTaskId]) -> None:
        """Stop tasks and wait for them for a limited time; those that do not run here are ignored."""

    def fence_zombies(self, connector: str, properties: Properties, tasks: int) -> None:
        """End the transactional producers of the first so many tasks of a connector. Raises ConnectError."""

    # Offsets

    def offsets(self, connector: str, properties: Properties) -> Sequence[ConnectorOffset]:
        """Return the partitions of a connector and their offsets, as REST shows them. Raises ConnectError."""

    def alter_offsets(
        self, connector: str, properties: Properties, offsets: Sequence[ConnectorOffset]
    ) -> str:
        """Store offsets of a stopped connector, remove those that are None, and return a message (KIP-875).

        Raises ConnectError.
        """

    def reset_offsets(self, connector: str, properties: Properties) -> str:
        """Remove all offsets of a stopped connector and return a message. Raises ConnectError."""
