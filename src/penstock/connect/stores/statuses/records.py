"""The records of the status topic, byte for byte those of Connect 4.3."""

from __future__ import annotations

from typing import Any, Final

from penstock.connect.data.json_text import from_json, to_json
from penstock.connect.errors import DataError
from penstock.connect.stores.key_value import KeyValue
from penstock.connect.stores.statuses.model import State, Status, Subject, TopicStatus
from penstock.connect.task_id import ConnectorTaskId

CONNECTOR: Final = "status-connector-"
TASK: Final = "status-task-"
TOPIC: Final = "status-topic-"
OF_CONNECTOR: Final = ":connector-"


def status(subject: Subject, status: Status) -> KeyValue:
    """The status of a connector or of a task; DESTROYED is a tombstone."""
    value = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    prefix = TASK if isinstance(subject, ConnectorTaskId) else CONNECTOR
    key = f"{prefix}{subject}".encode()
    return KeyValue(key, None if status.state is State.DESTROYED else to_json(value))


def topic_status(status: TopicStatus) -> KeyValue:
    """A topic that a connector uses."""
    value = {
        "name": status.topic,
        "connector": status.connector,
        "task": status.task,
        "discoverTimestamp": status.discovered_ms,
    }
    return KeyValue(_topic_key(status.connector, status.topic), to_json({"topic": value}))


def topic_removal(connector: str, topic: str) -> KeyValue:
    """The tombstone of a topic that a connector used."""
    return KeyValue(_topic_key(connector, topic), None)


def _topic_key(connector: str, topic: str) -> bytes:
    return f"{TOPIC}{topic}{OF_CONNECTOR}{connector}".encode()


def parse_status(value: bytes) -> Status:
    """Read the status of a connector or of a task. Raises DataError."""
    found = _mapping(from_json(value), "status")
    state, worker_id, generation = found.get("state"), found.get("worker_id"), found.get("generation")
    trace, version = found.get("trace"), found.get("version")
    if not isinstance(state, str) or state not in State.__members__:
        raise DataError(f"status: 'state' is {state!r}, expected one of {', '.join(State.__members__)}")
    if type(generation) is not int:
        raise DataError(f"status: 'generation' is {generation!r}, expected an integer")
    for name, text in (("worker_id", worker_id), ("trace", trace), ("version", version)):
        if text is not None and not isinstance(text, str):
            raise DataError(f"status: '{name}' is {text!r}, expected a string")
    return Status(State[state], worker_id or "", generation, trace, version)


def parse_topic_status(value: bytes) -> TopicStatus:
    """Read the status of a topic. Raises DataError."""
    found = _mapping(_mapping(from_json(value), "topic status").get("topic"), "topic status")
    topic, connector = found.get("name"), found.get("connector")
    task, discovered_ms = found.get("task"), found.get("discoverTimestamp")
    if not isinstance(topic, str) or not isinstance(connector, str):
        raise DataError(
            f"topic status: name {topic!r} and connector {connector!r} are expected to be strings"
        )
    if type(task) is not int or type(discovered_ms) is not int:
        raise DataError(f"topic status: task {task!r} and time {discovered_ms!r} are expected to be integers")
    return TopicStatus(topic, connector, task, discovered_ms)


def _mapping(content: Any, what: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise DataError(f"{what}: {content!r} is no object")
    return content
