"""Target states, restart requests and the session key in the config topic, and the changes of its records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.connect.task_id import ConnectorTaskId


class TargetState(Enum):
    """The state that a user wants a connector to be in."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key with which workers sign their requests to each other (KIP-507)."""

    key: bytes
    algorithm: str
    created_ms: int

    def __repr__(self) -> str:
        return f"SessionKey(algorithm={self.algorithm!r}, created_ms={self.created_ms})"


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A request to restart a connector and, by choice, its tasks (KIP-745)."""

    connector: str
    only_failed: bool = False
    include_tasks: bool = False


# What a record changed, for the listener of a store.


@dataclass(frozen=True, slots=True)
class ConnectorUpdated:
    """A connector has a configuration, which may be a new one."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector was deleted."""

    connector: str


@dataclass(frozen=True, slots=True)
class TasksUpdated:
    """New configurations of these tasks were committed; none if they were incomplete."""

    connector: str
    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """An existing connector has another target state."""

    connector: str


@dataclass(frozen=True, slots=True)
class SessionKeyUpdated:
    """The leader distributed a new session key."""

    session_key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A restart was requested."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class LoggerLevelSet:
    """The level of a logger and of those below it was set on all workers (KIP-976)."""

    namespace: str
    level: str


Change = (
    ConnectorUpdated
    | ConnectorRemoved
    | TasksUpdated
    | TargetStateChanged
    | SessionKeyUpdated
    | RestartRequested
    | LoggerLevelSet
)
