"""A JVM with Kafka Connect's own stores, and the states of ours in the form in which it shows its own."""

import base64
import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any, Self

from kafka_node import java_command
from penstock.connect.stores.configs.image import ClusterConfig
from penstock.connect.stores.configs.model import (
    Change,
    LoggerLevelSet,
    RestartRequested,
    SessionKey,
    SessionKeyUpdated,
    TasksUpdated,
)
from penstock.connect.stores.statuses.model import Status, TopicStatus

DRIVER = Path(__file__).with_name("ConnectStores.java")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"


class ConnectJvm:
    """The running program; a context manager. A command is a JSON array, and has one answer."""

    def __init__(self, libs: Path, servers: str) -> None:
        command = [*java_command(libs, str(DRIVER), QUIET), servers]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def ask(self, *command: object) -> Any:
        """Send a command and return its answer; a failed one fails the test."""
        answer = self.attempt(*command)
        assert not (isinstance(answer, dict) and "error" in answer), f"{command}: {answer}"
        return answer

    def attempt(self, *command: object) -> Any:
        """Send a command and return its answer, which is {"error": …} if Connect raised an exception."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the program ended with {self._process.poll()} at {command}"
        return json.loads(line)


def seeded() -> random.Random:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


def shown_config(state: ClusterConfig) -> dict[str, Any]:
    return {
        "offset": state.offset,
        "session_key": None if state.session_key is None else shown_key(state.session_key),
        "task_counts": state.task_counts,
        "connector_configs": state.connector_configs,
        "target_states": {name: each.value for name, each in state.target_states.items()},
        "task_configs": {str(task): each for task, each in state.task_configs.items()},
        "task_count_records": state.task_count_records,
        "task_config_generations": state.task_config_generations,
        "applied_connector_configs": state.applied_connector_configs,
        "pending_fencing": utf16_sorted(state.pending_fencing),
        "inconsistent": utf16_sorted(state.inconsistent),
        "tasks": {name: len(state.tasks(name)) for name in state.connector_configs},
    }


def utf16_sorted(names: frozenset[str]) -> list[str]:
    return sorted(names, key=lambda name: name.encode("utf-16-be"))


def shown_key(key: SessionKey) -> list[Any]:
    return [base64.b64encode(key.key).decode(), key.algorithm, key.created_ms]


def shown_change(change: Change) -> list[Any]:
    kind = type(change).__name__
    match change:
        case TasksUpdated():
            return [kind, [str(task) for task in change.tasks]]
        case SessionKeyUpdated():
            return [kind, shown_key(change.session_key)]
        case RestartRequested():
            request = change.request
            return [kind, request.connector, request.only_failed, request.include_tasks]
        case LoggerLevelSet():
            return [kind, change.namespace, change.level]
        case _:
            return [kind, change.connector]


def shown_status(status: Status) -> list[Any]:
    return [status.state.value, status.worker_id, status.generation, status.trace, status.version]


def shown_topic(status: TopicStatus) -> list[Any]:
    return [status.topic, status.connector, status.task, status.discovered_ms]
