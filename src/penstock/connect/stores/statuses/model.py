"""The statuses of connectors, tasks and topics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.connect.task_id import ConnectorTaskId


class State(Enum):
    """The states of connectors and tasks. DESTROYED is never visible: it writes a tombstone."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Status:
    """The report of a worker about a connector or a task.

    ``generation`` is that of the workers' group when the worker wrote it, ``trace`` the stack trace of a
    failure, and ``version`` that of the plugin.
    """

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic that a connector has used, and the task that noticed it first (KIP-558)."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


Subject = str | ConnectorTaskId
"""The connector, by its name, or the task that a status is about."""
