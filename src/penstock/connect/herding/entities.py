"""Connectors, tasks, plugins and loggers, as a herder describes them and Connect's REST API shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from penstock.connect.task_id import ConnectorTaskId

Properties = Mapping[str, str | None]
"""A configuration as it was sent. Connect permits null as a value."""


class ConnectorType(Enum):
    """The direction of a connector; UNKNOWN if its class cannot be found or is neither."""

    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector with its configuration and tasks."""

    name: str
    config: Properties
    tasks: Sequence[ConnectorTaskId]
    type: ConnectorType

    def as_json(self) -> dict[str, Any]:
        tasks = [task._asdict() for task in self.tasks]
        return {"name": self.name, "config": dict(self.config), "tasks": tasks, "type": self.type.value}


@dataclass(frozen=True, slots=True)
class Created:
    """The result of writing a configuration: the connector, and whether it is new."""

    is_new: bool
    connector: ConnectorInfo


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task with its configuration."""

    id: ConnectorTaskId
    config: Properties

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id._asdict(), "config": dict(self.config)}


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a connector or of a task. The API leaves out an unknown trace or version."""

    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None

    def as_json(self) -> dict[str, Any]:
        found = {"state": self.state, "worker_id": self.worker_id}
        if self.trace:
            found["trace"] = self.trace
        if self.version is not None:
            found["version"] = self.version
        return found


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo:
    """The states of a connector and of its tasks, by the tasks' numbers."""

    name: str
    connector: RunState
    tasks: Mapping[int, RunState]
    type: ConnectorType

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "connector": self.connector.as_json(),
            "tasks": [{"id": number, **self.tasks[number].as_json()} for number in sorted(self.tasks)],
            "type": self.type.value,
        }


@dataclass(frozen=True, slots=True)
class ActiveTopics:
    """The topics that a connector has used since it was created or since they were reset (KIP-558)."""

    connector: str
    topics: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        return {self.connector: {"topics": list(self.topics)}}


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin of this worker. ``type`` is ``sink``, ``source``, ``converter`` and so on."""

    class_name: str
    type: str
    version: str | None = None

    def as_json(self) -> dict[str, Any]:
        found = {"class": self.class_name, "type": self.type}
        return found if self.version is None else {**found, "version": self.version}


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """The level of a logger, and when the API last changed it; None if it never did."""

    level: str
    last_modified_ms: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {"level": self.level, "last_modified": self.last_modified_ms}


@dataclass(frozen=True, slots=True)
class Stage:
    """The operation that occupies the herder, or the last one that it completed.

    The answer to a request that timed out describes it (KIP-1017).
    """

    description: str
    started_ms: int
    completed_ms: int | None = None

    def __str__(self) -> str:
        began = f"{self.description}, which began at {_instant(self.started_ms)}"
        if self.completed_ms is None:
            return f"The worker is currently {began}."
        completed = _instant(self.completed_ms)
        return f"The last operation the worker completed was {began} and completed at {completed}."


def _instant(ms: int) -> str:
    """Format a time as Java's Instant does, which leaves out a fraction of zero."""
    found = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{found}.{ms % 1000:03}Z" if ms % 1000 else f"{found}Z"


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """The body of a request from another worker, and its headers, looked up without regard to case."""

    headers: Mapping[str, str]
    body: bytes
