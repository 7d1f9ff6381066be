"""The records that each operation writes to the config topic, byte for byte those of Connect 4.3."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.connect.data.json_text import to_json
from penstock.connect.stores.configs.model import RestartRequest, SessionKey, TargetState
from penstock.connect.stores.key_value import KeyValue

TARGET_STATE: Final = "target-state-"
CONNECTOR: Final = "connector-"
TASK: Final = "task-"
COMMIT: Final = "commit-"
RESTART: Final = "restart-connector-"
TASK_COUNT: Final = "tasks-fencing-"
SESSION_KEY: Final = "session-key"
LOGGER_LEVEL: Final = "logger-cluster-"

Properties = Mapping[str, str | None]


def connector_config(
    connector: str, properties: Properties, target_state: TargetState | None = None
) -> list[KeyValue]:
    """A connector's configuration; its initial state comes first, so that it never starts in another."""
    states = [] if target_state is None else [target_state_of(connector, target_state)]
    return [*states, _record(f"{CONNECTOR}{connector}", {"properties": properties})]


def connector_removal(connector: str) -> list[KeyValue]:
    """Tombstones of a connector's configuration and target state."""
    return [_record(f"{CONNECTOR}{connector}", None), _record(f"{TARGET_STATE}{connector}", None)]


def task_configs(connector: str, configs: Iterable[Properties]) -> list[KeyValue]:
    """The configurations of a connector's tasks, which count once `tasks_commit` follows."""
    return [
        _record(f"{TASK}{connector}-{number}", {"properties": properties})
        for number, properties in enumerate(configs)
    ]


def tasks_commit(connector: str, tasks: int) -> KeyValue:
    return _record(f"{COMMIT}{connector}", {"tasks": tasks})


def target_state_of(connector: str, state: TargetState) -> KeyValue:
    """A target state. Workers older than 3.5 do not know STOPPED, and read PAUSED in its place."""
    old = TargetState.PAUSED if state is TargetState.STOPPED else state
    return _record(f"{TARGET_STATE}{connector}", {"state": old.value, "state.v2": state.value})


def task_count(connector: str, tasks: int) -> KeyValue:
    """How many transactional producers a later generation of tasks has to fence (KIP-618)."""
    return _record(f"{TASK_COUNT}{connector}", {"task-count": tasks})


def session_key(key: SessionKey) -> KeyValue:
    value = {
        "key": base64.b64encode(key.key).decode(),
        "algorithm": key.algorithm,
        "creation-timestamp": key.created_ms,
    }
    return _record(SESSION_KEY, value)


def restart_request(request: RestartRequest) -> KeyValue:
    value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return _record(f"{RESTART}{request.connector}", value)


def logger_level(namespace: str, level: str) -> KeyValue:
    return _record(f"{LOGGER_LEVEL}{namespace}", {"level": level})


def _record(key: str, value: Mapping[str, object] | None) -> KeyValue:
    return KeyValue(key.encode(), to_json(value))
